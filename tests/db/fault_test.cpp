// What the store does when the disk fails, fills up or loses power. The disk is VfsShim.
#include <catch2/catch.hpp>

#include <sys/mount.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "tests/db/gate.h"
#include "tests/db/store_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/vfs_shim.h"

namespace bide::db {
namespace {

using test::DiskOp;
using test::eventually;
using test::Loss;
using test::VfsShim;

std::int64_t note(Store& store, std::string_view text, Purpose purpose = Purpose::normal) {
  return store.write(
      [text](Tx& tx) {
        Query(tx, "INSERT INTO notes (text) VALUES (?)").bind(text).run();
        return tx.last_insert_id();
      },
      purpose);
}

std::set<std::string> notes(Store& store) {
  return store.read([](ReadTx& tx) {
    std::set<std::string> all;
    Query q(tx, "SELECT text FROM notes ORDER BY id");
    while (q.next()) all.insert(q.text(0));
    return all;
  });
}

void check_whole(Store& store) {
  store.read([](ReadTx& tx) { CHECK(Query(tx, "PRAGMA integrity_check").one().text(0) == "ok"); });
}

TEST_CASE("[N87] two jobs in one batch whose COMMIT fails on its sync, and nobody is answered") {
  VfsShim disk("n87");
  TestStore t(false, disk.name());  // made without faults
  t.close();
  std::atomic<int> fatal{0};
  std::atomic<int> answered_before_fatal{0};
  std::atomic<int> answers{0};
  std::atomic<int> bells{0};
  t.options().threaded = true;
  t.options().on_fatal = [&](const std::string&) {
    answered_before_fatal = answers.load();
    ++fatal;
  };
  t.open();
  note(*t, "acknowledged");
  Gate gate(*t);
  std::atomic<int> faults{0};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&, i] {
      try {
        t->write([&, i](Tx& tx) {
          Query(tx, "INSERT INTO notes (text) VALUES (?)").bind("in doubt " + std::to_string(i)).run();
          tx.after_commit([&] { ++bells; });
        });
      } catch (const StorageFault&) {
        ++faults;
      }
      ++answers;
    });
  }
  eventually([&] { return t->health().queued_jobs == 2; }, "both jobs are queued");
  // The gate's own batch changes nothing and syncs nothing.
  disk.fail({.op = DiskOp::sync, .suffix = "-wal"});
  gate.open();
  callers.clear();
  CHECK(faults == 2);
  CHECK(fatal == 1);
  CHECK(answered_before_fatal == 0);
  CHECK(bells == 0);
  CHECK(t->health().failed);
  CHECK_THROWS_AS(note(*t, "afterwards"), StorageFault);
  CHECK_THROWS_AS(notes(*t), StorageFault);
  const std::uint64_t written = disk.bytes_written();
  t.close();
  CHECK(disk.bytes_written() == written);  // sticky: nothing more is written, not by closing either
  disk.crash(Loss::all);
  t.open();
  CHECK(notes(*t).contains("acknowledged"));
  CHECK_FALSE(notes(*t).contains("afterwards"));
  check_whole(*t);
}

TEST_CASE("[N119] disk full at a COMMIT, decisions on the reserve, and normal again by itself") {
  VfsShim disk("n119");
  TestStore t(true, disk.name());
  const std::string reserve = t.path() + "/bide.reserve";
  note(*t, "before");
  disk.limit(disk.used() + limits::kReserveBytes + 20'000, reserve);
  const std::string big(100'000, 'x');
  CHECK_THROWS_AS(note(*t, big), StorageFull);
  CHECK(t->health().storage_full);
  CHECK_THROWS_AS(note(*t, "small"), StorageFull);      // refused without a try
  CHECK(notes(*t) == std::set<std::string>{"before"});  // reads go on
  note(*t, "decided", Purpose::decision);
  CHECK_FALSE(std::filesystem::exists(reserve));
  note(*t, "decided too", Purpose::decision);
  std::atomic<int> rode{0};
  t->ride([](Tx&) {}, [&](const auto& error) { rode = error ? 1 : 2; });
  eventually([&] { return rode == 1; }, "a rider is refused");
  CHECK_FALSE(t->health().failed);
  disk.limit(0);
  eventually([&] { return !t->health().storage_full; }, "normal again");
  CHECK(std::filesystem::file_size(reserve) == limits::kReserveBytes);
  note(*t, big);
  CHECK(notes(*t) == std::set<std::string>{"before", "decided", "decided too", big});
  check_whole(*t);
}

TEST_CASE("[N119] disk full at a checkpoint is nothing fatal") {
  VfsShim disk("n119c");
  TestStore t(true, disk.name());
  const std::string big(500'000, 'x');
  for (int i = 0; i < 4; ++i) note(*t, big + std::to_string(i));
  disk.fail({.op = DiskOp::write, .full = true, .for_ever = true, .suffix = ".db"});
  for (int i = 4; i < 40; ++i) note(*t, big + std::to_string(i));  // passes the 8 MB twice
  eventually([&] { return disk.faults_given() >= 3; }, "checkpoints, also the idle one, met a full disk");
  CHECK_FALSE(t->health().failed);
  CHECK(t->health().wal_bytes > limits::kCheckpointBytes);
  disk.heal();
  eventually([&] { return t->health().wal_bytes == 0; }, "the WAL is emptied when going idle");
  CHECK(notes(*t).size() == 40);
  check_whole(*t);
}

TEST_CASE("[N119] disk full within a job that swallows the error, and its batch is rolled back") {
  VfsShim disk("n119s");
  TestStore t(true, disk.name());
  disk.limit(disk.used() + limits::kReserveBytes + 50'000, t.path() + "/bide.reserve");
  bool swallowed = false;
  std::atomic<int> neighbour{0};
  {
    Gate gate(*t);
    t->submit([](Tx& tx) { Query(tx, "INSERT INTO notes (text) VALUES ('neighbour')").run(); },
              [&](const auto& error) { neighbour = error ? 1 : 2; });
    t->submit(
        [&](Tx& tx) {
          try {  // more than the page cache holds: it spills into the WAL before the COMMIT
            for (int i = 0; i < 60; ++i)
              Query(tx, "INSERT INTO notes (text) VALUES (?)").bind(std::string(500'000, 'x')).run();
          } catch (const StorageFull&) {
            swallowed = true;
          }
        },
        [&](const auto& error) {
          if (!error) neighbour = 3;
        });
    gate.open();
  }
  eventually([&] { return neighbour != 0; }, "the neighbour is answered");
  CHECK(swallowed);
  CHECK(neighbour == 1);
  CHECK(notes(*t).empty());
  CHECK(t->health().storage_full);
}

// A real file system of 4 MiB. Needs the right to mount one; VfsShim's tests above need none.
class SmallDisk {
 public:
  SmallDisk() : mounted_(::mount("tmpfs", dir_.str().c_str(), "tmpfs", 0, "size=4m") == 0) {
    if (!mounted_) WARN("no right to mount a file system: skipped");
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(dir_.str().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string path() const { return dir_.str(); }
  void fill() {
    std::ofstream file(dir_ / "ballast", std::ios::binary);
    const std::string block(4096, 'b');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void clear() { std::filesystem::remove(dir_ / "ballast"); }

 private:
  test::TempDir dir_;
  bool mounted_;
};

TEST_CASE("[N119] a real file system that is full, and the same process goes on when there is space") {
  SmallDisk disk;
  if (!disk.mounted()) return;
  SystemClock clock;
  std::atomic<int> fatal{0};
  Store store(
      {.directory = disk.path(), .on_fatal = [&](const std::string&) { ++fatal; }, .migrations = kTestMigrations},
      clock);
  note(store, "before");
  disk.fill();
  int full = 0;
  for (int i = 0; i < 40 && full == 0; ++i) {  // some pages may be left in the WAL's last block
    try {
      note(store, std::string(20'000, 'x'));
    } catch (const StorageFull&) {
      ++full;
    }
  }
  REQUIRE(full == 1);
  CHECK(notes(store).contains("before"));
  for (int i = 0; i < 20; ++i) note(store, "decision " + std::to_string(i), Purpose::decision);
  CHECK_THROWS_AS(note(store, "normal"), StorageFull);
  disk.clear();
  eventually([&] { return !store.health().storage_full; }, "normal again");
  note(store, "after");
  CHECK(notes(store).contains("decision 19"));
  CHECK(notes(store).contains("after"));
  CHECK(fatal == 0);
  check_whole(store);
}

TEST_CASE("[N119] a start on a full disk reads, takes decisions, and is normal when there is space") {
  SmallDisk disk;
  if (!disk.mounted()) return;
  SystemClock clock;
  StoreOptions options{.directory = disk.path(), .migrations = kTestMigrations};
  {
    Store store(options, clock);
    note(store, "before");
  }
  std::filesystem::remove(disk.path() + "/bide.db-shm");  // as after a restore, or on a machine that was set up anew
  disk.fill();
  Store store(options, clock);
  CHECK(store.health().storage_full);
  CHECK(notes(store) == std::set<std::string>{"before"});
  note(store, "decided", Purpose::decision);
  CHECK_THROWS_AS(note(store, "normal"), StorageFull);
  disk.clear();
  eventually([&] { return !store.health().storage_full; }, "normal again");
  note(store, "after");
  CHECK(notes(store) == std::set<std::string>{"after", "before", "decided"});
}

TEST_CASE("a read that fails within a job which swallows it ends the store") {
  VfsShim disk("read-swallow");
  TestStore t(false, disk.name());
  for (int i = 0; i < 50; ++i) note(*t, std::string(10'000, 'x'));
  t.close();
  std::atomic<int> fatal{0};
  t.options().on_fatal = [&](const std::string&) { ++fatal; };
  t.open();
  bool swallowed = false;
  disk.fail({.op = DiskOp::read, .nth = 5});
  CHECK_THROWS_AS(t->write([&](Tx& tx) {
    try {
      Query(tx, "SELECT sum(length(text)) FROM notes").one();
    } catch (const StorageFault&) {
      swallowed = true;
    }
    Query(tx, "INSERT INTO notes (text) VALUES ('never')").run();
  }),
                  StorageFault);
  CHECK(swallowed);
  CHECK(fatal == 1);
}

TEST_CASE("an I/O error in a checkpoint ends the store") {
  VfsShim disk("ckpt-io");
  TestStore t(false, disk.name());
  t.close();
  std::atomic<int> fatal{0};
  t.options().threaded = true;
  t.options().on_fatal = [&](const std::string&) { ++fatal; };
  t.open();
  note(*t, "kept");
  disk.fail({.op = DiskOp::sync, .for_ever = true, .suffix = ".db"});
  eventually([&] { return fatal == 1; }, "the idle checkpoint failed");
  CHECK_THROWS_AS(note(*t, "no"), StorageFault);
  t.close();
  disk.crash();
  disk.heal();
  t.open();
  CHECK(notes(*t) == std::set<std::string>{"kept"});
}

// Runs a fixed piece of work; returns what was acknowledged.
std::set<std::string> work(Store& store, const std::string& prefix) {
  std::set<std::string> acknowledged;
  for (int i = 0; i < 12; ++i) {
    const std::string text = prefix + std::to_string(i) + std::string(static_cast<std::size_t>(i) * 700, 'y');
    try {
      note(store, text);
      acknowledged.insert(text);
    } catch (const StorageFault&) {
    } catch (const StorageFull&) {
    }
  }
  return acknowledged;
}

TEST_CASE("[N84] the n-th operation fails, once or for ever, and what was acknowledged is there") {
  int reached = 0;
  VfsShim disk("io-loop");
  TestStore t(false, disk.name());
  t.close();
  t.options().on_fatal = [](const std::string&) {};
  for (const DiskOp op : {DiskOp::write, DiskOp::sync, DiskOp::read, DiskOp::truncate, DiskOp::shm, DiskOp::open}) {
    for (const bool full : {false, true}) {
      if (full && op != DiskOp::write) continue;
      for (const bool for_ever : {false, true}) {
        for (const bool after : {false, true}) {
          for (std::uint64_t n = 1; n < 200; ++n) {
            disk.heal();
            disk.wipe();
            t.open();
            std::set<std::string> expected = work(*t, "a");
            t.close();
            const std::uint64_t given = disk.faults_given();
            disk.fail({.op = op, .nth = n, .full = full, .for_ever = for_ever, .after = after});
            try {
              t.open();
              expected.merge(work(*t, "b"));
            } catch (const StorageFault&) {
            } catch (const StorageFull&) {
            } catch (const CorruptData&) {  // what a failed read left
            }
            if (t.is_open()) t.close();
            const bool hit = disk.faults_given() > given;
            disk.heal();
            disk.crash(n % 2 == 0 ? Loss::all : Loss::some, n);
            t.open();
            const std::set<std::string> there = notes(*t);
            for (const std::string& text : expected) {
              if (!there.contains(text))
                FAIL("lost " << text.substr(0, 3) << " op " << static_cast<int>(op) << " n " << n);
            }
            check_whole(*t);
            t.close();
            if (!hit) break;
            ++reached;
          }
        }
      }
    }
  }
  CHECK(reached > 150);
}

TEST_CASE("[N84] power loss at any point keeps every acknowledged write, torn sectors included") {
  VfsShim disk("power");
  TestStore t(false, disk.name());
  std::set<std::string> expected;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const std::string prefix = std::to_string(seed) + "-";
    for (std::uint64_t i = 0; i <= seed % 7; ++i) {
      const std::string text = prefix + std::to_string(i) + std::string((seed * 977 + i * 331) % 9000, 'z');
      note(*t, text);
      expected.insert(text);
    }
    if (seed % 5 == 0) t.close();  // a checkpoint, then power loss
    disk.crash(seed % 3 == 0 ? Loss::all : Loss::some, seed);
    t.close();
    t.open();
    if (seed % 20 == 0) {
      REQUIRE(notes(*t) == expected);
      check_whole(*t);
    }
  }
}

}  // namespace
}  // namespace bide::db
