// Migrations: applied once, remembered with their checksum; a foreign or newer file keeps its bytes.
#include <catch2/catch.hpp>

#include "agent/base/errors.h"
#include "agent/base/hash.h"
#include "db/connection.h"
#include "db/migrate.h"
#include "tests/db/store_fixture.h"
#include "tests/support/temp_dir.h"

namespace bide::db {
namespace {

using test::read_file;
using test::TempDir;

constexpr TimeMs kNow = 1'798'761'600'000;

std::vector<EmbeddedFile> one_more() {
  std::vector<EmbeddedFile> all(kTestMigrations.begin(), kTestMigrations.end());
  all.push_back({"0003_more.sql", "CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT;\n"});
  return all;
}

void make(const std::string& path, std::span<const EmbeddedFile> migrations) {
  Connection writer({.path = path, .access = Access::write, .vfs = {}});
  migrate(writer, migrations, kNow);
}

// The message of the ConfigFault that the store's start throws.
std::string refused(const std::string& directory, std::span<const EmbeddedFile> migrations) {
  SystemClock clock;
  try {
    Store store({.directory = directory, .threaded = false, .migrations = migrations}, clock);
  } catch (const ConfigFault& e) {
    return e.what();
  }
  return {};
}

// The database and its WAL, as bytes.
std::string digest(const TempDir& dir) {
  return to_hex(sha256(read_file(dir / "bide.db"))) + " " + to_hex(sha256(read_file(dir / "bide.db-wal")));
}

TEST_CASE("migrations are applied once, in order, with their checksums") {
  TempDir dir;
  {
    Connection writer({.path = dir.str("bide.db"), .access = Access::write, .vfs = {}});
    CHECK(migrate(writer, kTestMigrations, kNow) == 2);
    CHECK(migrate(writer, kTestMigrations, kNow + 1) == 0);
    CHECK(writer.pragma("PRAGMA application_id") == kApplicationId);
    CHECK(migrate(writer, one_more(), kNow + 2) == 1);
    ReadTx tx(writer);
    Query q(tx, "SELECT number, name, checksum, applied_at FROM migrations ORDER BY number DESC LIMIT 1");
    q.one();
    CHECK(q.integer(0) == 3);
    CHECK(q.text(1) == "0003_more.sql");
    CHECK(q.text(2) == to_hex(sha256(one_more().back().bytes)));
    CHECK(q.integer(3) == kNow + 2);
  }
}

TEST_CASE("a migration that fails leaves nothing of itself") {
  TempDir dir;
  Connection writer({.path = dir.str("bide.db"), .access = Access::write, .vfs = {}});
  migrate(writer, kTestMigrations, kNow);
  auto broken = one_more();
  broken.back().bytes = "CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT; INSERT INTO nothing VALUES (1);";
  CHECK_THROWS_AS(migrate(writer, broken, kNow), Bug);
  CHECK(migrate(writer, one_more(), kNow) == 1);
}

TEST_CASE("the numbers of migrations have no gap") {
  TempDir dir;
  Connection writer({.path = dir.str("bide.db"), .access = Access::write, .vfs = {}});
  const std::vector<EmbeddedFile> gap = {kTestMigrations[0], {"0003_x.sql", "SELECT 1;"}};
  CHECK_THROWS_AS(migrate(writer, gap, kNow), Bug);
}

TEST_CASE("a newer, a different and a foreign file are refused and keep their bytes") {
  TempDir dir;
  const std::string path = dir.str("bide.db");
  SECTION("newer") {
    make(path, one_more());
    const std::string before = digest(dir);
    REQUIRE_FALSE(
        read_file(dir / "bide.db-wal").empty());  // the last close left it: nothing is checkpointed by the way
    CHECK(refused(dir.str(), kTestMigrations).find("0003_more.sql") != std::string::npos);
    CHECK(digest(dir) == before);
    CHECK(refused(dir.str(), one_more()).empty());
  }
  SECTION("different") {
    make(path, kTestMigrations);
    const std::string before = digest(dir);
    std::vector<EmbeddedFile> other(kTestMigrations.begin(), kTestMigrations.end());
    other[0].bytes = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;\n";
    CHECK(refused(dir.str(), other).find("0001_meta.sql") != std::string::npos);
    CHECK(digest(dir) == before);
  }
  SECTION("another program's") {
    {
      Connection writer({.path = path, .access = Access::write, .vfs = {}});
      writer.exec("CREATE TABLE theirs (x); PRAGMA application_id = 7");
    }
    const std::string before = digest(dir);
    CHECK(refused(dir.str(), kTestMigrations).find("not a file of bide") != std::string::npos);
    CHECK(digest(dir) == before);
  }
  SECTION("no database at all") {
    test::write_file(path, std::string(5000, 'x'));
    const std::string before = digest(dir);
    CHECK(refused(dir.str(), kTestMigrations).find(path) != std::string::npos);
    CHECK(digest(dir) == before);
  }
}

TEST_CASE("our own migrations make a file with our settings, and every counted table keeps its mark") {
  TempDir dir;
  SystemClock clock;
  Store store({.directory = dir.str(), .threaded = false}, clock);
  store.write([](Tx& tx) {
    Connection& c = tx.connection();
    CHECK(c.pragma("PRAGMA foreign_keys") == 1);
    CHECK(c.pragma("PRAGMA trusted_schema") == 0);
    CHECK(c.pragma("PRAGMA synchronous") == 2);
    CHECK(c.pragma("PRAGMA auto_vacuum") == 2);
    CHECK(c.pragma("PRAGMA wal_autocheckpoint") == 0);
    CHECK(c.pragma("PRAGMA secure_delete") == 0);
    CHECK(c.pragma("PRAGMA cell_size_check") == 1);
    CHECK(c.pragma("PRAGMA temp_store") == 2);
    CHECK(c.pragma("PRAGMA mmap_size") == 0);
    CHECK(c.pragma("PRAGMA application_id") == kApplicationId);
    CHECK(Query(tx, "PRAGMA journal_mode").one().text(0) == "wal");
    CHECK(Query(tx,
                "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name IN "
                "('steps_id_mark', 'waits_id_mark', 'events_id_mark')")
              .one()
              .integer(0) == 3);
  });
  store.read([](ReadTx& tx) {
    CHECK(tx.connection().pragma("PRAGMA query_only") == 1);
    CHECK(tx.connection().pragma("PRAGMA trusted_schema") == 0);
    CHECK_THROWS_AS(Query(tx, "INSERT INTO meta (key, value) VALUES ('a', 'b')").run(), Bug);
  });
}

}  // namespace
}  // namespace bide::db
