// The workflow verbs, the real executable against an agent that the test plays.
#include <fcntl.h>

#include <csignal>

#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "tests/program/fake_agent.h"
#include "tests/program/process_support.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

struct World {
  FakeJournal journal;
  FakeAgent agent{[this](const AgentRequest& request) { return journal(request); }};

  Finished run(const std::string& text) { return test::run(agent.script(text), std::chrono::seconds(15)); }
  // Runs a script of which nothing may come after the verb in it: it is over when the agent was told the end.
  json ends_with(const std::string& text, const char* operation = "end") {
    Process process(agent.script(text));
    eventually([&] { return !agent.requests(operation).empty(); },
               [&] { return "a request to " + std::string(operation) + "; out " + process.out() + " err " + process.err(); });
    CHECK_FALSE(process.wait(milliseconds(100)));  // it does not return, whatever stands around it
    CHECK(process.out().empty());
    return agent.requests(operation).back().body;
  }
  [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(agent.dir() / name); }
  [[nodiscard]] std::string file(const std::string& name) const { return read_file(agent.dir() / name); }
};

TEST_CASE("A step prints exactly what is recorded, after it is, and does not run again") {
  World world;
  const auto first = world.run("bide step fetch --effect idempotent -- sh -c 'echo run >>ran; printf \"a\\nb\"'");
  CHECK(first.exit == Exit{0, 0});
  CHECK(first.out == "a\nb");
  const auto again = world.run("x=$(bide step fetch --effect idempotent -- sh -c 'echo run >>ran; printf \"a\\nb\"') && echo \"[$x]\"");
  CHECK(again.out == "[a\nb]\n");
  CHECK(world.file("ran") == "run\n");
  const auto begun = world.agent.requests("steps");
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].token == "Bearer bat_7_3_secret");
  const json& body = begun[0].body;
  CHECK(body.at("name") == "fetch");
  CHECK(body.at("branch") == "");
  CHECK(body.at("key") == "");
  CHECK(body.at("effect") == "idempotent");
  CHECK(body.at("request") == json{{"argv", {"sh", "-c", "echo run >>ran; printf \"a\\nb\""}}});
  CHECK(body.at("retries") == 0);
  CHECK(body.at("try") == false);
  CHECK_FALSE(body.contains("timeout_ms"));
  const auto done = world.agent.requests("steps/1/complete");
  REQUIRE(done.size() == 1);
  CHECK(done[0].body == json{{"nonce", "n1"}, {"result", "a\nb"}});
}

TEST_CASE("The flags of a step arrive as the protocol names them") {
  World world;
  (void)world.run("BIDE_BRANCH=eu; export BIDE_BRANCH; bide step --key k=1 --retries 3 --backoff 2s --timeout=1m "
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
  const auto done = world.run("bide step env -- sh -c 'env | grep BIDE_ | sort; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l'");
  const std::string expected = "BIDE_AGENT=" + world.agent.socket() + "\nBIDE_IDEMPOTENCY_KEY=key-1\nBIDE_INPUT=" +
                               world.agent.dir().str("input") + "\nBIDE_RUN=7\nBIDE_STEP=bst_7_3_1_n1\n/dev/null\n4\n";
  CHECK(done.out == expected);
}

TEST_CASE("Bytes that are no text are the same bytes at replay") {
  World world;
  const std::string script = "bide step bytes -- printf '\\377\\000\\001x' | od -An -tx1";
  CHECK(world.run(script).out == " ff 00 01 78\n");
  CHECK(world.agent.requests("steps/1/complete").at(0).body.at("result") == json{{"base64", "/wABeA=="}});
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
  const auto done = world.run("bide step big --try -- sh -c 'head -c 1048577 /dev/zero | tr \"\\\\0\" a; touch finished'; echo $?");
  CHECK(world.exists("finished"));
  const json body = world.agent.requests("steps/1/fail").at(0).body;
  CHECK(body.at("error").at("code") == "ResultTooLarge");
  CHECK(body.at("error").at("stdout").get<std::string>().size() == limits::kKeptOfTooLarge);
  CHECK(body.at("retryable") == false);
  CHECK(body.at("unknown") == false);
  CHECK(done.out == std::string(limits::kKeptOfTooLarge, 'a') + "1\n");
  CHECK(world.run("bide step fits -- head -c 1048576 /dev/zero | wc -c").out == "1048576\n");
}

TEST_CASE("A failed command: its code with --try, its last lines in the error, retries as asked") {
  World world;
  const auto done = world.run("bide step f --effect pure --retries 2 --try -- sh -c 'echo out; echo first >&2; echo last >&2; exit 3'; echo \"[$?]\"");
  CHECK(done.out == "out\n[3]\n");
  CHECK(done.err.find("last") != std::string::npos);
  const auto failed = world.agent.requests("steps/1/fail");
  REQUIRE(failed.size() == 3);
  CHECK(failed[0].body.at("nonce") == "n1");
  CHECK(failed[2].body.at("nonce") == "n3");
  CHECK(failed[2].body.at("error") == json{{"code", "CommandFailed"}, {"message", "sh exited with 3: last"}, {"exit_code", 3},
                                           {"stdout", "out\n"}, {"stderr", "first\nlast\n"}});
  CHECK(failed[2].body.at("retryable") == true);
}

TEST_CASE("What another try would only repeat is not retried") {
  World world;
  const int code = GENERATE(126, 127, 64, 78, 9);
  (void)world.run("bide step f --effect pure --retries 5 --no-retry-on 9,10 --try -- sh -c 'exit " + std::to_string(code) + "'");
  const auto failed = world.agent.requests("steps/1/fail");
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].body.at("retryable") == false);
}

TEST_CASE("A command that is not there is no outcome") {
  World world;
  const std::string command = GENERATE("/nonexistent/x", "no-such-command-at-all", "./plain");
  write_file(world.agent.dir() / "plain", "echo\n");
  const json body = world.ends_with("bide step f -- " + command + " || touch after", "steps/1/fail");
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
  const auto [effect, signal] = GENERATE(table<std::string, std::string>({{"pure", "KILL"}, {"idempotent", "SEGV"},
                                                                          {"non_idempotent", "KILL"}}));
  const json body = world.ends_with("bide step f --effect " + effect + " --retries 3 -- sh -c 'kill -" + signal + " $$' || touch after",
                                    "steps/1/fail");
  CHECK(body.at("unknown") == true);
  CHECK(body.at("error").at("code") == "CommandFailed");
  CHECK_FALSE(body.at("error").contains("exit_code"));
  CHECK_FALSE(world.exists("after"));
}

TEST_CASE("[N124] a timeout ends the command and all that it started, daemons too") {
  World world;
  const auto tag = unique_tag();
  const auto [effect, flag, unknown] = GENERATE(table<std::string, std::string, bool>({{"pure", "", false},
                                                                                       {"idempotent", "", false},
                                                                                       {"non_idempotent", "", true},
                                                                                       {"non_idempotent", "--on-timeout fail", false}}));
  Process process(world.agent.script("bide step f --effect " + effect + " " + flag + " --timeout 300ms --try -- sh -c 'echo part; sleep 30." + tag +
                                     " & setsid sleep 31." + tag + " & ( ( setsid sleep 32." + tag + " & ) & ); touch up; wait'; echo \"[$?]\""));
  eventually([&] { return !world.agent.requests("steps/1/fail").empty(); }, "the timeout is reported");
  CHECK(running_with(tag).empty());
  const json body = world.agent.requests("steps/1/fail").at(0).body;
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
    world.journal.probes["install/"] = GENERATE("exit 1", "exit 2", "no-such-command", "kill -9 $$", "head -c 1048577 /dev/zero");
    const json body = world.ends_with("bide step install --probe x -- touch ran", "steps/1/probe");
    CHECK(body.at("verdict") == "cannot_tell");
    CHECK_FALSE(world.exists("ran"));
  }
}

TEST_CASE("[N115] a loop over stdin ends before any effect and is told what to write") {
  World world;
  const std::string around = GENERATE("printf 'a\\nb\\n' | while read -r f; do bide step s --key $f -- touch ran; done; touch after",
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
  CHECK(world.agent.requests("steps").at(0).body.at("request") == json{{"argv", {"tr", "a-z", "A-Z"}}, {"stdin", "a\nb"}});
  CHECK(world.run("printf '1\\n2\\n' | while read -r f; do bide step n --key $f --no-stdin -- sh -c \"cat; echo $f\"; done").out == "1\n2\n");
  CHECK(world.run("bide step closed -- echo x <&-").out == "x\n");
  CHECK(world.run("bide step null -- echo x </dev/null").out == "x\n");
}

TEST_CASE("[N116] a verb inside a step ends the run, whatever is put around it") {
  World world;
  const std::string verb = GENERATE("bide step inner -- true", "bide wait approval x", "bide sleep 1s", "bide value uuid", "bide result a=b");
  const json body = world.ends_with("bide step outer -- sh -c '" + verb + " || true; touch after'; touch after");
  CHECK(body.at("code") == "NestedVerb");
  CHECK(world.agent.requests("end").at(0).token == "Bearer bst_7_3_1_n1");
  CHECK_FALSE(world.exists("after"));
}

TEST_CASE("Inside a step input and progress work") {
  World world;
  write_file(world.agent.dir() / "input", R"({"url":"x"})");
  CHECK(world.run("bide step outer -- sh -c 'bide input url; bide progress 40 copying'").out == "x\n");
  const auto said = world.agent.requests("progress");
  REQUIRE(said.size() == 1);
  CHECK(said[0].body == json{{"percent", 40}, {"text", "copying"}});
  CHECK(said[0].token == "Bearer bst_7_3_1_n1");
}

TEST_CASE("[N116] wrong usage inside an attempt ends the run with a sentence that helps") {
  World world;
  const auto [call, says] = GENERATE(table<std::string, std::string>({
      {"bide step --efect pure -- true", "did you mean --effect?"},
      {"bide step a --effect wrong -- true", "pure, idempotent, non_idempotent"},
      {"bide step a", "after --"},
      {"bide step a b -- true", "one name"},
      {"bide step a --timeout 10 -- true", "10s"},
      {"bide step a --assume nope -- true", "JSON"},
      {"bide step a --stdin --no-stdin -- true", "not both"},
      {"bide wait approval", "one text"},
      {"bide wait approval one two", "quotes"},
      {"bide wait approval x --default maybe", "approved, denied"},
      {"bide wait aproval x", "bide wait approval TEXT"},
      {"bide sleep 10", "1h30m"},
      {"bide sleep --until tomorrow", "2027"},
      {"bide value moon", "uuid"},
      {"bide result a", "no field"},
      {"bide result a=1 a=2", "twice"},
      {"bide result a:=nope", "JSON"},
      {"bide progress 101", "100"},
      {"bide stpe a -- true", "bide step"},
      {"bide run other", "bide step run --effect idempotent"},
      {"bide approve 7", "step"},
      {"bide cancel 7", "step"},
      {"bide signal 7 go", "step"},
  }));
  INFO(call);
  const json body = world.ends_with(call + " || true; touch after");
  CHECK(body.at("code") == "Usage");
  INFO(body.at("message").get<std::string>());
  CHECK(body.at("message").get<std::string>().find(says) != std::string::npos);
  CHECK_FALSE(world.exists("after"));
}

TEST_CASE("Outside an attempt a workflow verb says so and exits with 2") {
  World world;
  auto command = world.agent.script("bide step a -- true");
  std::erase_if(command.env, [](const auto& variable) { return variable.first == "BIDE_ATTEMPT"; });
  const auto done = test::run(command);
  CHECK(done.exit == Exit{2, 0});
  CHECK(done.err.find("bide run") != std::string::npos);
  CHECK(world.agent.requests().empty());
}

TEST_CASE("Waits print what was decided") {
  World world;
  world.journal.answers = {{"approval", {{"outcome", "approved"}, {"result", {{"decision", "approved"}}}}},
                           {"q", {{"outcome", "answered"}, {"result", "two words"}}},
                           {"n", {{"outcome", "answered"}, {"result", 42}}},
                           {"go", {{"outcome", "signal"}, {"result", {{"a", 1}}}}},
                           {"timer", {{"outcome", "woke"}, {"result", {{"woke_at", 5}}}}}};
  CHECK(world.run("bide wait approval 'Install?' --quorum 2 --not-initiator --data '{\"x\":1}' --timeout 2d").out == "{\"decision\":\"approved\"}\n");
  CHECK(world.run("bide wait question 'Which?' --name q --option a --option b").out == "two words\n");
  CHECK(world.run("bide wait question 'Which?' --name q --json").out == "\"two words\"\n");
  CHECK(world.run("echo '{\"type\":\"integer\"}' >s; bide wait question 'Many?' --name n --schema s --default 3").out == "42\n");
  CHECK(world.run("bide wait signal go --timeout 1h").out == "{\"a\":1}\n");
  CHECK(world.run("bide sleep 1h30m; bide sleep --until 2027-01-31T08:00:00Z").out.empty());
  const auto asked = world.agent.requests("waits");
  CHECK(asked.at(0).body.at("request") == json{{"text", "Install?"}, {"quorum", 2}, {"policy", "not_initiator"}, {"data", {{"x", 1}}}});
  CHECK(asked.at(0).body.at("timeout_ms") == 172'800'000);
  CHECK(asked.at(1).body.at("request") == json{{"text", "Which?"}, {"options", {"a", "b"}}});
  CHECK(asked.at(3).body.at("request") == json{{"text", "Many?"}, {"schema", {{"type", "integer"}}}});
  CHECK(asked.at(3).body.at("default") == 3);
  CHECK(asked.at(4).body.at("name") == "go");
  CHECK(asked.at(5).body.at("request") == json{{"sleep_ms", 5'400'000}});
  CHECK(asked.at(6).body.at("request") == json{{"until", "2027-01-31T08:00:00Z"}});
}

TEST_CASE("[N108] a denial does not return without --try, and is a code with it") {
  World world;
  world.journal.answers = {{"no", {{"outcome", "denied"}, {"result", {{"decision", "denied"}}}}},
                           {"change", {{"outcome", "changes_requested"}, {"result", {{"comment", "c"}}}}},
                           {"late", {{"outcome", "expired"}, {"result", {{"expired", true}}}}}};
  SECTION("codes") {
    CHECK(world.run("for n in no change late; do bide wait approval x --name $n --try >/dev/null; echo $?; done").out == "10\n11\n12\n");
  }
  SECTION("no way around it") {
    const std::string script = GENERATE("f() { bide wait approval x --name no; touch after; }; f || touch after; touch after",
                                        "bide wait approval x --name no | cat; touch after",
                                        "g() { local x=$(bide wait approval x --name no); touch after; }; g",
                                        "if bide wait approval x --name late; then touch after; else touch after; fi",
                                        "python3 -c 'import subprocess; subprocess.run([\"bide\",\"wait\",\"approval\",\"x\",\"--name\",\"no\"]); open(\"after\",\"w\")'");
    Process process(world.agent.script(script));
    eventually([&] { return !world.agent.requests("waits").empty(); }, "the wait is asked");
    CHECK_FALSE(process.wait(milliseconds(300)));
    CHECK_FALSE(world.exists("after"));
  }
  SECTION("an answer that should not have come does not let it go on either") {
    FakeAgent wrong([](const AgentRequest& request) -> std::optional<AgentAnswer> {
      if (request.operation == "end") return AgentAnswer{200, {{"state", "ok"}}};  // it stays even so
      return AgentAnswer{200, {{"state", "settled"}, {"outcome", "denied"}, {"result", nullptr}}};
    });
    Process process(wrong.script("bide wait approval x || true; touch after"));
    eventually([&] { return !wrong.requests("end").empty(); }, "the run is ended");
    CHECK_FALSE(process.wait(milliseconds(100)));
    CHECK_FALSE(std::filesystem::exists(wrong.dir() / "after"));
  }
}

TEST_CASE("[N107] a verb whose agent dies says nothing, runs no branch, and goes on when it is back") {
  World world;
  Process process(world.agent.script("if bide wait approval x; then echo yes; else echo no; fi; bide wait approval y --name never || touch uninstalled"));
  eventually([&] { return world.agent.requests("waits").size() == 1; }, "the wait is asked");
  world.agent.stop();
  CHECK_FALSE(process.wait(milliseconds(300)));
  CHECK(process.out().empty());
  CHECK(process.err().empty());
  world.journal.answers["approval"] = {{"outcome", "approved"}, {"result", {{"decision", "approved"}}}};
  world.agent.start();
  eventually([&] { return process.out() == "{\"decision\":\"approved\"}\nyes\n"; }, "it is answered");
  const auto asked = world.agent.requests("waits");
  CHECK(asked.at(0).body == asked.at(1).body);  // with the same "verb": it is no second one
  world.agent.stop();
  CHECK_FALSE(process.wait(milliseconds(200)));
  CHECK(process.err().empty());
  CHECK_FALSE(world.exists("uninstalled"));
}

TEST_CASE("What passes by itself is tried again, an outcome too") {
  FakeJournal journal;
  int refused = 0;
  FakeAgent agent([&](const AgentRequest& request) -> std::optional<AgentAnswer> {
    if (refused < 4) {
      static constexpr int kStatus[] = {503, 0, 507, 429};
      return AgentAnswer{kStatus[refused++], {{"code", "storage_full"}}};
    }
    if (request.operation == "steps/1/complete" && refused++ == 4) return AgentAnswer{0, {}};
    return journal(request);
  });
  const auto done = test::run(agent.script("bide step a -- sh -c 'echo x | tee -a ran'"));
  CHECK(done.out == "x\n");
  CHECK(done.err.empty());
  CHECK(read_file(agent.dir() / "ran") == "x\n");
  CHECK(agent.requests("steps").size() == 5);
  CHECK(agent.requests("steps/1/complete").size() == 2);
}

TEST_CASE("A refusal ends the run with its code, a lost lease keeps silent, and neither returns") {
  const auto [status, code, ended] = GENERATE(table<int, std::string, bool>({{422, "AmbiguousPosition", true}, {413, "too_large", true},
                                                                             {409, "lease_lost", false}, {401, "unauthorized", true}}));
  FakeAgent agent([status = status, code = code](const AgentRequest& request) -> std::optional<AgentAnswer> {
    if (request.operation == "end") return AgentAnswer{409, {{"code", "lease_lost"}}};
    return AgentAnswer{status, {{"code", code}, {"detail", "because"}}};
  });
  Process process(agent.script("bide wait signal x || true; touch after"));
  eventually([&] { return !agent.requests(ended ? "end" : "waits").empty(); }, "it has asked");
  CHECK_FALSE(process.wait(milliseconds(150)));
  CHECK_FALSE(std::filesystem::exists(agent.dir() / "after"));
  if (ended) {
    CHECK(agent.requests("end").at(0).body == json{{"code", code}, {"message", "because"}});
  } else {
    CHECK(agent.requests("end").empty());
    CHECK(process.err().empty());
  }
}

TEST_CASE("[N116] a verb in an attempt does not die of the signals that a program sends") {
  World world;
  Process process(world.agent.script("timeout -s TERM 0.2 bide wait approval x || touch after"));
  eventually([&] { return world.agent.requests("waits").size() == 1; }, "the wait is asked");
  const auto verbs = running_with("wait\0approval", "bide");
  for (const int pid : running_with(world.agent.dir().str(), "bide")) ::kill(pid, SIGINT);
  CHECK_FALSE(process.wait(milliseconds(500)));
  CHECK_FALSE(world.exists("after"));
}

TEST_CASE("A program that ignores SIGCHLD gets its steps all the same") {
  World world;
  CHECK(world.run("trap '' CHLD; bide step a -- sh -c 'sh -c true; echo $?'").out == "0\n");
}

TEST_CASE("Inputs by name, pointer and path") {
  World world;
  write_file(world.agent.dir() / "input", R"({"url":"http://x/ü","n":10.50,"deep":{"a.b":[1,{"c":"d"}]},"none":null})");
  CHECK(world.run("bide input").out == R"({"url":"http://x/ü","n":10.50,"deep":{"a.b":[1,{"c":"d"}]},"none":null})" "\n");
  CHECK(world.run("bide input url").out == "http://x/ü\n");
  CHECK(world.run("bide input url --json").out == "\"http://x/ü\"\n");
  CHECK(world.run("bide input n").out == "10.50\n");
  CHECK(world.run("bide input /deep/a.b/1/c").out == "d\n");
  CHECK(world.run("bide input .deep").out == "{\"a.b\":[1,{\"c\":\"d\"}]}\n");
  CHECK(world.run("bide input none").out == "null\n");
  CHECK(world.run("bide input missing --default 5").out == "5\n");
  CHECK(world.ends_with("bide input missing || true").at("code") == "InputMissing");
}

TEST_CASE("Results by field, as one text, from a file and from stdin") {
  World world;
  const auto result = [&](const std::string& call) {
    CHECK(world.run(call).exit == Exit{0, 0});
    return world.agent.requests("result").back().body.at("result");
  };
  CHECK(result("echo '[1]' >f.json; bide result installed='a=b' count:=3 list:=@f.json empty=") ==
        json{{"installed", "a=b"}, {"count", 3}, {"list", {1}}, {"empty", ""}});
  CHECK(result("bide result '{\"a\":\"x=y\"}'") == json{{"a", "x=y"}});
  CHECK(result("bide result --text 'all well'") == "all well");
  CHECK(result("echo '{\"a\":1}' | bide result -") == json{{"a", 1}});
  CHECK(result("bide result 5") == 5);
}

TEST_CASE("Values are the journal's") {
  World world;
  CHECK(world.run("bide value uuid --key a").out == "v-uuid\n");
  const json body = world.agent.requests("values").at(0).body;
  CHECK(body.at("name") == "uuid");
  CHECK(body.at("key") == "a");
}

TEST_CASE("The front is static and hands every other verb to bide-agent beside it") {
  TempDir dir;
  std::filesystem::copy(BIDE_EXECUTABLE, dir / "bide");
  write_file(dir / "bide-agent", "#!/bin/sh\necho \"agent: $*\"\nexit 7\n");
  std::filesystem::permissions(dir / "bide-agent", std::filesystem::perms::owner_all);
  const auto done = test::run({.argv = {dir.str("bide"), "runs", "--json", "a b"}});
  CHECK(done.exit == Exit{7, 0});
  CHECK(done.out == "agent: runs --json a b\n");
  CHECK(test::run({.argv = {"readelf", "-l", BIDE_EXECUTABLE}}).out.find("INTERP") == std::string::npos);
}

}  // namespace
}  // namespace bide::test
