// The laws of all verbs, and those beside step: the real executable against an agent that the test plays.
#include <csignal>

#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "tests/program/process_support.h"
#include "tests/program/verb_world.h"

namespace bide::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST_CASE("[N116] a verb inside a step ends the run, whatever is put around it") {
  World world;
  const std::string verb =
      GENERATE("bide step inner -- true", "bide wait approval x", "bide sleep 1s", "bide value uuid", "bide result a=b",
               "bide call other", "bide state get a", "bide continue-as-new", "bide send http://127.0.0.1/");
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
      {"bide call", "one workflow"},
      {"bide call a b", "one workflow"},
      {"bide call a --input nope", "JSON"},
      {"bide call a --input @nowhere", "nowhere"},
      {"bide state put a b", "bide state set NAME VALUE"},
      {"bide state set a", "a name and a value"},
      {"bide state set a nope --json", "JSON"},
      {"bide state get", "one name"},
      {"bide continue-as-new again", "--input"},
      {"bide continue-as-new --input nope", "JSON"},
      {"bide wait any", "one at least"},
      {"bide wait any go", "flags only"},
      {"bide wait any --timer 10", "10s"},
      {"bide wait any --aproval x", "did you mean --approval?"},
      {"bide send nowhere", "http"},
      {"bide each --key-from list -- echo", "no {}"},
      {"bide each -- echo {}", "--key-from"},
      {"echo a >list; bide each --key-from list -P 0 -- echo {}", "at least 1"},
      {"bide each --key-from list", "after --"},
      {"bide send http://x --data nope", "JSON"},
      {"bide stpe a -- true", "bide step"},
      {"bide run other", "bide step start --effect idempotent"},
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

TEST_CASE("Each workflow verb has its help, outside a workflow and inside, and asks nothing for it") {
  World world;
  const std::string verb = GENERATE("step", "each", "wait", "sleep", "call", "send", "value", "state",
                                    "continue-as-new", "input", "result", "progress");
  INFO(verb);
  auto command = world.agent.script("bide " + verb + " --help");
  const auto inside = test::run(command);
  std::erase_if(command.env, [](const auto& variable) { return variable.first == "BIDE_ATTEMPT"; });
  const auto outside = test::run(command);
  CHECK(inside.exit == Exit{0, 0});
  CHECK(outside.exit == Exit{0, 0});
  CHECK(inside.out == outside.out);
  CHECK(outside.out.find("Usage: bide " + verb) != std::string::npos);
  CHECK(world.agent.requests().empty());
}

TEST_CASE("A step's command may have a --help of its own") {
  World world;
  CHECK(world.run("bide step help -- sh -c 'echo $1' sh --help").out == "--help\n");
}

TEST_CASE("Waits print what was decided") {
  World world;
  world.journal.answers = {{"approval", {{"outcome", "approved"}, {"result", {{"decision", "approved"}}}}},
                           {"q", {{"outcome", "answered"}, {"result", "two words"}}},
                           {"n", {{"outcome", "answered"}, {"result", 42}}},
                           {"go", {{"outcome", "signal"}, {"result", {{"a", 1}}}}},
                           {"timer", {{"outcome", "woke"}, {"result", {{"woke_at", 5}}}}}};
  CHECK(world.run("bide wait approval 'Install?' --quorum 2 --not-initiator --data '{\"x\":1}' --timeout 2d").out ==
        "{\"decision\":\"approved\"}\n");
  CHECK(world.run("bide wait question 'Which?' --name q --option a --option b").out == "two words\n");
  CHECK(world.run("bide wait question 'Which?' --name q --json").out == "\"two words\"\n");
  CHECK(world.run("echo '{\"type\":\"integer\"}' >s; bide wait question 'Many?' --name n --schema s --default 3").out ==
        "42\n");
  CHECK(world.run("bide wait signal go --timeout 1h").out == "{\"a\":1}\n");
  CHECK(world.run("bide sleep 1h30m; bide sleep --until 2027-01-31T08:00:00Z").out.empty());
  const auto asked = world.agent.requests("waits");
  CHECK(asked.at(0).body.at("request") ==
        json{{"text", "Install?"}, {"quorum", 2}, {"policy", "not_initiator"}, {"data", {{"x", 1}}}});
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
    CHECK(world.run("for n in no change late; do bide wait approval x --name $n --try >/dev/null; echo $?; done").out ==
          "10\n11\n12\n");
  }
  SECTION("no way around it") {
    const std::string script =
        GENERATE("f() { bide wait approval x --name no; touch after; }; f || touch after; touch after",
                 "bide wait approval x --name no | cat; touch after",
                 "g() { local x=$(bide wait approval x --name no); touch after; }; g",
                 "if bide wait approval x --name late; then touch after; else touch after; fi",
                 "python3 -c 'import subprocess; "
                 "subprocess.run([\"bide\",\"wait\",\"approval\",\"x\",\"--name\",\"no\"]); open(\"after\",\"w\")'");
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
  Process process(
      world.agent.script("if bide wait approval x; then echo yes; else echo no; fi; bide wait approval y --name never "
                         "|| touch uninstalled"));
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
    if (request.operation == "outcomes/n1" && refused++ == 4) return AgentAnswer{0, {}};
    return journal(request);
  });
  journal.folder = agent.dir().str();
  const auto done = test::run(agent.script("bide step a -- sh -c 'echo x | tee -a ran'"));
  CHECK(done.out == "x\n");
  CHECK(done.err.empty());
  CHECK(read_file(agent.dir() / "ran") == "x\n");
  CHECK(agent.requests("steps").size() == 5);
  CHECK(agent.requests("outcomes/n1").size() == 2);
}

TEST_CASE("A refusal ends the run with its code, a lost lease keeps silent, and neither returns") {
  const auto [status, code, ended] = GENERATE(table<int, std::string, bool>({{422, "AmbiguousPosition", true},
                                                                             {413, "too_large", true},
                                                                             {409, "lease_lost", false},
                                                                             {401, "unauthorized", true}}));
  FakeAgent agent([status = status, code = code](const AgentRequest& request) -> std::optional<AgentAnswer> {
    if (request.operation == "end") return AgentAnswer{409, {{"code", "lease_lost"}}};
    return AgentAnswer{status, {{"code", code}, {"detail", "because"}}};
  });
  Process process(agent.script("bide wait signal x || true; touch after"));
  eventually([&, ended = ended] { return !agent.requests(ended ? "end" : "waits").empty(); }, "it has asked");
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
  int told = 0;
  for (const auto& info : members({{}, AttemptMark{world.agent.socket(), 7, 0}})) {
    if (info.name != "bide") continue;
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) told += signal_process(info.key, signal) ? 1 : 0;
  }
  CHECK(told == 4);
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
  CHECK(world.run("bide input").out == R"({"url":"http://x/ü","n":10.50,"deep":{"a.b":[1,{"c":"d"}]},"none":null})"
                                       "\n");
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

TEST_CASE("[V1] a verb that has read says so until it is answered: what it read is cut if its program died") {
  FakeJournal journal;
  int refused = 0;
  FakeAgent agent([&](const AgentRequest& request) -> std::optional<AgentAnswer> {
    if (refused++ < 2) return AgentAnswer{503, {{"code", "busy"}}};
    if (request.operation == "end") return std::nullopt;
    if (request.operation.starts_with("steps") && request.operation != "steps/settled") return journal(request);
    if (request.operation.starts_with("outcomes/")) return journal(request);
    return AgentAnswer{200, {{"state", "settled"}, {"looked", 1}, {"result", 1}}};
  });
  journal.folder = agent.dir().str();
  const std::string call = GENERATE(as<std::string>{}, "bide step s --stdin -- cat", "bide send http://a/ --data -",
                                    "bide call w --input -", "bide continue-as-new --input -", "bide result -",
                                    "bide each --key-from - -- echo {}", "cat > f; bide send http://a/ --data @f",
                                    "cat > f; bide wait question q --schema f --name n", "tail -c 1 | bide result -");
  INFO(call);
  Process process(agent.script("printf '{}' | { " + call + "; }"));
  eventually([&] { return agent.requests().size() > 2; }, [&] { return process.err(); });
  const auto asked = agent.requests();
  CHECK((asked[0].has_read && asked[1].has_read && asked[2].has_read));
  if (!call.starts_with("bide step")) return;
  eventually([&] { return !agent.requests("steps/1/await").empty(); }, [&] { return process.err(); });
  CHECK_FALSE(agent.requests("steps/1/hold").at(0).has_read);
}

TEST_CASE("[V1] a verb that has read nothing does not say so") {
  World world;
  CHECK(world.run("bide step s -- true; bide step t --no-stdin -- true; bide result 5; bide value uuid").exit ==
        Exit{0, 0});
  for (const auto& request : world.agent.requests()) CHECK_FALSE(request.has_read);
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
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // a sanitizer's run time is a shared library
  CHECK(test::run({.argv = {"readelf", "-l", BIDE_EXECUTABLE}}).out.find("INTERP") == std::string::npos);
#endif
}

}  // namespace
}  // namespace bide::test
