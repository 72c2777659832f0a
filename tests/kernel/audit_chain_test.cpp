// The chain of decisions: whatever is done to the file by another hand is found, and retention breaks nothing.
#include "agent/kernel/audit_chain.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "agent/base/limits_api.h"
#include "agent/work/audit_log.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;
using kernel::AuditCheck;
using Verdict = kernel::AuditCheck::Verdict;

namespace {

AuditCheck check(Rig& rig, const std::optional<kernel::AuditHead>& seen = std::nullopt) {
  return rig.store->read([&](db::ReadTx& tx) { return kernel::check_audit(tx, seen); });
}

// Runs with an approval each, all decided; every second one refused first.
void decide(Rig& rig, int count) {
  for (int i = 0; i < count; ++i) {
    const RunId run = rig.start("gate");
    rig.drive();
    const WaitId wait = rig.waits(run).back().id;
    if (i % 2 == 1) {
      kernel::Principal nobody;
      nobody.name = "nobody";
      (void)rig.resolve(wait, R"({"decision":"approved"})", nobody);
    }
    (void)rig.resolve(wait, R"({"decision":"approved","comment":"c"})");
    rig.drive();
  }
}

void prepare(Rig& rig) {
  rig.add("gate", [](flow::Context& c) { return c.approval("May it?", {.name = "go"}); });
}

}  // namespace

TEST_CASE("[A7] audit chain: whole after decisions, and each change of the file by another hand is found") {
  struct Row {
    const char* what;
    const char* sql;
    std::int64_t row;
  };
  const std::vector<Row> rows = {
      {"another decided", "UPDATE approvals_audit SET decided_by = 'eve' WHERE id = 4", 4},
      {"another decision", "UPDATE approvals_audit SET decision = '{\"decision\":\"denied\"}' WHERE id = 1", 1},
      {"a refusal is turned", "UPDATE approvals_audit SET verdict = 'accepted' WHERE verdict = 'refused'", 2},
      {"another time", "UPDATE approvals_audit SET at = at + 1 WHERE id = 5", 5},
      {"another run", "UPDATE approvals_audit SET run_id = 1 WHERE id = 6", 6},
      {"a reason is taken", "UPDATE approvals_audit SET why = NULL WHERE id = 2", 2},
      {"a digest is changed", "UPDATE approvals_audit SET digest = zeroblob(32) WHERE id = 3", 3},
      {"a row is gone from the middle", "DELETE FROM approvals_audit WHERE id = 3", 4},
      {"the first row is gone", "DELETE FROM approvals_audit WHERE id = 1", 2},
      {"the last row is gone", "DELETE FROM approvals_audit WHERE id = (SELECT max(id) FROM approvals_audit)", 9},
      {"a row is put in",
       "INSERT INTO approvals_audit SELECT 99, at, run_uid, run_id, workflow, wait_id, name, digest, decided_by, "
       "verdict, decision, why, chain FROM approvals_audit WHERE id = 2",
       99},
      {"a row has no hash", "UPDATE approvals_audit SET chain = NULL WHERE id = 5", 5},
      {"two rows change places",
       "UPDATE approvals_audit SET id = CASE id WHEN 3 THEN -4 ELSE -3 END WHERE id IN (3, 4)", -4},
      {"all are gone", "DELETE FROM approvals_audit", 9},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    Rig rig;
    prepare(rig);
    decide(rig, 6);
    const AuditCheck before = check(rig);
    REQUIRE(before.verdict == Verdict::whole);
    REQUIRE(before.rows == 9);
    REQUIRE(before.head.id == 9);
    rig.exec(row.sql);
    const AuditCheck after = check(rig);
    CHECK(after.verdict == Verdict::tampered);
    CHECK(after.row == row.row);
  }
}

namespace {

// Somebody who knows how it is made: the last rows go, others take their place, with hashes that fit. `numbered`: with
// the ids of those that went, too.
void make_anew(Rig& rig, bool numbered) {
  rig.exec("DELETE FROM approvals_audit WHERE id > 3");
  rig.store->write([&](db::Tx& tx) {
    for (std::int64_t id = 4; id <= 9; ++id) {
      db::Query(tx,
                "INSERT INTO approvals_audit (id, at, run_uid, run_id, workflow, name, decided_by, verdict, decision) "
                "VALUES (?, 1, 'u', 1, 'gate', 'go', 'eve', 'accepted', '{}')")
          .bind(numbered ? std::optional(id) : std::nullopt)
          .run();
      kernel::chain_audit(tx, tx.last_insert_id());
    }
  });
}

}  // namespace

TEST_CASE("[A7] audit chain: a chain that was made anew does not go through the head that the log has") {
  for (const bool numbered : {false, true}) {
    INFO(numbered);
    Rig rig;
    prepare(rig);
    decide(rig, 4);
    const kernel::AuditHead logged = check(rig).head;
    decide(rig, 2);
    CHECK(check(rig, logged).verdict == Verdict::whole);
    make_anew(rig, numbered);
    // Ids never come back: there is a gap to the row before. Without one the file alone tells nothing.
    const AuditCheck alone = check(rig);
    CHECK(alone.verdict == (numbered ? Verdict::whole : Verdict::tampered));
    CHECK(alone.row == (numbered ? 0 : 10));
    const AuditCheck after = check(rig, logged);
    CHECK(after.verdict == Verdict::tampered);
    CHECK(after.row == (numbered ? logged.id : 10));
  }
}

TEST_CASE("[A7] audit chain: retention takes the oldest rows and the rest is still whole") {
  Rig rig;
  work::RetentionOptions keep;
  keep.rules.audit_for = 3'600'000;
  rig.keep = keep;
  prepare(rig);
  decide(rig, 4);
  const kernel::AuditHead old = check(rig).head;
  rig.advance(1'800'000);
  decide(rig, 2);
  const kernel::AuditHead recent = check(rig).head;
  rig.advance(2'000'000);
  rig.sweep->pass();
  REQUIRE(rig.number("SELECT count(*) FROM approvals_audit") == 3);
  CHECK(check(rig).verdict == Verdict::whole);
  CHECK(check(rig, recent).verdict == Verdict::whole);
  CHECK(check(rig, old).verdict == Verdict::whole);  // the last that went: its hash is kept
  kernel::AuditHead older = old;
  --older.id;
  CHECK(check(rig, older).verdict == Verdict::cannot_tell);
  rig.exec("DELETE FROM approvals_audit WHERE id = (SELECT min(id) FROM approvals_audit)");
  CHECK(check(rig).verdict == Verdict::tampered);
  rig.advance(4'000'000);
  rig.sweep->pass();
}

TEST_CASE("[A7] audit chain: all rows gone by age, and the next decision goes on from there") {
  Rig rig;
  work::RetentionOptions keep;
  keep.rules.audit_for = 3'600'000;
  rig.keep = keep;
  prepare(rig);
  decide(rig, 2);
  rig.advance(4'000'000);
  rig.sweep->pass();
  REQUIRE(rig.number("SELECT count(*) FROM approvals_audit") == 0);
  CHECK(check(rig).verdict == Verdict::whole);
  decide(rig, 1);
  CHECK(check(rig).verdict == Verdict::whole);
  CHECK(check(rig).rows == 1);
}

TEST_CASE("[A7] audit chain: rows from before there was one cannot be told, and what follows them is checked") {
  Rig rig;
  prepare(rig);
  decide(rig, 2);
  rig.exec("UPDATE approvals_audit SET chain = NULL");
  rig.exec("DELETE FROM meta WHERE key = 'audit_head'");
  CHECK(check(rig).verdict == Verdict::cannot_tell);
  decide(rig, 2);
  CHECK(check(rig).verdict == Verdict::cannot_tell);
  rig.exec("UPDATE approvals_audit SET decided_by = 'eve' WHERE id = (SELECT max(id) FROM approvals_audit)");
  CHECK(check(rig).verdict == Verdict::tampered);
}

TEST_CASE("audit log: a new head is said at most once in ten minutes, and at the end") {
  Rig rig;
  prepare(rig);
  decide(rig, 1);
  work::AuditLog log(*rig.store);
  CHECK(log.look() == 0);
  CHECK(log.pass() == 1);
  CHECK(log.pass() == 0);
  CHECK_FALSE(log.look());
  decide(rig, 1);
  CHECK(log.pass() == 0);
  CHECK(log.look() == limits::kAuditHeadMs);
  rig.advance(limits::kAuditHeadMs);
  CHECK(log.pass() == 1);
  decide(rig, 1);
  CHECK(log.say() == 1);
}
