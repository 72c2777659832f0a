// Races of waits, in native code. Two timers: the last one counted, the earlier one closed the door to every answer. A
// timeout of one alternative counted, and left the others open: the next signal was swallowed by a wait that nobody
// read. And what had been decided ahead of the question for a loser opened the next round's gate [A9, A10].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using flow::Alternative;
using kernel::RunStatus;
using test::Rig;

namespace {
constexpr DurationMs kMinute = 60'000;
}

TEST_CASE("of two timers in a race the earlier one wins, in either order, and at its time") {
  for (const bool soon_first : {true, false}) {
    Rig rig;
    rig.add("race", [&](flow::Context& c) {
      const auto soon = Alternative::timer(10 * kMinute, "soon");
      const auto late = Alternative::timer(60 * kMinute, "late");
      return c.first_of({Alternative::signal("s"), soon_first ? soon : late, soon_first ? late : soon});
    });
    const RunId run = rig.start("race");
    rig.drive();
    rig.advance(10 * kMinute);
    rig.drive();
    CHECK(rig.run(run).status == RunStatus::completed);
    CHECK(json::string_member(rig.run(run).result.value_or("{}"), "won") == "soon");
    CHECK(rig.number("SELECT count(*) FROM waits WHERE status = 'pending'") == 0);
  }
}

TEST_CASE("a timeout of one alternative does not count: only a timer ends a race") {
  Rig rig;
  rig.add("race", [&](flow::Context& c) {
    flow::ApprovalOptions approval;
    approval.name = "ok";
    approval.timeout = 60 * kMinute;
    const std::string won = c.first_of({Alternative::approval("ok?", approval), Alternative::signal("go")});
    return json::string_member(won, "won").value_or("") + c.signal("go");
  });
  const RunId run = rig.start("race");
  rig.drive();
  rig.advance(61 * kMinute);
  rig.sweep->pass();
  rig.drive();
  CHECK(rig.number("SELECT count(*) FROM waits WHERE status = 'pending'") == 2);
  CHECK(test::verdict(rig.signal(run, "go", "1")) == "sent");
  CHECK(test::verdict(rig.signal(run, "go", "2")) == "sent");
  rig.drive();
  CHECK(rig.number("SELECT count(*) FROM steps WHERE status = 'completed'") == 2);
  CHECK(rig.number("SELECT count(*) FROM signals WHERE consumed_by IS NULL") == 0);
}

TEST_CASE("a wait of a group that expires closes the others: an older file may have one with a time of its own") {
  Rig rig;
  rig.add("race", [&](flow::Context& c) {
    flow::ApprovalOptions approval;
    approval.name = "ok";
    return c.first_of({Alternative::approval("ok?", approval), Alternative::signal("go")});
  });
  const RunId run = rig.start("race");
  rig.drive();
  rig.exec("UPDATE waits SET resolve_by = created_at + 60000 WHERE name = 'ok'");
  rig.advance(kMinute);
  rig.sweep->pass();
  CHECK(rig.number("SELECT count(*) FROM waits WHERE status = 'pending'") == 0);
  rig.drive();
  CHECK(json::string_member(rig.run(run).result.value_or("{}"), "won") == "ok");
}

TEST_CASE("a decision ahead of the question for a loser of a race is dropped, and opens no later gate") {
  Rig rig;
  rig.add("race", [&](flow::Context& c) {
    c.signal("begin");
    flow::ApprovalOptions a, b;
    a.name = "a";
    b.name = "b";
    (void)c.first_of({Alternative::approval("a?", a), Alternative::approval("b?", b)});
    return c.approval("and b?", b);
  });
  const RunId run = rig.start("race");
  rig.drive();
  CHECK(test::verdict(test::resolve_named(rig, run, "a", test::kApproved)) == "kept");
  CHECK(test::verdict(test::resolve_named(rig, run, "b", test::kApproved)) == "kept");
  (void)rig.signal(run, "begin");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::waiting);  // at the gate "b", which nobody has decided
  CHECK(rig.number("SELECT count(*) FROM early_decisions") == 0);
  CHECK(rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'dropped'") == 1);
}
