// A branch had read that its timer was due, and another branch failed for good before it wrote that down: the end of
// the run had cancelled the wait, and settling it was taken for a bug of the agent's own (the run was handed back with
// agent_fault, and ended seconds later). Found by the simulator.
// What a call has read is looked at again in its transaction: a run whose end is written begins and settles nothing.
#include <catch2/catch.hpp>

#include "agent/flow/pace.h"
#include "tests/support/rig.h"

using namespace bide;

namespace {

// Lets a test in between a read and the write that follows.
class Between final : public flow::Pace {
 public:
  std::function<void()> hook;

 private:
  void wait(DurationMs) override {}
  void before_write() override {
    if (hook) std::exchange(hook, nullptr)();
  }
  void run(const std::vector<std::function<void()>>& branches) override {
    for (const auto& branch : branches) branch();
  }
};

}  // namespace

TEST_CASE("the end of the run is written between a due timer and its settling") {
  Between between;
  work::ExecutorOptions options = test::Rig::default_options();
  options.pace = &between;
  test::Rig rig(test::Rig::Mode::inlined, options);
  rig.add("flow", [](flow::Context& c) {
    c.sleep(5'000);
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.advance(5'000);
  between.hook = [&] { rig.executor->attempt(run)->end(R"({"code":"Elsewhere","message":"a branch failed"})"); };
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::failed);
  CHECK(rig.run(run).error.value_or("").find("Elsewhere") != std::string::npos);
  CHECK(rig.count_events(run, "run.handed_back") == 0);
}

TEST_CASE("the end of the run is written between a due retry and its execution") {
  Between between;
  work::ExecutorOptions options = test::Rig::default_options();
  options.pace = &between;
  test::Rig rig(test::Rig::Mode::inlined, options);
  int times = 0;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions later;
    later.retries = 3;
    later.backoff = 60'000;
    return c.step(
        "step", kernel::Effect::idempotent,
        [&](const flow::EffectInfo&) -> std::string {
          ++times;
          throw std::runtime_error("again");
        },
        later);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.advance(60'000);
  between.hook = [&] { rig.executor->attempt(run)->end(R"({"code":"Elsewhere","message":"a branch failed"})"); };
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::failed);
  CHECK(times == 1);
  CHECK(rig.count_events(run, "run.handed_back") == 0);
}
