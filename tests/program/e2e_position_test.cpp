// Positions of a program's entries when things run at once and come back in another order [V3], on a whole agent.
#include <catch2/catch.hpp>

#include <filesystem>
#include <set>
#include <sstream>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("[N109] e2e: xargs -P4 with --key: each item once, the same results at replay [V3]") {
  Box box;
  box.program(
      "convert",
      "seq 1 12 | xargs -P4 -I{} bide step conv --key {} -- sh -c 'echo \"$2\" >> \"$1\"; echo \"got $2\"' conv "
      "$OUT/conv {} > $OUT/seen.$$\n"
      "sort $OUT/seen.$$ > $OUT/sorted; echo attempt >> $OUT/attempts\n"
      "bide wait approval 'All?'\n"
      "bide result n:=$(wc -l < $OUT/sorted)\n");
  const std::string run = box.start("convert");
  box.suspended(run);
  const std::string first = box.text("sorted");
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"n", 12}});
  CHECK(box.lines("attempts") == 2);
  CHECK(box.text("sorted") == first);
  CHECK(first.find("got 7\n") != std::string::npos);
  std::istringstream effects(box.text("conv"));
  std::multiset<std::string> items;
  for (std::string item; std::getline(effects, item);) items.insert(item);
  CHECK(items.size() == 12);
  CHECK(std::set<std::string>(items.begin(), items.end()).size() == 12);
}

TEST_CASE("[N109] e2e: two open steps that nothing tells apart: AmbiguousPosition [V3]") {
  Box box;
  box.program(
      "twins",
      "for i in 1 2; do\n"
      "  bide step same -- sh -c 'echo x >> \"$1\"/same; until [ -e \"$1\"/go ]; do sleep 0.02; done' same $OUT &\n"
      "  until [ -e $OUT/same ]; do sleep 0.02; done\n"  // the second one comes while the first executes
      "done\nwait\necho after >> $OUT/after\n",
      "");
  const std::string run = box.start("twins");
  eventually(
      [&] {
        return box.bide({"explain", run}).out.find("AmbiguousPosition") != std::string::npos ||
               !box.show(run)["error"].is_null();
      },
      [&] {
        return "the end is written: " + box.show(run).dump(1) + box.bide({"explain", run}).out;
      });
  // One executes, unless the end was written before its command was told to begin.
  eventually([&] { return box.lines("same") == 1 || box.status(run) == "failed"; }, "one executes, or none");
  box.touch("go");  // the one that executes is let finish
  const Json error = box.fails(run, "AmbiguousPosition");
  CHECK(error["message"].get<std::string>().find("--key") != std::string::npos);
  CHECK(box.lines("same") <= 1);
  CHECK(box.lines("after") == 0);
  if (box.lines("same") == 1) CHECK(box.json({"journal", run})["items"][0]["status"] == "completed");
}

TEST_CASE("[N109] e2e: a loop whose order changes: AmbiguousPosition, and nothing runs [V3]") {
  Box box;
  SECTION("equal arguments in other folders") {
    box.program("loop",
                "for d in $(cat $OUT/order); do\n"
                "  mkdir -p $d; ( cd $d; bide step build -- sh -c 'pwd >> \"$1\"' build $OUT/built )\n"
                "done\nbide wait approval 'Go?'\necho after >> $OUT/after\n");
  }
  SECTION("other arguments") {
    box.program("loop",
                "for d in $(cat $OUT/order); do\n"
                "  bide step build -- sh -c 'echo \"$2\" >> \"$1\"' build $OUT/built $d\n"
                "done\nbide wait approval 'Go?'\necho after >> $OUT/after\n");
  }
  write_file(box.out("order"), "one two\n");
  const std::string run = box.start("loop");
  box.suspended(run);
  CHECK(box.lines("built") == 2);
  write_file(box.out("order"), "two one\n");
  box.decide(run, "approve");
  box.fails(run, "AmbiguousPosition");
  CHECK(box.lines("built") == 2);
  CHECK(box.lines("after") == 0);
}

TEST_CASE("[N109] e2e: a key that changes from attempt to attempt: NonDeterminism, and nothing is paid twice [V3]") {
  Box box;
  box.program("pays",
              "bide step pay --key $$ -- sh -c 'echo paid >> \"$1\"' pay $OUT/paid\n"
              "bide wait approval 'Go?'\necho after >> $OUT/after\n");
  const std::string run = box.start("pays");
  box.suspended(run);
  CHECK(box.lines("paid") == 1);
  box.decide(run, "approve");
  const Json error = box.fails(run, "NonDeterminism");
  CHECK(error["message"].get<std::string>().find("the key of pay was ") != std::string::npos);
  CHECK(box.lines("paid") == 1);
  CHECK(box.lines("after") == 0);
}

TEST_CASE("[N109] e2e: a ThreadPool of Python, with a key each: each item once, the same results at replay [V3]") {
  Box box;
  box.python("pool",
             "import concurrent.futures, os, subprocess\n"
             "def convert(item):\n"
             "    command = ['sh', '-c', 'echo \"$2\" >> \"$1\"; echo \"got $2\"', 'conv', OUT + '/conv', str(item)]\n"
             "    return subprocess.run(['bide', 'step', 'conv', '--key', str(item), '--', *command],\n"
             "                          stdout=subprocess.PIPE, check=True, text=True).stdout\n"
             "with concurrent.futures.ThreadPoolExecutor(4) as pool:\n"
             "    results = list(pool.map(convert, range(12)))\n"
             "open(OUT + '/attempts', 'a').write('attempt\\n')\n"
             "open(OUT + '/results', 'a').write(''.join(results))\n"
             "subprocess.run(['bide', 'wait', 'approval', 'All?'], stdout=subprocess.DEVNULL, check=True)\n"
             "subprocess.run(['bide', 'result', 'n:=%d' % len(results)], check=True)\n");
  const std::string run = box.start("pool");
  box.suspended(run);
  const std::string first = box.text("results");
  CHECK(first.find("got 11\n") != std::string::npos);
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"n", 12}});
  CHECK(box.lines("attempts") == 2);
  CHECK(box.text("results") == first + first);
  CHECK(box.lines("conv") == 12);
}

TEST_CASE(
    "[N109] e2e: a file that appears between two attempts of a loop over a folder: the same results, or ambiguous "
    "[V3]") {
  Box box;
  std::filesystem::create_directories(box.out("in"));
  for (const char* file : {"in/a", "in/c"}) box.touch(file);
  const auto loop = [&](const std::string& name, const std::string& key) {
    box.program(name, "cd $OUT/in\nfor f in *; do\n  bide step conv " + key +
                          "-- sh -c 'echo \"$2\" >> \"$1\"; echo \"got $2\"' "
                          "conv $OUT/conv." +
                          name + " \"$f\"\ndone > $OUT/seen\nmv $OUT/seen $OUT/seen." + name +
                          "\nbide wait approval 'Go?'\necho after >> $OUT/after." + name +
                          "\nbide result done:=true\n");
  };
  loop("keyed", "--key \"$f\" ");
  loop("plain", "");
  const std::string keyed = box.start("keyed");
  box.suspended(keyed);
  const std::string plain = box.start("plain");
  box.suspended(plain);
  CHECK(box.text("seen.keyed") == "got a\ngot c\n");
  box.touch("in/b");
  box.decide(keyed, "approve");
  box.comes_to(keyed, "completed");
  CHECK(box.text("seen.keyed") == "got a\ngot b\ngot c\n");
  CHECK(box.text("conv.keyed") == "a\nc\nb\n");
  box.decide(plain, "approve");
  const Json error = box.fails(plain, "AmbiguousPosition");
  CHECK(error["message"].get<std::string>().find("--key") != std::string::npos);
  CHECK(box.text("conv.plain") == "a\nc\n");
  CHECK(box.lines("after.plain") == 0);
}

}  // namespace bide::test
