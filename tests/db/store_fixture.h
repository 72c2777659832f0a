// A Store in a directory of its own, with a small schema of its own: notes (AUTOINCREMENT) and events (counted).
#pragma once

#include <array>
#include <memory>
#include <string>

#include "agent/base/clock.h"
#include "db/store.h"
#include "tests/support/temp_dir.h"

namespace bide::db {

inline constexpr std::array<EmbeddedFile, 2> kTestMigrations{{
    {"0001_meta.sql", "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;\n"},
    {"0002_things.sql",
     "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, bytes BLOB) STRICT;\n"
     "CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT NOT NULL) STRICT;\n"
     "CREATE TRIGGER events_id_mark AFTER DELETE ON events WHEN NOT EXISTS (SELECT 1 FROM events WHERE id > OLD.id)\n"
     "  BEGIN\n"
     "    INSERT INTO meta (key, value) VALUES ('id_mark:events', OLD.id) ON CONFLICT (key) DO UPDATE\n"
     "       SET value = excluded.value WHERE CAST(value AS INTEGER) < OLD.id;\n"
     "  END;\n"},
}};

class TestStore {
 public:
  explicit TestStore(bool threaded = true, std::string vfs = {}, Clock* clock = nullptr) : clock_(clock) {
    options_.directory = dir_.str();
    options_.threaded = threaded;
    options_.vfs = std::move(vfs);
    options_.migrations = kTestMigrations;
    open();
  }
  void open() { store_ = std::make_unique<Store>(options_, clock_ != nullptr ? *clock_ : system_clock_); }
  void close() { store_.reset(); }
  [[nodiscard]] bool is_open() const { return store_ != nullptr; }
  [[nodiscard]] StoreOptions& options() { return options_; }
  [[nodiscard]] std::string path() const { return dir_.str(); }
  Store* operator->() { return store_.get(); }
  Store& operator*() { return *store_; }

  std::int64_t add_event(Tx& tx, std::string_view kind) {
    const std::int64_t id = tx.next_id(Counter::events);
    Query(tx, "INSERT INTO events (id, kind) VALUES (?, ?)").bind(id, kind).run();
    return id;
  }
  [[nodiscard]] std::int64_t events() {
    return store_->read([](ReadTx& tx) { return Query(tx, "SELECT count(*) FROM events").one().integer(0); });
  }

 private:
  test::TempDir dir_;
  SystemClock system_clock_;
  Clock* clock_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

}  // namespace bide::db
