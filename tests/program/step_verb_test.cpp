// bide step, the real executable against an agent that the test plays.
#include <csignal>

#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "tests/program/process_support.h"
#include "tests/program/verb_world.h"

namespace bide::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST_CASE("A step prints exactly what is recorded, after it is, and does not run again") {
  World world;
  const auto first = world.run("bide step fetch --effect idempotent -- sh -c 'echo run >>ran; printf \"a\\nb\"'");
  CHECK(first.exit == Exit{0, 0});
  CHECK(first.out == "a\nb");
  const auto again = world.run(
      "x=$(bide step fetch --effect idempotent -- sh -c 'echo run >>ran; printf \"a\\nb\"') && echo \"[$x]\"");
  CHECK(again.out == "[a\nb]\n");
  CHECK(world.file("ran") == "run\n");
  const auto begun = world.agent.requests("steps");
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].token == "Bearer bat_7_3_secret");
  const json& body = begun[0].body;
  CHECK(body.at("name") == "fetch");
  CHECK(body.at("branch").get<std::string>().empty());
  CHECK(body.at("key").get<std::string>().empty());
  CHECK(body.at("effect") == "idempotent");
  CHECK(body.at("request") == json{{"argv", {"sh", "-c", "echo run >>ran; printf \"a\\nb\""}}});
  CHECK_FALSE(body.contains("retries"));  // what is not said, the manifest says
  CHECK(body.at("try") == false);
  CHECK(body.at("holder") == true);
  CHECK_FALSE(body.contains("timeout_ms"));
  const auto done = world.agent.requests("outcomes/n1");
  REQUIRE(done.size() == 1);
  CHECK(done[0].token == "Bearer bst_7_3_1_n1");
  CHECK(done[0].body == json{{"result", "a\nb"}, {"left", false}});
  eventually([&] { return !world.exists("n1"); }, "what is acknowledged is kept no longer");
}

TEST_CASE("The flags of a step arrive as the protocol names them") {
  World world;
  (void)world.run(
      "BIDE_BRANCH=eu; export BIDE_BRANCH; bide step --key k=1 --retries 3 --backoff 2s --timeout=1m "
      "--on-timeout fail --probe 'test -e x' --assume '{\"a\":1}' --try -- /bin/true");
  const json body = world.agent.requests("steps").at(0).body;
  CHECK(body.at("name") == "true");
  CHECK(body.at("branch") == "eu");
  CHECK(body.at("key") == "k=1");
  CHECK(body.at("effect") == "non_idempotent");
  CHECK(body.at("retries") == 3);
  CHECK(body.at("backoff_ms") == 2000);
  CHECK(body.at("timeout_ms") == 60000);
  CHECK(body.at("on_timeout") == "fail");
  CHECK(body.at("probe") == "test -e x");
  CHECK(body.at("assume") == json{{"a", 1}});
  CHECK(body.at("try") == true);
  CHECK(body.at("verb").get<std::string>().size() == 26);
}

TEST_CASE("The caller of a step is its folder and the variables that the program exported") {
  World world;
  (void)world.run("export sum=7; mkdir d; cd d; bide step a -- true");
  CHECK(world.agent.requests("steps").at(0).body.at("caller") == world.agent.dir().str("d") + "\nsum=7");
}

TEST_CASE("A step's command has its key and its own token, and no right to the journal") {
  World world;
  const auto done =
      world.run("bide step env -- sh -c 'env | grep BIDE_ | sort; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l'");
  const std::string expected = "BIDE_AGENT=" + world.agent.socket() +
                               "\nBIDE_IDEMPOTENCY_KEY=key-1\nBIDE_INPUT=" + world.agent.dir().str("input") +
                               "\nBIDE_RUN=7\nBIDE_STEP=bst_7_3_1_n1\n/dev/null\n4\n";
  CHECK(done.out == expected);
}

TEST_CASE("Bytes that are no text are the same bytes at replay") {
  World world;
  const std::string script = "bide step bytes -- printf '\\377\\000\\001x' | od -An -tx1";
  CHECK(world.run(script).out == " ff 00 01 78\n");
  CHECK(world.agent.requests("outcomes/n1").at(0).body.at("result") == json{{"base64", "/wABeA=="}});
  CHECK(world.run(script).out == " ff 00 01 78\n");
  CHECK(world.run("bide step nul -- printf 'a\\000b' | od -An -tx1").out == " 61 00 62\n");
}

TEST_CASE("The end of a step is its exit, not the end of its output") {
  World world;
  const auto tag = unique_tag();
  const auto began = std::chrono::steady_clock::now();
  const auto done = world.run("bide step daemon -- sh -c 'echo started; setsid sleep 30." + tag + " & exit 0'");
  CHECK(done.out == "started\n");
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(10));
  for (const int pid : running_with(tag)) ::kill(pid, SIGKILL);
}

TEST_CASE("Output over the limit is a failure that keeps its first bytes, and the command is not cut off") {
  World world;
  const auto done =
      world.run("bide step big --try -- sh -c 'head -c 1048577 /dev/zero | tr \"\\\\0\" a; touch finished'; echo $?");
  CHECK(world.exists("finished"));
  const json body = world.agent.requests("outcomes/n1").at(0).body;
  CHECK(body.at("error").at("code") == "ResultTooLarge");
  CHECK(body.at("error").at("stdout").get<std::string>().size() == limits::kKeptOfTooLarge);
  CHECK(body.at("retryable") == false);
  CHECK(body.at("unknown") == false);
  CHECK(done.out == std::string(limits::kKeptOfTooLarge, 'a') + "1\n");
  CHECK(world.run("bide step fits -- head -c 1048576 /dev/zero | wc -c").out == "1048576\n");
}

TEST_CASE("A failed command: its code with --try, its last lines in the error, retries as asked") {
  World world;
  const auto done = world.run(
      "bide step f --effect pure --retries 2 --try -- sh -c 'echo out; echo first >&2; echo last >&2; exit 3'; echo "
      "\"[$?]\"");
  CHECK(done.out == "out\n[3]\n");
  CHECK(done.err.find("last") != std::string::npos);
  CHECK(world.agent.requests("outcomes/n1").size() == 1);
  CHECK(world.agent.requests("outcomes/n2").size() == 1);
  const auto failed = world.agent.requests("outcomes/n3");
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].body.at("error") == json{{"code", "CommandFailed"},
                                           {"message", "sh exited with 3: last"},
                                           {"exit_code", 3},
                                           {"stdout", "out\n"},
                                           {"stderr", "first\nlast\n"}});
  CHECK(failed[0].body.at("retryable") == true);
}

TEST_CASE("What another try would only repeat is not retried") {
  World world;
  const int code = GENERATE(126, 127, 64, 78, 9);
  (void)world.run("bide step f --effect pure --retries 5 --no-retry-on 9,10 --try -- sh -c 'exit " +
                  std::to_string(code) + "'");
  const auto failed = world.agent.requests("outcomes/n1");
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].body.at("retryable") == false);
}

TEST_CASE("A command that is not there is no outcome") {
  World world;
  const std::string command = GENERATE("/nonexistent/x", "no-such-command-at-all", "./plain");
  write_file(world.agent.dir() / "plain", "echo\n");
  const json body = world.ends_with("bide step f -- " + command + " || touch after", "outcomes/n1");
  CHECK(body.at("error").at("code") == "NotFound");
  CHECK(body.at("error").at("message").get<std::string>().find(command) != std::string::npos);
  CHECK_FALSE(world.exists("after"));
}

TEST_CASE("A script without its first line runs, as in every shell") {
  World world;
  CHECK(world.run("echo 'echo ran $1' >s; chmod +x s; bide step s -- ./s x").out == "ran x\n");
}

TEST_CASE("[N123] a command that a signal ends has no outcome, whatever its effect class") {
  World world;
  const auto [effect, signal] =
      GENERATE(table<std::string, std::string>({{"pure", "KILL"}, {"idempotent", "SEGV"}, {"non_idempotent", "KILL"}}));
  const json body = world.ends_with(
      "bide step f --effect " + effect + " --retries 3 -- sh -c 'kill -" + signal + " $$' || touch after",
      "outcomes/n1");
  CHECK(body.at("unknown") == true);
  CHECK(body.at("retryable") == true);  // a failed attempt of a pure or idempotent step, retries count [E2]
  CHECK(body.at("error").at("code") == "CommandFailed");
  CHECK_FALSE(body.at("error").contains("exit_code"));
  CHECK_FALSE(world.exists("after"));
}

TEST_CASE("[N124] a timeout ends the command and all that it started, daemons too") {
  World world;
  const auto tag = unique_tag();
  const auto [effect, flag, unknown] =
      GENERATE(table<std::string, std::string, bool>({{"pure", "", false},
                                                      {"idempotent", "", false},
                                                      {"non_idempotent", "", true},
                                                      {"non_idempotent", "--on-timeout fail", false}}));
  Process process(world.agent.script(
      "bide step f --effect " + effect + " " + flag + " --timeout 300ms --try -- sh -c 'echo part; sleep 30." + tag +
      " & setsid sleep 31." + tag + " & ( ( setsid sleep 32." + tag + " & ) & ); touch up; wait'; echo \"[$?]\""));
  eventually([&] { return !world.agent.requests("outcomes/n1").empty(); }, "the timeout is reported");
  CHECK(running_with(tag).empty());
  const json body = world.agent.requests("outcomes/n1").at(0).body;
  CHECK(body.at("error").at("code") == "Timeout");
  CHECK(body.at("unknown") == unknown);
  if (!unknown) {
    eventually([&] { return !process.running(); }, "the script goes on");
    CHECK(process.out() == "part\n[124]\n");
  }
}

TEST_CASE("[N110] a probe: 0 ran with its output, 100 did not run, all else cannot tell") {
  World world;
  SECTION("0") {
    world.journal.probes["install/"] = "echo \"found $BIDE_IDEMPOTENCY_KEY $sum\"; pwd";
    const auto done = world.run("sum=9; export sum; bide step install --probe x -- touch ran");
    CHECK(done.out == "found key-1 9\n" + world.agent.dir().str() + "\n");
    CHECK_FALSE(world.exists("ran"));
    CHECK(world.agent.requests("steps/1/probe").at(0).body.at("nonce") == "n1");
  }
  SECTION("100") {
    world.journal.probes["install/"] = "exit 100";
    CHECK(world.run("bide step install --probe x -- touch ran").exit == Exit{0, 0});
    CHECK(world.exists("ran"));
  }
  SECTION("another code for did not run") {
    world.journal.probes["install/"] = "exit 4";
    CHECK(world.run("bide step install --probe x --probe-absent 4 -- touch ran").exit == Exit{0, 0});
    CHECK(world.exists("ran"));
  }
  SECTION("cannot tell") {
    world.journal.probes["install/"] =
        GENERATE("exit 1", "exit 2", "no-such-command", "kill -9 $$", "head -c 1048577 /dev/zero");
    const json body = world.ends_with("bide step install --probe x -- touch ran", "steps/1/probe");
    CHECK(body.at("verdict") == "cannot_tell");
    CHECK_FALSE(world.exists("ran"));
  }
}

TEST_CASE("[N115] a loop over stdin ends before any effect and is told what to write") {
  World world;
  const std::string around =
      GENERATE("printf 'a\\nb\\n' | while read -r f; do bide step s --key $f -- touch ran; done; touch after",
               "printf 'a\\n' >list; while read -r f; do bide step s -- touch ran || true; done <list",
               "echo x | bide step s -- touch ran || touch after");
  const json body = world.ends_with(around);
  CHECK(body.at("code") == "StdinNotDeclared");
  CHECK(body.at("message").get<std::string>().find("--no-stdin") != std::string::npos);
  CHECK(body.at("message").get<std::string>().find("--stdin") != std::string::npos);
  CHECK_FALSE(world.exists("ran"));
  CHECK_FALSE(world.exists("after"));
  CHECK(world.agent.requests("steps").empty());
}

TEST_CASE("[N115] stdin that is declared: read whole and part of the request, or not at all") {
  World world;
  CHECK(world.run("printf 'a\\nb' | bide step s --stdin -- tr a-z A-Z").out == "A\nB");
  CHECK(world.agent.requests("steps").at(0).body.at("request") ==
        json{{"argv", {"tr", "a-z", "A-Z"}}, {"stdin", "a\nb"}});
  CHECK(
      world
          .run(
              "printf '1\\n2\\n' | while read -r f; do bide step n --key $f --no-stdin -- sh -c \"cat; echo $f\"; done")
          .out == "1\n2\n");
  CHECK(world.run("bide step closed -- echo x <&-").out == "x\n");
  CHECK(world.run("bide step null -- echo x </dev/null").out == "x\n");
}

}  // namespace
}  // namespace bide::test
