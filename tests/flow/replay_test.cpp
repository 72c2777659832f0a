// Replay, retries and results of native code.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "tests/support/rig.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;

TEST_CASE(
    "[N31] a replay that asks for something else ends with NonDeterminism, runs nothing, and resumes with the old "
    "code") {
  struct Change {
    const char* what;
    std::function<void(flow::Context&, int&)> second;  // what the changed code asks at the second position
  };
  const auto step = [](const std::string& name, Effect effect, const std::string& request) {
    return [=](flow::Context& c, int& effects) {
      flow::StepOptions options;
      options.request = request;
      c.step(
          name, effect, [&](const flow::EffectInfo&) { return std::to_string(++effects); }, options);
    };
  };
  const std::vector<Change> changes = {
      {"request", step("pay", Effect::non_idempotent, R"({"amount":8})")},
      {"name", step("refund", Effect::non_idempotent, R"({"amount":7})")},
      {"effect", step("pay", Effect::idempotent, R"({"amount":7})")},
      {"kind", [](flow::Context& c, int&) { (void)c.value("pay", [] { return std::string("1"); }); }},
      {"missing", [](flow::Context&, int&) {}},
  };
  for (const Change& change : changes) {
    CAPTURE(change.what);
    test::Rig rig;
    int effects = 0;
    const auto code = [&](const std::function<void(flow::Context&, int&)>& second) {
      return [&, second](flow::Context& c) {
        c.step("fetch", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++effects); });
        second(c, effects);
        return c.approval("go on?");
      };
    };
    const auto original = code(step("pay", Effect::non_idempotent, R"({"amount":7})"));
    rig.add("flow", original);
    const RunId run = rig.start("flow");
    rig.drive();
    REQUIRE(rig.run(run).status == RunStatus::waiting);
    CHECK(effects == 2);
    rig.replace("flow", code(change.second));
    rig.restart();
    CHECK(
        std::holds_alternative<kernel::WaitResolved>(rig.resolve(rig.waits(run)[0].id, R"({"decision":"approved"})")));
    rig.drive();
    CHECK(effects == 2);
    REQUIRE(rig.run(run).status == RunStatus::failed);
    const std::string error = rig.run(run).error.value();
    CHECK(json::string_member(error, "code") == "NonDeterminism");
    CHECK(json::member(error, "recorded").has_value());
    CHECK(json::member(error, "attempted").has_value());
    CHECK(error.find("pay") != std::string::npos);
    // The program put back, the run resumes: what is settled stays.
    rig.replace("flow", original);
    rig.restart();
    const auto retried = rig.store->write([&](db::Tx& tx) { return kernel::retry_run(tx, run, "ada", tx.now()); });
    CHECK(std::holds_alternative<kernel::RunRetried>(retried));
    rig.drive();
    CHECK(effects == 2);
    CHECK(rig.run(run).status == RunStatus::completed);
    CHECK(rig.run(run).result->find("approved") != std::string::npos);
  }
}

TEST_CASE("[N43] retries 0, 1, 5: exactly 1, 2, 6 attempts, as far apart as was declared") {
  for (const int retries : {0, 1, 5}) {
    test::Rig rig;
    std::vector<TimeMs> at;
    rig.add("flow", [&](flow::Context& c) {
      flow::StepOptions options;
      options.retries = retries;
      options.backoff = 15'000;
      return c.step(
          "fetch", Effect::idempotent,
          [&](const flow::EffectInfo&) -> std::string {
            at.push_back(rig.store->now());
            throw std::runtime_error("no such host");
          },
          options);
    });
    const RunId run = rig.start("flow");
    rig.drive();
    for (int second = 0; second < 120; ++second) {
      rig.advance(1'000);
      (void)rig.sweep->pass();
      rig.drive();
    }
    CHECK(static_cast<int>(at.size()) == retries + 1);
    for (std::size_t i = 1; i < at.size(); ++i) CHECK(at[i] - at[i - 1] == 15'000);
    CHECK(rig.run(run).status == RunStatus::failed);
    CHECK(rig.run(run).error->find("no such host") != std::string::npos);
    CHECK(rig.count_events(run, "step.attempt_failed") == retries);
    CHECK(rig.count_events(run, "step.failed") == 1);
    CHECK(rig.journal(run)[0].failures == retries + 1);
  }
  CHECK(parse_duration("15s") == 15'000);
  CHECK_FALSE(parse_duration("soon"));
}

TEST_CASE("[N43] the default: six attempts, doubling from a second, give or take a fifth") {
  auto options = test::Rig::default_options();
  options.inline_sleep = 0;  // a retry in a second hands the run back, too: this thread moves the clock
  test::Rig rig(test::Rig::Mode::inlined, options);
  std::vector<TimeMs> at;
  rig.add("flow", [&](flow::Context& c) {
    return c.step("fetch", Effect::pure, [&](const flow::EffectInfo&) -> std::string {
      at.push_back(rig.store->now());
      throw std::runtime_error("no such host");
    });
  });
  rig.add("final", [&](flow::Context& c) {
    return c.step("fetch", Effect::pure,
                  [&](const flow::EffectInfo&) -> std::string { throw flow::Final("bad request"); });
  });
  const RunId final = rig.start("final");
  rig.drive();
  CHECK(rig.run(final).status == RunStatus::failed);  // E2: no retry can cure it
  CHECK(rig.count_events(final, "step.attempt_failed") == 0);
  rig.start("flow");
  rig.drive();
  for (int i = 0; i < 600; ++i) {
    rig.advance(100);
    rig.drive();
  }
  REQUIRE(at.size() == 6);
  for (std::size_t i = 1; i < at.size(); ++i) {
    const TimeMs base = TimeMs{1'000} << (i - 1);
    CAPTURE(i, at[i] - at[i - 1]);
    CHECK(at[i] - at[i - 1] >= base * 80 / 100);
    CHECK(at[i] - at[i - 1] <= base * 120 / 100 + 100);
  }
}

TEST_CASE("[N45] one name three times: three entries, three results, the same after a replay") {
  test::Rig rig;
  int effects = 0;
  std::vector<std::vector<std::string>> seen;
  rig.add("flow", [&](flow::Context& c) {
    std::vector<std::string> results;
    for (int i = 0; i < 3; ++i) {
      results.push_back(c.step("draw", Effect::non_idempotent,
                               [&](const flow::EffectInfo&) { return std::to_string(++effects * 11); }));
    }
    seen.push_back(results);
    (void)c.approval("go on?");
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.restart();
  CHECK(std::holds_alternative<kernel::WaitResolved>(rig.resolve(rig.waits(run)[0].id, R"({"decision":"approved"})")));
  rig.drive();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == std::vector<std::string>{"11", "22", "33"});
  CHECK(seen[1] == seen[0]);
  CHECK(effects == 3);
  CHECK(rig.journal(run).size() == 4);
}

TEST_CASE("[N46] empty and odd results come back as they were") {
  const std::vector<std::string> results = {"0",
                                            "false",
                                            "\"\"",
                                            "null",
                                            "{}",
                                            "[]",
                                            R"("a\u0000b")",
                                            "1.10",
                                            "1e400",
                                            R"({"b":1, "a":2})",
                                            "-0",
                                            "12345678901234567890123456789"};
  test::Rig rig;
  int effects = 0;
  std::vector<std::vector<std::string>> seen;
  rig.add("flow", [&](flow::Context& c) {
    std::vector<std::string> got;
    for (const auto& result : results) {
      got.push_back(c.step("give", Effect::idempotent, [&](const flow::EffectInfo&) {
        ++effects;
        return result;
      }));
      got.push_back(c.value("v", [&] {
        ++effects;
        return result;
      }));
    }
    seen.push_back(got);
    (void)c.approval("go on?");
    return results[6];
  });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.restart();
  CHECK(std::holds_alternative<kernel::WaitResolved>(rig.resolve(rig.waits(run)[0].id, R"({"decision":"approved"})")));
  rig.drive();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == seen[1]);
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(seen[1][2 * i] == results[i]);
    CHECK(seen[1][2 * i + 1] == results[i]);
  }
  CHECK(effects == 2 * static_cast<int>(results.size()));
  CHECK(rig.run(run).result == results[6]);
}

TEST_CASE("what native code asks is checked before it is an intent") {
  struct Bad {
    const char* what;
    std::function<void(flow::Context&)> ask;
  };
  const auto never = [](const flow::EffectInfo&) -> std::string {
    FAIL("the effect ran");
    return "";
  };
  const auto with_request = [&](std::string request) {
    return [=](flow::Context& c) {
      flow::StepOptions options;
      options.request = request;
      (void)c.step("pay", Effect::pure, never, options);
    };
  };
  const std::vector<Bad> all = {
      {"not JSON", with_request("{amount: 7}")},
      {"too large [N88]", with_request('"' + std::string(limits::kDocumentBytes, 'x') + '"')},
      {"long name", [&](flow::Context& c) { (void)c.step(std::string(129, 'n'), Effect::pure, never); }},
      {"no name", [&](flow::Context& c) { (void)c.step("", Effect::pure, never); }},
      {"data",
       [](flow::Context& c) {
         flow::ApprovalOptions options;
         options.data = "{";
         (void)c.approval("go on?", options);
       }},
      {"value", [](flow::Context& c) { (void)c.value("v", [] { return std::string("nope"); }); }},
  };
  for (const Bad& bad : all) {
    CAPTURE(bad.what);
    test::Rig rig;
    rig.add("flow", [&](flow::Context& c) {
      bad.ask(c);
      return std::string("null");
    });
    const RunId run = rig.start("flow");
    rig.drive();
    REQUIRE(rig.run(run).status == RunStatus::failed);
    CHECK(json::string_member(*rig.run(run).error, "code") == "WorkflowError");
    CHECK(rig.journal(run).empty());
  }
}
