// The three laws of programs against a whole agent: a verb returns 0 or not at all, no signal that a program can catch.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("[N106] e2e: a cleanup trap does not run at suspension, agent death or restart [V2]") {
  Box box;
  box.program("careful",
              "trap 'echo cleaned >> $OUT/cleaned' EXIT TERM INT HUP\n"
              "echo began >> $OUT/began\n"
              "bide wait approval 'Go?'\n"
              "bide step ship -- sh -c 'echo shipped >> \"$1\"' ship $OUT/shipped\n"
              "bide result done:=true\n");
  const std::string first = box.start("careful");
  box.suspended(first);
  CHECK(box.lines("began") == 1);
  CHECK(box.lines("cleaned") == 0);

  // The agent dies under a program that is still there: the linger has not passed.
  const std::string second = box.start("careful");
  box.wait_of(second);
  box.kill_agent();
  box.nothing_left();
  CHECK(box.lines("cleaned") == 0);
  box.serve();
  box.suspended(second);

  const std::string third = box.start("careful");
  box.wait_of(third);
  box.stop_agent();
  box.nothing_left();
  CHECK(box.lines("cleaned") == 0);
  box.serve();
  box.suspended(third);
  CHECK(box.lines("cleaned") == 0);

  for (const std::string& run : {first, second, third}) {
    box.decide(run, "approve");
    box.comes_to(run, "completed");
  }
  CHECK(box.lines("cleaned") == 3);  // at the ends that the program came to by itself
  CHECK(box.lines("shipped") == 3);
}

TEST_CASE("[N107] e2e: the agent is killed under a wait: neither branch of || and if runs [V1, V2]") {
  Box box;
  box.program("branches",
              "bide wait approval 'One?' || echo uninstalled >> $OUT/wrong\n"
              "if bide wait approval 'Two?' --name two; then echo yes >> $OUT/yes; else echo no >> $OUT/wrong; fi\n"
              "bide result done:=true\n");
  const std::string run = box.start("branches");
  for (int round = 0; round < 2; ++round) {
    box.wait_of(run);
    box.kill_agent();
    box.nothing_left();
    CHECK(box.lines("wrong") == 0);
    CHECK(box.lines("yes") == 0);
    box.serve();
    box.suspended(run);
    box.restart();
    box.decide(run, "approve");
  }
  box.comes_to(run, "completed");
  CHECK(box.lines("wrong") == 0);
  CHECK(box.lines("yes") == 1);
}

TEST_CASE("[N108] e2e: nothing runs after a denial, whatever stands around the verb [V1]") {
  Box box;
  const std::string after = "echo after >> $OUT/after\n";
  box.program("function", "f() { bide wait approval A; " + after + "}\nf || " + after + after, "");
  box.program("pipe", "bide wait approval A | cat\n" + after, "");
  box.program("local", "f() { local x=$(bide wait approval A); " + after + "}\nf\n" + after, "");
  box.program("plain", "bide wait approval A\n" + after, "");
  box.program("negated", "! bide wait approval A && " + after + after, "");
  box.program("background", "bide wait approval A &\nwait $!\n" + after, "");
  box.python("unchecked",
             "import subprocess\n"
             "subprocess.run(['bide', 'wait', 'approval', 'A'])\n"
             "open(OUT + '/after', 'a').write('after\\n')\n");
  box.program("try", "c=0; bide wait approval A --try || c=$?\necho $c >> $OUT/code\nbide result code:=$c\n");
  std::vector<std::string> runs;
  for (const char* name : {"function", "pipe", "local", "plain", "negated", "background", "unchecked"}) {
    runs.push_back(box.start(name));
  }
  const std::string tried = box.start("try");
  for (const std::string& run : runs) box.comes_to(run, "waiting");
  box.suspended(tried);
  for (const std::string& run : runs) {
    INFO("run " << run);
    const Finished done = box.bide({"deny", box.wait_of(run), "--comment", "not on a friday"});
    REQUIRE(done.exit.code == 0);
    const Json error = box.comes_to(run, "failed")["error"];
    CHECK(error.dump().find("not on a friday") != std::string::npos);
  }
  CHECK(box.lines("after") == 0);
  box.decide(tried, "deny");
  CHECK(box.comes_to(tried, "completed")["result"] == Json{{"code", 10}});
  CHECK(box.text("code") == "10\n");

  // In place too, while the program is still there.
  const std::string quick = box.start("plain");
  box.decide(quick, "deny");
  box.comes_to(quick, "failed");
  CHECK(box.lines("after") == 0);
}

TEST_CASE("[N108] e2e: nothing runs after a step that failed, with --try its code arrives [V1]") {
  Box box;
  box.program(
      "fails",
      "x=$(bide step break -- sh -c 'echo broke >> \"$1\"; echo no luck >&2; exit 3' break $OUT/broke) || true\n"
      "echo after >> $OUT/after\n",
      "");
  box.program("tries",
              "c=0; bide step break --try -- sh -c 'echo tried >> \"$1\"; exit 3' break $OUT/tried || c=$?\n"
              "bide wait approval A\n"
              "bide result code:=$c\n");
  const Json error = box.fails(box.start("fails"), "CommandFailed");
  CHECK(error.dump().find("no luck") != std::string::npos);
  CHECK(box.lines("broke") == 1);
  CHECK(box.lines("after") == 0);
  const std::string tried = box.start("tries");
  box.suspended(tried);
  box.decide(tried, "approve");
  CHECK(box.comes_to(tried, "completed")["result"] == Json{{"code", 3}});
  CHECK(box.lines("tried") == 1);  // the failure is recorded, not repeated
}

TEST_CASE("[N115] e2e: a while read loop ends before any effect and is told what to write") {
  Box box;
  const std::string list = "printf 'a\\nb\\nc\\n' | while read -r item; do\n  bide step conv --key $item ";
  const std::string rest =
      "-- sh -c 'echo \"$2\" >> \"$1\"' conv $OUT/conv $item || true\ndone\necho after >> $OUT/after\n";
  box.program("loses", list + rest);
  box.program("keeps", list + "--no-stdin " + rest);
  const Json error = box.fails(box.start("loses"), "StdinNotDeclared");
  CHECK(error["message"].get<std::string>().find("--no-stdin") != std::string::npos);
  CHECK(box.lines("conv") == 0);
  CHECK(box.lines("after") == 0);
  box.comes_to(box.start("keeps"), "completed");
  CHECK(box.text("conv") == "a\nb\nc\n");
}

TEST_CASE("[N116] e2e: what is swallowed elsewhere ends the run with its reason [V1]") {
  Box box;
  SECTION("a verb inside a step") {
    box.program("nested",
                "bide step outer -- sh -c 'echo began >> \"$1\"/began; bide step inner -- touch \"$1\"/inner || true; "
                "echo after >> \"$1\"/after' outer $OUT || true\necho after >> $OUT/after\n");
    box.fails(box.start("nested"), "NestedVerb");
    CHECK(box.lines("began") == 1);
    CHECK_FALSE(std::filesystem::exists(box.out("inner")));
    CHECK(box.lines("after") == 0);
  }
  SECTION("exit 0 with an open verb") {
    box.program("hasty", "bide wait approval A &\nuntil [ -e $OUT/go ]; do sleep 0.02; done\nexit 0\n");
    const std::string run = box.start("hasty");
    const std::string wait = box.wait_of(run);
    box.touch("go");
    const Json error = box.fails(run, "UnfinishedBranch");
    CHECK(error["message"].get<std::string>().find("wait") != std::string::npos);
    CHECK(box.bide({"approve", wait}).exit.code == 4);
  }
  SECTION("a verb that was killed with -9") {
    box.program("violent",
                "bide wait approval A & verb=$!\nuntil [ -e $OUT/go ]; do sleep 0.02; done\n"
                "kill -9 $verb; wait $verb\n"
                "bide step next -- touch $OUT/next\nbide result done:=true\n",
                "");
    const std::string run = box.start("violent");
    box.wait_of(run);
    box.touch("go");
    box.fails(run, "VerbKilled");
    CHECK_FALSE(std::filesystem::exists(box.out("next")));
  }
  SECTION("a verb killed with -9 whose program then ends with 0") {
    box.program("violent",
                "bide wait approval A & verb=$!\nuntil [ -e $OUT/go ]; do sleep 0.02; done\n"
                "kill -9 $verb; wait $verb\nexit 0\n",
                "");
    const std::string run = box.start("violent");
    box.wait_of(run);
    box.touch("go");
    box.fails(run, "VerbKilled");
  }
  SECTION("a typo in a flag") {
    box.program("typo", "bide step x --efect pure -- touch $OUT/typo || true\ntouch $OUT/after\n");
    const Json error = box.fails(box.start("typo"), "Usage");
    CHECK(error["message"].get<std::string>().find("--effect") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(box.out("typo")));
    CHECK_FALSE(std::filesystem::exists(box.out("after")));
  }
}

}  // namespace bide::test
