// The writer's thread: batches, order, riders, readers beside it, and silence when idle.
#include <catch2/catch.hpp>

#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "tests/db/gate.h"
#include "tests/db/store_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/vfs_shim.h"

namespace bide::db {
namespace {

using std::chrono::steady_clock;
using test::eventually;

void note(Tx& tx, std::string_view text) { Query(tx, "INSERT INTO notes (text) VALUES (?)").bind(text).run(); }

std::int64_t count_notes(ReadTx& tx) { return Query(tx, "SELECT count(*) FROM notes").one().integer(0); }

TEST_CASE("what queued during a batch is one commit, answered in order, then bells in order [C2]") {
  TestStore t(true);
  std::mutex mutex;
  std::vector<std::string> heard;
  const auto hear = [&](std::string what) {
    const std::lock_guard lock(mutex);
    heard.push_back(std::move(what));
  };
  std::atomic<bool> last{false};
  {
    Gate gate(*t);
    const std::uint64_t before = t->health().commits;
    for (int i = 0; i < 3; ++i) {
      t->submit(
          [&, i](Tx& tx) {
            note(tx, "n");
            tx.after_commit([&, i] { hear("bell " + std::to_string(i)); });
            if (i == 1) throw CorruptData("refused");
          },
          [&, i](const std::optional<std::string>& error) {
            hear("answer " + std::to_string(i) + (error ? " error" : ""));
          });
    }
    t->submit([&](Tx& tx) { tx.after_commit([&] { last = true; }); }, [](const auto&) {});
    gate.open();
    eventually([&] { return last.load(); }, "the last bell");
    CHECK(t->health().commits == before + 2);  // the gate's, and one for the four
  }
  CHECK(heard == std::vector<std::string>{"answer 0", "answer 1 error", "answer 2", "bell 0", "bell 2"});
  CHECK(t->read(count_notes) == 2);
}

TEST_CASE("a job and a bell that wait for another write are refused, one that submits is not") {
  for (const bool threaded : {false, true}) {
    TestStore t(threaded);
    CHECK_THROWS_AS(t->write([&](Tx&) { t->write([](Tx&) {}); }), Bug);
    std::atomic<int> done{0};
    t->write([&](Tx& tx) {
      tx.after_commit([&] {
        t->submit([](Tx& inner) { note(inner, "later"); }, [&](const auto& error) { done = error ? 1 : 2; });
      });
    });
    eventually([&] { return done == 2; }, "the submitted job ran");
    CHECK(t->read(count_notes) == 1);
  }
}

TEST_CASE("a rider waits for company, but not for longer than 100 ms [J1]") {
  TestStore t(true);
  const auto ridden = [&](std::atomic<bool>& flag) {
    t->ride([](Tx& tx) { note(tx, "rider"); }, [&flag](const auto& error) { flag = !error; });
  };
  SECTION("alone") {
    std::atomic<bool> done{false};
    const std::uint64_t before = t->health().commits;
    const auto begin = steady_clock::now();
    ridden(done);
    eventually([&] { return done.load(); }, "the rider is committed");
    const auto took = steady_clock::now() - begin;
    CHECK(took >= std::chrono::milliseconds(limits::kRiderMs - 10));
    CHECK(took < std::chrono::milliseconds(limits::kRiderMs + 2000));
    CHECK(t->health().commits == before + 1);
  }
  SECTION("with the next batch, before the job that follows it") {
    std::atomic<bool> done{false};
    const std::uint64_t before = t->health().commits;
    ridden(done);
    CHECK(t->write([](Tx& tx) { return count_notes(tx); }) == 1);
    CHECK(done);
    CHECK(t->health().commits == before + 1);
  }
  SECTION("one that became needless before its batch is not run, and its caller is told as if it was") {
    const auto needless = std::make_shared<std::atomic<bool>>(false);
    std::atomic<int> done{0};
    t->ride([](Tx& tx) { note(tx, "needed"); }, [&](const auto& error) { done += error ? 100 : 1; },
            std::make_shared<std::atomic<bool>>(false));
    t->ride([](Tx& tx) { note(tx, "needless"); }, [&](const auto& error) { done += error ? 100 : 1; }, needless);
    *needless = true;
    const std::uint64_t jobs = t->health().jobs;
    t->write([](Tx& tx) { note(tx, "job"); });
    CHECK(done == 2);
    const std::string texts =
        t->read([](ReadTx& tx) { return Query(tx, "SELECT group_concat(text, ' ') FROM notes").one().text(0); });
    CHECK(texts == "needed job");
    CHECK(t->health().jobs == jobs + 2);
  }
  SECTION("flushed") {
    std::atomic<bool> done{false};
    ridden(done);
    t->flush_riders();
    CHECK(done);
  }
  SECTION("many riders without a job are one commit each 100 ms at most") {
    std::atomic<int> done{0};
    const std::uint64_t before = t->health().commits;
    const auto begin = steady_clock::now();
    for (int i = 0; i < 300; ++i) {
      t->ride([](Tx& tx) { note(tx, "r"); }, [&](const auto&) { ++done; });
      if (i % 100 == 99) std::this_thread::yield();
    }
    eventually([&] { return done == 300; }, "all are committed");
    const auto windows = (steady_clock::now() - begin) / std::chrono::milliseconds(limits::kRiderMs) + 1;
    CHECK(t->health().commits - before <= static_cast<std::uint64_t>(windows));
    CHECK(t->read(count_notes) == 300);
  }
  SECTION("at the close") {
    std::atomic<bool> done{false};
    ridden(done);
    t->close();
    CHECK(done);
  }
}

TEST_CASE("inline, a rider waits for the next write or a flush") {
  TestStore t(false);
  int done = 0;
  t->ride([](Tx& tx) { note(tx, "r"); }, [&](const auto&) { ++done; });
  CHECK(done == 0);
  t->write([](Tx& tx) { CHECK(count_notes(tx) == 1); });
  CHECK(done == 1);
  t->ride([](Tx& tx) { note(tx, "r"); }, [&](const auto&) { ++done; });
  t->flush_riders();
  CHECK(done == 2);
  t->ride([](Tx& tx) { note(tx, "r"); }, [&](const auto&) { ++done; });
  t->close();
  CHECK(done == 3);
}

TEST_CASE("a reader that holds a snapshot makes none of 1000 writes fail and sees none of them") {
  TestStore t(true);
  t->write([](Tx& tx) { note(tx, "first"); });
  const std::string text(20'000, 'x');  // 20 MB in all: checkpoints meet the reader
  t->read([&](ReadTx& tx) {
    CHECK(count_notes(tx) == 1);
    std::vector<std::jthread> writers;
    for (int w = 0; w < 4; ++w) {
      writers.emplace_back([&] {
        for (int i = 0; i < 250; ++i) t->write([&](Tx& job) { note(job, text); });
      });
    }
    writers.clear();
    CHECK(count_notes(tx) == 1);
  });
  CHECK(t->read(count_notes) == 1001);
  CHECK(t->health().wal_bytes > limits::kCheckpointBytes);
  eventually([&] { return t->health().wal_bytes == 0; }, "the WAL is emptied once the reader has gone");
}

TEST_CASE("an idle checkpoint that a reader stands in the way of is tried again, and nothing fails") {
  TestStore t(true);
  t->write([](Tx& tx) { note(tx, "first"); });
  t->read([&](ReadTx& tx) {
    CHECK(count_notes(tx) == 1);
    t->write([](Tx& job) { note(job, "second"); });
    const std::uint64_t wakes = t->health().wakes;
    eventually([&] { return t->health().wakes >= wakes + 3; }, "it was tried twice");
    CHECK(t->health().wal_bytes > 0);
    CHECK_FALSE(t->health().failed);
  });
  eventually([&] { return t->health().wal_bytes == 0; }, "the WAL is emptied");
}

TEST_CASE("a reader sees what was answered before it began") {
  TestStore t(true);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        const std::int64_t id = t->write([](Tx& tx) {
          note(tx, "n");
          return tx.last_insert_id();
        });
        if (t->read([](ReadTx& tx) { return Query(tx, "SELECT max(id) FROM notes").one().integer(0); }) < id) ++wrong;
      }
    });
  }
  threads.clear();
  CHECK(wrong == 0);
}

// Asked of the disk under SQLite: what a sanitizer writes for itself is in /proc/self/io.
TEST_CASE("an idle store checkpoints once and then neither writes nor wakes") {
  test::VfsShim disk("idle");
  TestStore t(true, disk.name());
  for (int i = 0; i < 10; ++i) t->write([](Tx& tx) { note(tx, "n"); });
  CHECK(t->health().wal_bytes > 0);
  eventually([&] { return t->health().wal_bytes == 0; }, "the idle checkpoint");
  const auto changes = [&] {
    return disk.count(test::DiskOp::write) + disk.count(test::DiskOp::sync) + disk.count(test::DiskOp::truncate);
  };
  const std::uint64_t wakes = t->health().wakes;
  const std::uint64_t before = changes();
  CHECK(before > 0);
  CHECK_FALSE(
      test::holds_within(std::chrono::seconds(3), [&] { return changes() != before || t->health().wakes != wakes; }));
}

TEST_CASE("a large WAL is moved over while writing goes on") {
  TestStore t(true);
  const std::string text(100'000, 'x');
  std::int64_t most = 0;
  for (int i = 0; i < 300; ++i) {
    t->write([&](Tx& tx) { note(tx, text); });
    most = std::max(most, t->health().wal_bytes);
  }
  CHECK(most >= limits::kCheckpointBytes);
  CHECK(most < limits::kCheckpointBytes * 3 / 2);
}

TEST_CASE("after close nothing is taken") {
  for (const bool threaded : {false, true}) {
    TestStore t(threaded);
    t->close();
    CHECK_THROWS_AS(t->write([](Tx&) {}), StorageFault);
    std::optional<std::string> told;
    t->submit([](Tx&) {}, [&](const auto& error) { told = error; });
    CHECK(told == "closing");
  }
}

TEST_CASE("every kind of error arrives as itself") {
  TestStore t(true);
  CHECK_THROWS_AS(t->write([](Tx&) { throw Bug("x"); }), Bug);
  CHECK_THROWS_AS(t->write([](Tx&) { throw StorageBusy("x"); }), StorageBusy);
  CHECK_THROWS_AS(t->write([](Tx&) { throw CorruptData("x"); }), CorruptData);
  CHECK_THROWS_AS(t->write([](Tx&) { throw ConfigFault("x"); }), ConfigFault);
  CHECK_THROWS_AS(t->write([](Tx&) { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK_THROWS_WITH(t->write([](Tx&) { throw std::runtime_error("text"); }), "text");
  CHECK_THROWS_AS(t->write([](Tx&) { throw 7; }), Bug);
  t->write([](Tx& tx) { note(tx, "still works"); });
}

TEST_CASE("a job that ends the transaction of its batch fails, and the store goes on") {
  TestStore t(true);
  CHECK_THROWS_AS(t->write([](Tx& tx) { Query(tx, "COMMIT").run(); }), Bug);
  CHECK_THROWS_AS(t->write([](Tx& tx) { Query(tx, "ROLLBACK").run(); }), Bug);
  t->write([](Tx& tx) { note(tx, "still works"); });
}

}  // namespace
}  // namespace bide::db
