// Signals: first in, first out by name, each read once.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::RunStatus;
using test::Rig;
using test::verdict;

kernel::SignalOutcome send(Rig& rig, RunId run, const std::string& name, const std::string& payload,
                           const std::string& dedupe_key) {
  std::optional<kernel::SignalOutcome> result;
  (void)rig.commands->signal(run, name, payload, dedupe_key, Rig::person(), std::nullopt,
                             [&](const kernel::SignalOutcome& outcome) {
                               result = outcome;
                               return work::Answer{};
                             });
  return *result;
}

TEST_CASE("[N67] signals sent before, during and after the wait, three of one name: in order, each once") {
  Rig rig;
  RunId run;
  std::vector<std::string> heard;
  rig.add("flow", [&](flow::Context& c) {
    heard.clear();
    for (int i = 0; i < 5; ++i) {
      heard.push_back(json::member(c.signal("go"), "payload").value_or(""));
      if (i == 2) {
        c.step("between", kernel::Effect::pure, [&](const flow::EffectInfo&) {
          CHECK(verdict(rig.signal(run, "go", "4")) == "sent");  // no wait is there: kept
          return std::string("1");
        });
      }
    }
    return std::string("1");
  });
  run = rig.start("flow");
  CHECK(verdict(rig.signal(run, "go", "1")) == "sent");  // before, two of them
  CHECK(verdict(rig.signal(run, "other", "\"not this one\"")) == "sent");
  CHECK(verdict(rig.signal(run, "go", "2")) == "sent");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::waiting);
  const auto during = rig.signal(run, "go", "3");
  CHECK(std::get<kernel::SignalSent>(during).consumed);
  CHECK(rig.drive() == 1);
  rig.restart();
  CHECK(rig.drive() == 0);
  CHECK(verdict(rig.signal(run, "go", "5")) == "sent");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(heard == std::vector<std::string>{"1", "2", "3", "4", "5"});
  CHECK(rig.number("SELECT count(*) FROM signals WHERE name = 'go' AND consumed_by IS NULL") == 0);
  CHECK(rig.number("SELECT count(DISTINCT consumed_by) FROM signals WHERE name = 'go'") == 5);
  CHECK(rig.count_events(run, "signal.received") == 6);
  CHECK(rig.count_events(run, "wait.created") == 5);
  CHECK(rig.count_events(run, "wait.resolved") == 5);
  CHECK(verdict(rig.signal(run, "go", "6")) == "run_ended");
}

TEST_CASE("[N67] a dedupe_key twice is one signal, with another payload it is refused") {
  Rig rig;
  std::vector<std::string> heard;
  rig.add("flow", [&](flow::Context& c) {
    heard.clear();
    heard.push_back(c.signal("go"));
    heard.push_back(c.signal("go"));
    return std::string("1");
  });
  const RunId run = rig.start("flow");
  CHECK(verdict(send(rig, run, "go", R"({"n": 1})", "k")) == "sent");
  CHECK(verdict(send(rig, run, "go", R"({ "n":1 })", "k")) == "repeated");
  CHECK(verdict(send(rig, run, "go", R"({"n": 2})", "k")) == "dedupe_conflict");
  CHECK(verdict(send(rig, run, "else", R"({"n": 2})", "k")) == "sent");  // by name
  rig.drive();
  CHECK(heard.size() == 1);
  CHECK(rig.run(run).status == RunStatus::waiting);
  CHECK(verdict(send(rig, run, "go", R"({"n": 1})", "k")) == "repeated");  // also after it was read
  CHECK(rig.drive() == 0);
  CHECK(verdict(send(rig, run, "go", R"({"n": 1})", "k2")) == "sent");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(verdict(send(rig, run, "go", R"({"n": 1})", "k2")) == "repeated");  // the sender's retry after the run's end
}

TEST_CASE("[N67] a signal after the deadline does not resolve the wait, and is there for the next") {
  Rig rig;
  std::vector<std::string> heard;
  rig.add("flow", [&](flow::Context& c) {
    heard.clear();
    heard.push_back(c.signal("go", 60'000));
    heard.push_back(json::member(c.signal("go"), "payload").value_or(""));
    return std::string("1");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.advance(60'000);
  const auto late = rig.signal(run, "go", "7");
  CHECK_FALSE(std::get<kernel::SignalSent>(late).consumed);
  rig.sweep->pass();
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(heard == std::vector<std::string>{R"({"expired":true})", "7"});
}

TEST_CASE("[A9] at most 10 000 signals of a name are unread") {
  Rig rig;
  rig.add("other", [](flow::Context& c) { return c.approval("?"); });
  const RunId run = rig.start("other");
  rig.drive();
  rig.exec(
      "INSERT INTO signals (run_id, name, payload, sent_by, created_at) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
      "SELECT i + 1 FROM n WHERE i < 10000) SELECT 1, 'go', '1', 'ada', 0 FROM n");
  CHECK(verdict(rig.signal(run, "go", "1")) == "too_many_signals");
  CHECK(verdict(rig.signal(run, "stop", "1")) == "sent");
  CHECK(rig.number("SELECT count(*) FROM signals") == 10'001);
}

}  // namespace
}  // namespace bide
