// Code asked for a recorded value whose function threw, or gave no JSON, caught that and went on. The entry, which is
// in no file, counted as one that is open: the run was queued once more and failed with OpenSteps, though its code had
// completed twice.
#include <catch2/catch.hpp>

#include "tests/support/rig.h"

using namespace bide;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("[J8] a value whose function threw is no open entry for code that goes on, and its place is no other's") {
  int attempts = 0;
  bool throws = true;
  const std::function<std::string()> makers[] = {
      [&]() -> std::string { return throws ? throw std::runtime_error("the dice are gone") : "6"; },
      [&]() -> std::string { return throws ? "no JSON" : "6"; },
  };
  for (const auto& make : makers) {
    Rig rig;
    attempts = 0;
    throws = true;
    rig.add("dice", [&](flow::Context& c) {
      ++attempts;
      std::string first = "null";
      try {
        first = c.value("dice", make);
      } catch (const std::exception&) {
        first = "0";
      }
      const std::string second = c.value("dice", [] { return std::string("5"); });
      (void)c.approval("again?");
      return "[" + first + "," + second + "]";
    });
    const RunId run = rig.start("dice");
    rig.drive();
    REQUIRE(rig.run(run).status == RunStatus::waiting);
    CHECK(rig.journal(run).size() == 2);  // the second value and the approval
    throws = false;
    rig.resolve(rig.waits(run)[0].id, R"({"decision":"approved"})");
    rig.drive();
    INFO(rig.run(run).error.value_or(""));
    CHECK(rig.run(run).status == RunStatus::completed);
    CHECK(rig.run(run).result == "[6,5]");
    CHECK(attempts == 2);
  }
}

TEST_CASE("[J8] a value whose function threw does not fail a run that ends in the same attempt") {
  Rig rig;
  int attempts = 0;
  rig.add("dice", [&](flow::Context& c) {
    ++attempts;
    try {
      return c.value("dice", []() -> std::string { throw std::runtime_error("the dice are gone"); });
    } catch (const std::exception&) {
      return std::string("0");
    }
  });
  const RunId run = rig.start("dice");
  rig.drive();
  INFO(rig.run(run).error.value_or(""));
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(attempts == 1);
}
