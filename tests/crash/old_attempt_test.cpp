// What is left of an attempt when its agent is gone and its guard cannot act: the next agent lets it change nothing,
// begins nothing before it has ended, and says whom it waits for.
#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

// A run whose agent was killed while its guard was stopped; another agent is there.
struct Stopped : CrashBox {
  explicit Stopped(const std::string& step) {
    program("flow", step);
    run = start("flow");
    name = std::to_string(run);
    until_effects("half " + name, 1);
    const std::string pid = sql("SELECT pid FROM processes WHERE status <> 'stopped' AND run_id = " + name);
    REQUIRE(!pid.empty());
    const auto found = read_process(std::stoi(pid));
    REQUIRE(found);
    guard = found->key;
    REQUIRE(signal_process(guard, SIGSTOP));
    kill_agent();
    serve();
  }
  [[nodiscard]] std::string epoch() const { return sql("SELECT epoch FROM runs WHERE id = " + name); }
  std::int64_t run = 0;
  std::string name;
  ProcessKey guard;
};

TEST_CASE("[K2] a verb of the attempt before hands in to the new agent: refused, kept as evidence, nothing changed") {
  Stopped box(
      "bide step pay -- sh -c 'effect half; until [ -e \"$OUT/go\" ]; do sleep 0.02; done; effect whole; echo late'\n"
      "bide step after -- effect after\n");
  box.touch("go");
  box.until_effects("whole " + box.name, 1);
  eventually([&] { return box.events(box.run, "step.late_outcome") == 1; },
             [&] { return "no late outcome: " + box.step(box.run, "pay").dump() + box.show(box.run).dump(); }, 30s);
  CHECK(box.step(box.run, "pay")["status"] == "started");
  CHECK(box.step(box.run, "pay")["result"].is_null());
  CHECK(box.status(box.run) == "queued");
  CHECK(box.epoch() == "1");
  CHECK(box.effects("after") == 0);
  // Once an execution, and only for whom knows its nonce: the token alone proves nothing after its agent has died.
  const auto token = environment_of(box.guard.pid, "BIDE_ATTEMPT");
  REQUIRE(token);
  for (const std::string& nonce : {std::string("another"), box.sql("SELECT nonce FROM steps WHERE name = 'pay'")}) {
    const HttpAnswer answer =
        HttpClient::unix_socket(box.socket())
            .ask("POST", "/v1/runs/" + box.name + "/attempt/steps/1/complete",
                 Json{{"nonce", nonce}, {"result", "late"}}.dump(), "Authorization: Bearer " + *token + "\r\n");
    INFO(answer.body);
    CHECK(answer.status == 409);
    CHECK(Json::parse(answer.body)["code"] == "lease_lost");
    CHECK(box.events(box.run, "step.late_outcome") == 1);
    CHECK(box.step(box.run, "pay")["status"] == "started");
  }
  // The verb does not return: the program of the old attempt goes no step further.
  CHECK(box.events(box.run, "step.completed") == 0);
  REQUIRE(signal_process(box.guard, SIGCONT));
  const std::int64_t wait = box.wait_of(box.run, "reconcile");
  CHECK(box.effects("whole") == 1);
  box.answer(wait, {{"answer", "ran"}, {"result", "late\n"}});
  box.until_status(box.run, "completed");
  CHECK(box.effects("whole") == 1);
  CHECK(box.effects("after") == 1);
  CHECK(box.events(box.run, "step.late_outcome") == 1);
}

TEST_CASE(
    "[N89] the guard stopped, the agent killed: no probe and no attempt before all is gone, and explain says who") {
  Stopped box(
      "bide step install --probe '"
      "kill -0 \"$(cat \"$OUT/pid\")\" 2>/dev/null && effect alive; effect probe; touch \"$OUT/go\"; exit 100' -- "
      "sh -c 'echo $$ >\"$OUT/pid\"; effect half; until [ -e \"$OUT/go\" ]; do sleep 0.02; done; effect whole'\n");
  const std::string explain = "/v1/runs/" + box.name + "/explain";
  eventually(
      [&] {
        return box.get(explain)["reason"] == "previous_attempt_alive" &&
               box.show(box.run)["reason"] == "previous_attempt_alive";
      },
      [&] { return "explain does not say it: " + box.get(explain).dump(); }, 50s);
  const std::string pid = std::to_string(box.guard.pid);
  CHECK(box.get(explain)["text"].get<std::string>().find("pid " + pid) != std::string::npos);
  CHECK(box.bide({"explain", box.name}).out.find(pid) != std::string::npos);
  CHECK(box.epoch() == "1");
  CHECK(box.status(box.run) == "queued");
  CHECK(box.effects("probe") == 0);
  CHECK(box.effects("half") == 1);
  REQUIRE(signal_process(box.guard, SIGCONT));
  box.until_status(box.run, "completed");
  CHECK(box.effects("alive") == 0);
  CHECK(box.effects("probe") == 1);
  CHECK(box.effects("half") == 2);
  CHECK(box.effects("whole") == 1);  // the first one was ended in its middle
  CHECK(box.epoch() == "2");
  CHECK_FALSE(is_alive(box.guard));
}

}  // namespace
}  // namespace bide::test
