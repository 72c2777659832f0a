// Native code that is edited under an open run: NonDeterminism shows both entries and the ways out, and the run resumes
// when the code is put back [J4, J9].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using test::Rig;
using test::verdict;

struct Steps {
  std::vector<std::string> names = {"fetch", "check", "install"};
  Effect effect = Effect::non_idempotent;
  std::string request = R"({"n":1})";
  std::string after;  // one more, after the wait
};

std::function<std::string(flow::Context&)> code(const Steps& steps, int& effects) {
  return [steps, &effects](flow::Context& c) {
    const auto run = [&effects](const flow::EffectInfo&) { return std::to_string(++effects); };
    flow::StepOptions options;
    for (const auto& name : steps.names) {
      options.request = name == "install" ? steps.request : json::quote(name);
      c.step(name, name == "install" ? steps.effect : Effect::non_idempotent, run, options);
    }
    c.signal("go");
    if (!steps.after.empty()) c.step(steps.after, Effect::pure, run);
    return std::string("\"done\"");
  };
}

struct Edit {
  std::string what;
  Steps steps;
  std::string guess;  // begins with
  std::int64_t recorded = 0;
};

TEST_CASE("[N31] five edits under an open run: both entries, the guess, the ways out, put back, it resumes") {
  const std::vector<Edit> edits = {
      {"inserted", {.names = {"fetch", "sum", "check", "install"}}, "inserted before 2?", 2},
      {"removed", {.names = {"fetch", "install"}}, "removed? \"check\" (entry 2)", 2},
      {"other effect", {.effect = Effect::idempotent}, "another effect?", 3},
      {"other request", {.request = R"({"n":2})"}, "another request?", 3},
  };
  for (const Edit& edit : edits) {
    INFO(edit.what);
    Rig rig;
    int effects = 0;
    rig.add("flow", code({}, effects));
    const RunId run = rig.start("flow");
    rig.drive();
    CHECK(effects == 3);
    rig.replace("flow", code(edit.steps, effects));
    rig.restart();
    (void)rig.signal(run, "go");
    rig.drive();
    CHECK(effects == 3);  // nothing run
    CHECK(rig.run(run).status == RunStatus::failed);
    const std::string error = rig.run(run).error.value();
    CHECK(json::string_member(error, "code") == "NonDeterminism");
    CHECK(json::at_pointer(error, "/recorded/seq") == std::to_string(edit.recorded));
    CHECK(json::at_pointer(error, "/attempted/name").has_value());
    CHECK(json::string_member(error, "version") == "1");
    const std::string guess = json::string_member(error, "guess").value_or("none");
    INFO(guess);
    CHECK(guess.rfind(edit.guess, 0) == 0);
    const std::string hint = json::string_member(error, "hint").value_or("");
    CHECK(hint.find("bide retry " + std::to_string(run.value)) != std::string::npos);
    CHECK(hint.find("bide fork " + std::to_string(run.value) + " --from " + std::to_string(edit.recorded - 1)) !=
          std::string::npos);
    rig.replace("flow", code({}, effects));
    rig.restart();
    (void)rig.commands->retry(run, Rig::person(), std::nullopt, [](const auto& outcome) {
      CHECK(verdict(outcome) == "retried");
      return work::Answer{};
    });
    rig.drive();
    if (rig.run(run).status != RunStatus::completed) {  // the signal was taken before, or is asked for again
      (void)rig.signal(run, "go");
      rig.drive();
    }
    CHECK(rig.run(run).result == "\"done\"");
    CHECK(effects == 3);
  }
}

TEST_CASE("[N31] a step that is renamed is named") {
  Rig rig;
  int effects = 0;
  const auto with = [&](const std::string& name) {
    return [&, name](flow::Context& c) {
      flow::StepOptions options;
      options.request = R"({"url":"u"})";
      c.step(
          name, Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++effects); }, options);
      return c.signal("go");
    };
  };
  rig.add("flow", with("fetch"));
  const RunId run = rig.start("flow");
  rig.drive();
  rig.replace("flow", with("get"));
  rig.restart();
  (void)rig.signal(run, "go");
  rig.drive();
  CHECK(json::string_member(rig.run(run).error.value(), "guess") == "renamed? \"fetch\" is \"get\" now.");
  CHECK(effects == 1);
}

TEST_CASE("[N31] a step added after the last one is no error") {
  Rig rig;
  int effects = 0;
  rig.add("flow", code({}, effects));
  const RunId run = rig.start("flow");
  rig.drive();
  rig.replace("flow", code({.after = "report"}, effects));
  rig.restart();
  (void)rig.signal(run, "go");
  rig.drive();
  CHECK(rig.run(run).result == "\"done\"");
  CHECK(effects == 4);
}

}  // namespace
}  // namespace bide
