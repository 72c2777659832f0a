// Store: jobs, savepoints, counters, bells, riders, readers.
#include <catch2/catch.hpp>

#include <atomic>
#include <set>
#include <thread>

#include "agent/base/errors.h"
#include "tests/db/store_fixture.h"

namespace bide::db {
namespace {

TEST_CASE("a write returns what its job returned and a reader sees it") {
  for (const bool threaded : {false, true}) {
    TestStore t(threaded);
    const auto id = t->write([](Tx& tx) {
      Query(tx, "INSERT INTO notes (text, bytes) VALUES (?, ?)").bind("one", Blob{"\0x"}).run();
      return tx.last_insert_id();
    });
    CHECK(id == 1);
    CHECK(t->read([](ReadTx& tx) { return Query(tx, "SELECT text FROM notes").one().text(0); }) == "one");
  }
}

TEST_CASE("a job that throws rolls back alone and its error arrives with its type") {
  for (const bool threaded : {false, true}) {
    TestStore t(threaded);
    std::atomic<int> bells{0};
    t->write([&](Tx& tx) {
      t.add_event(tx, "kept");
      tx.after_commit([&] { ++bells; });
    });
    CHECK_THROWS_AS(t->write([&](Tx& tx) {
      t.add_event(tx, "lost");
      tx.after_commit([&] { bells += 100; });
      throw CorruptData("no");
    }),
                    CorruptData);
    CHECK_THROWS_AS(t->write([](Tx& tx) { Query(tx, "INSERT INTO notes (text) VALUES (NULL)").run(); }), CorruptData);
    CHECK_THROWS_AS(t->write([](Tx& tx) { Query(tx, "SELECT nothing").run(); }), Bug);
    CHECK_THROWS_AS(t->write([](Tx& tx) { Query(tx, "SELECT \"nothing\"").run(); }), Bug);  // DQS is off
    CHECK(t->write([&](Tx& tx) { return t.add_event(tx, "next"); }) == 2);  // the lost id was given back
    CHECK(t.events() == 2);
    CHECK(bells == 1);
  }
}

TEST_CASE("[N77] 20 threads with 100 jobs each get event ids without gaps or repeats") {
  TestStore t(true);
  std::atomic<int> failed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 20; ++i) {
      threads.emplace_back([&, i] {
        for (int n = 0; n < 100; ++n) {
          try {
            t->write([&](Tx& tx) {
              t.add_event(tx, "e");
              if (n % 10 == i % 10) throw std::runtime_error("this one rolls back");
            });
          } catch (const std::runtime_error&) {
            ++failed;
          }
        }
      });
    }
  }
  CHECK(failed == 200);
  t->read([](ReadTx& tx) {
    Query q(tx, "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM events");
    q.one();
    CHECK(q.integer(0) == 1800);
    CHECK(q.integer(1) == 1800);
    CHECK(q.integer(2) == 1);
    CHECK(q.integer(3) == 1800);
  });
  CHECK(t->health().commits < 2000);
}

}  // namespace
}  // namespace bide::db
