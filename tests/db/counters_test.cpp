// The ids that the writer counts [D2], the clock's mark [C6], and hands that are not ours.
#include <catch2/catch.hpp>

#include <SQLiteCpp/Database.h>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "tests/db/store_fixture.h"
#include "tests/support/fake_clock.h"

namespace bide::db {
namespace {

std::int64_t add(TestStore& t) {
  return t->write([&](Tx& tx) { return t.add_event(tx, "e"); });
}

std::int64_t meta(Store& store, std::string_view key) {
  return store.read([key](ReadTx& tx) {
    Query q(tx, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?");
    q.bind(key);
    return q.next() ? q.integer(0) : -1;
  });
}

TEST_CASE("an id that has left the file never comes back [D2]") {
  TestStore t(false);
  for (int i = 0; i < 5; ++i) add(t);
  SECTION("the highest row is deleted by us") {
    t->write([](Tx& tx) { CHECK(Query(tx, "DELETE FROM events WHERE id >= 4").run() == 2); });
  }
  SECTION("the whole table is deleted") {
    t->write([](Tx& tx) { Query(tx, "DELETE FROM events").run(); });
  }
  SECTION("by a foreign hand, while we are down") {
    t.close();
    SQLite::Database(t.path() + "/bide.db", SQLite::OPEN_READWRITE).exec("DELETE FROM events WHERE id = 5");
    t.open();
  }
  SECTION("row by row from the lowest, and the mark does not fall") {
    for (int i = 1; i <= 5; ++i) t->write([i](Tx& tx) { Query(tx, "DELETE FROM events WHERE id = ?").bind(i).run(); });
  }
  CHECK(meta(*t, "id_mark:events") == 5);
  t.close();
  t.open();
  CHECK(add(t) == 6);
  t->write([](Tx& tx) { Query(tx, "DELETE FROM events WHERE id <= 4").run(); });
  CHECK(meta(*t, "id_mark:events") == 5);
}

TEST_CASE("ids are given back when a job or its batch rolls back, and count on over a restart") {
  TestStore t(false);
  CHECK(add(t) == 1);
  CHECK_THROWS(t->write([&](Tx& tx) {
    CHECK(tx.next_id(Counter::events) == 2);
    CHECK(tx.next_id(Counter::steps) == 1);
    throw std::runtime_error("back");
  }));
  t->write([](Tx& tx) { CHECK(tx.next_id(Counter::steps) == 1); });  // a table that is missing counts from 1
  CHECK(add(t) == 2);
  t.close();
  t.open();
  CHECK(add(t) == 3);
}

TEST_CASE("a foreign writer is seen, said, and its ids are not given again") {
  TestStore t(false);
  CHECK(add(t) == 1);
  CHECK_FALSE(t->health().foreign_writer_seen);
  {
    SQLite::Database theirs(t.path() + "/bide.db", SQLite::OPEN_READWRITE);
    theirs.exec("INSERT INTO events (id, kind) VALUES (7, 'theirs')");
  }
  CHECK(add(t) == 8);
  CHECK(t->health().foreign_writer_seen);
}

TEST_CASE("a shell that holds the write lock makes a write busy, not failed") {
  TestStore t(false);
  SQLite::Database theirs(t.path() + "/bide.db", SQLite::OPEN_READWRITE);
  theirs.exec("BEGIN IMMEDIATE");
  CHECK_THROWS_AS(add(t), StorageBusy);
  theirs.exec("ROLLBACK");
  CHECK(add(t) == 1);
  CHECK_FALSE(t->health().failed);
}

TEST_CASE("the clock's mark is written with another commit, at most once a minute [C6]") {
  test::FakeClock clock;
  const TimeMs start = clock.wall_ms();
  TestStore t(false, {}, &clock);
  CHECK(meta(*t, "clock_mark") == -1);
  t->write([](Tx& tx) { Query(tx, "SELECT 1").one(); });
  CHECK(meta(*t, "clock_mark") == -1);  // a job that writes nothing makes no write
  add(t);
  CHECK(meta(*t, "clock_mark") == start);
  clock.advance(limits::kClockMarkMs - 1);
  add(t);
  CHECK(meta(*t, "clock_mark") == start);
  clock.advance(1);
  add(t);
  CHECK(meta(*t, "clock_mark") == start + limits::kClockMarkMs);
  clock.step_wall(-3'600'000);
  CHECK(t->now() == start + limits::kClockMarkMs);
  t.close();
  t.open();
  CHECK(t->now() == start + limits::kClockMarkMs);  // the anchor is the later of wall and mark
  CHECK(t->clock().held());
}

}  // namespace
}  // namespace bide::db
