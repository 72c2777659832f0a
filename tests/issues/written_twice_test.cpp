// The riding intent of a short step was written although its outcome carried it: the flag that makes it needless was
// not handed to the store. Each idempotent step was two writes, and nothing but the benchmark could see it.
#include <catch2/catch.hpp>

#include "tests/support/rig.h"

using namespace bide;

TEST_CASE("a step that is shorter than its intent's ride is one write [J1]") {
  constexpr int kSteps = 20;
  test::Rig rig;
  std::vector<std::uint64_t> jobs;
  rig.add("flow", [&](flow::Context& c) {
    for (int i = 0; i < kSteps; ++i) {
      c.step("s", kernel::Effect::idempotent, [](const flow::EffectInfo&) { return std::string("1"); });
      jobs.push_back(rig.store->health().jobs);
    }
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  REQUIRE(rig.run(run).status == kernel::RunStatus::completed);
  REQUIRE(jobs.size() == kSteps);
  CHECK(jobs.back() - jobs.front() == kSteps - 1);
}
