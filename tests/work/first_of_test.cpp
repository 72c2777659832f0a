// First-of: one step, several waits, one winner [A10].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using flow::Alternative;
using kernel::RunStatus;
using kernel::WaitStatus;
using test::kApproved;
using test::Rig;
using test::verdict;

constexpr DurationMs kHour = 3'600'000;

void add_race(Rig& rig) {
  rig.add("race", [](flow::Context& c) {
    flow::ApprovalOptions approval;
    approval.name = "ok";
    return c.first_of(
        {Alternative::approval("go?", approval), Alternative::signal("go"), Alternative::timer(kHour, "late")});
  });
}

std::optional<kernel::WaitRow> wait_called(Rig& rig, RunId run, const std::string& name) {
  for (auto& wait : rig.waits(run)) {
    if (wait.name == name) return wait;
  }
  return std::nullopt;
}

TEST_CASE("[N66] the approval wins: the others are closed with it, their answers come too late") {
  Rig rig;
  add_race(rig);
  const RunId run = rig.start("race");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::queued);  // for the timer
  CHECK(rig.waits(run).size() == 3);
  CHECK(rig.journal(run).size() == 1);
  rig.restart();
  CHECK(verdict(rig.resolve(wait_called(rig, run, "ok")->id, kApproved)) == "resolved");
  for (const std::string name : {"go", "late"}) CHECK(wait_called(rig, run, name)->status == WaitStatus::cancelled);
  CHECK(verdict(rig.signal(run, "go")) == "sent");  // kept for who asks next: no wait took it
  CHECK(rig.number("SELECT count(*) FROM signals WHERE consumed_by IS NULL") == 1);
  rig.drive();
  const std::string result = rig.run(run).result.value();
  CHECK(json::string_member(result, "won") == "ok");
  CHECK(json::string_member(json::member(result, "value").value(), "decision") == "approved");
}

TEST_CASE("[N66] the signal wins: a later approval gets 409") {
  Rig rig;
  add_race(rig);
  const RunId run = rig.start("race");
  rig.drive();
  CHECK(verdict(rig.signal(run, "go", R"({"n":1})")) == "sent");
  CHECK(verdict(rig.resolve(wait_called(rig, run, "ok")->id, kApproved)) == "wait_cancelled");
  rig.drive();
  const std::string result = rig.run(run).result.value();
  CHECK(json::string_member(result, "won") == "go");
  CHECK(json::at_pointer(result, "/value/payload/n") == "1");
  CHECK(rig.number("SELECT count(*) FROM signals WHERE consumed_by IS NOT NULL") == 1);
}

TEST_CASE("[N66] the timer wins: a later approval gets 409") {
  Rig rig;
  add_race(rig);
  const RunId run = rig.start("race");
  rig.drive();
  rig.advance(kHour);
  rig.drive();
  const std::string result = rig.run(run).result.value();
  CHECK(json::string_member(result, "won") == "late");
  CHECK(json::at_pointer(result, "/value/woke_at").has_value());
  CHECK(verdict(rig.resolve(wait_called(rig, run, "ok")->id, kApproved)) == "wait_cancelled");
}

TEST_CASE("[N125] an approval 1 ms after the timer and before any claim: 409, and the timer wins") {
  Rig rig;
  add_race(rig);
  const RunId run = rig.start("race");
  rig.drive();
  const TimeMs deadline = wait_called(rig, run, "late")->resolve_by.value();
  rig.advance(deadline + 1 - rig.store->now());
  CHECK(verdict(rig.resolve(wait_called(rig, run, "ok")->id, kApproved)) == "wait_expired");
  CHECK(verdict(rig.signal(run, "go")) == "sent");
  CHECK(wait_called(rig, run, "go")->status == WaitStatus::pending);  // a signal is not taken either
  rig.sweep->pass();
  rig.drive();
  CHECK(json::string_member(rig.run(run).result.value(), "won") == "late");
  CHECK(rig.number("SELECT count(*) FROM signals WHERE consumed_by IS NULL") == 1);
}

TEST_CASE("[N125] an approval 1 ms before the timer wins, though the claim comes after it") {
  Rig rig;
  add_race(rig);
  const RunId run = rig.start("race");
  rig.drive();
  rig.advance(wait_called(rig, run, "late")->resolve_by.value() - 1 - rig.store->now());
  CHECK(verdict(rig.resolve(wait_called(rig, run, "ok")->id, kApproved)) == "resolved");
  rig.advance(kHour);
  rig.drive();
  CHECK(json::string_member(rig.run(run).result.value(), "won") == "ok");
}

TEST_CASE("[A10] what came ahead decides at once, in the order of the group, and the rest is left for others") {
  Rig rig;
  rig.add("race", [](flow::Context& c) {
    c.approval("begin?");
    return c.first_of({Alternative::signal("a"), Alternative::signal("b")}, "either");
  });
  const RunId run = rig.start("race");
  rig.drive();
  CHECK(verdict(rig.signal(run, "b")) == "sent");
  CHECK(verdict(rig.signal(run, "a")) == "sent");
  CHECK(verdict(rig.resolve(test::pending_wait(rig, run).id, kApproved)) == "resolved");
  rig.drive();
  CHECK(json::string_member(rig.run(run).result.value(), "won") == "a");
  CHECK(rig.number("SELECT count(*) FROM signals WHERE consumed_by IS NULL AND name = 'b'") == 1);
}

TEST_CASE("[A10] replay gives the winner again, and cancel closes the group") {
  Rig rig;
  int entered = 0;
  rig.add("race", [&](flow::Context& c) {
    ++entered;
    std::string first = c.first_of({Alternative::signal("a"), Alternative::timer(kHour)});
    c.signal("then");
    return first;
  });
  const RunId run = rig.start("race");
  rig.drive();
  (void)rig.signal(run, "a", "7");
  rig.drive();
  rig.restart();
  (void)rig.signal(run, "then");
  rig.drive();
  CHECK(entered == 3);
  CHECK(json::at_pointer(rig.run(run).result.value(), "/value/payload") == "7");
  const RunId other = rig.start("race");
  rig.drive();
  CHECK(verdict(rig.cancel(other)) == "ended");
  for (const auto& wait : rig.waits(other)) CHECK(wait.status == WaitStatus::cancelled);
}

}  // namespace
}  // namespace bide
