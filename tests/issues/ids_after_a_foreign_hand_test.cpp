// A foreign hand had inserted rows (nobody should), and in the batch that noticed it a job threw: the batch was run
// again with the ids of before the look, and the look saw nothing new. From then on each insert met the foreign row's
// id, the id was given back, and met it again: no event could be written until a restart. Ids that are in the file stay
// taken now, whatever of ours is rolled back.
#include <catch2/catch.hpp>

#include <SQLiteCpp/Database.h>

#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/db/store_fixture.h"
#include "tests/support/eventually.h"

using namespace bide;
using namespace bide::db;

TEST_CASE("[D2] issue: ids of a foreign hand stay taken when the batch that saw them is rolled back") {
  TestStore t;
  const auto add = [&] { return t->write([&](Tx& tx) { return t.add_event(tx, "e"); }); };
  REQUIRE(add() == 1);
  std::promise<void> between, go;
  t->submit(
      [&](Tx& tx) {
        tx.after_commit([&] {  // no bell waits, but this one keeps the writer between two batches
          between.set_value();
          go.get_future().wait();
        });
      },
      [](const auto&) {});
  between.get_future().wait();
  SQLite::Database(t.path() + "/bide.db", SQLite::OPEN_READWRITE)
      .exec("INSERT INTO events (id, kind) VALUES (2, 'x'), (3, 'y'), (4, 'z')");
  std::atomic<int> done{0};
  t->submit([](Tx&) { throw std::runtime_error("no"); }, [&](const auto&) { ++done; });
  t->submit([](Tx&) {}, [&](const auto&) { ++done; });
  go.set_value();
  test::eventually([&] { return done.load() == 2; }, "the batch is over");
  CHECK(t->health().foreign_writer_seen);
  CHECK(add() == 5);
  CHECK(t.events() == 5);
}
