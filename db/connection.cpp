#include "db/connection.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <utility>

#include "agent/base/errors.h"
#include "agent/base/limits.h"

namespace bide::db {
namespace {

[[noreturn]] void raise(int code, const std::string& text) {
  switch (code & 0xff) {
    case SQLITE_FULL: throw StorageFull(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED: throw StorageBusy(text);
    case SQLITE_CONSTRAINT:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: throw CorruptData(text);
    case SQLITE_READONLY:
      // The bare code is a write of ours on a read-only connection; the extended ones are the file's trouble.
      if (code == SQLITE_READONLY) throw Bug(text);
      throw StorageFault(text);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM:
    case SQLITE_PERM:
    case SQLITE_NOLFS:
    case SQLITE_PROTOCOL: throw StorageFault(text);
    default: throw Bug(text);
  }
}

Trouble trouble_of(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL: return Trouble::full;
    case SQLITE_READONLY: return code == SQLITE_READONLY ? Trouble::none : Trouble::io;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM:
    case SQLITE_PERM:
    case SQLITE_NOLFS:
    case SQLITE_PROTOCOL: return Trouble::io;
    default: return Trouble::none;
  }
}

int open_flags(Access access) {
  const int base = SQLITE_OPEN_NOMUTEX;
  if (access == Access::write) return base | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  return base | SQLITE_OPEN_READONLY;
}

}  // namespace

Connection::Connection(const ConnectionOptions& options) {
  // Nobody reads SQLite's memory statistics, and their mutex is taken at each allocation of every connection.
  // Refused, harmlessly, when something in the process has used SQLite before.
  [[maybe_unused]] static const int once = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  try {
    database_ = std::make_unique<SQLite::Database>(options.path, open_flags(options.access),
                                                   static_cast<int>(limits::kBusyMs), options.vfs);
  } catch (const SQLite::Exception& e) {
    raise(e.getExtendedErrorCode(), options.path + ": " + e.what());
  }
  handle_ = database_->getHandle();
  configure(options);
  begin_immediate_ = take("BEGIN IMMEDIATE");
  begin_ = take("BEGIN");
  commit_ = take("COMMIT");
  rollback_ = take("ROLLBACK");
  savepoint_ = take("SAVEPOINT job");
  release_ = take("RELEASE job");
  rollback_to_ = take("ROLLBACK TO job");
}

Connection::~Connection() {
  // Every statement, also one that a Query never gave back: an open one would keep the handle open.
  for (sqlite3_stmt* s = sqlite3_next_stmt(handle_, nullptr); s != nullptr; s = sqlite3_next_stmt(handle_, nullptr)) {
    sqlite3_finalize(s);
  }
  for (auto& [sql, head] : free_) {
    while (head != nullptr) delete std::exchange(head, head->next);
  }
  for (Prepared* p : {begin_immediate_, begin_, commit_, rollback_, savepoint_, release_, rollback_to_}) delete p;
}

void Connection::configure(const ConnectionOptions& options) {
  sqlite3_extended_result_codes(handle_, 1);
  const auto set = [this](int option, int value) {
    int now = 0;
    if (sqlite3_db_config(handle_, option, value, &now) != SQLITE_OK || now != value) {
      throw Bug("this SQLite lacks a setting that we need: " + std::to_string(option));
    }
  };
  set(SQLITE_DBCONFIG_DQS_DML, 0);
  set(SQLITE_DBCONFIG_DQS_DDL, 0);
  set(SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0);
  set(SQLITE_DBCONFIG_DEFENSIVE, 1);
  set(SQLITE_DBCONFIG_ENABLE_FKEY, 1);
  set(SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0);
  // A checkpoint is asked for, never a side effect of closing: a close after a failed COMMIT must write nothing.
  set(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1);
  exec("PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0; PRAGMA cell_size_check=ON");
  if (options.access == Access::write) {
    // Before the first table; without effect on a file that has one.
    exec(("PRAGMA page_size=" + std::to_string(options.page_size) + "; PRAGMA auto_vacuum=INCREMENTAL").c_str());
    // Enough for what a full batch dirties: a page that spills into the WAL before the COMMIT is written twice.
    exec("PRAGMA cache_size=-16384");
    exec("PRAGMA journal_mode=WAL; PRAGMA secure_delete=OFF; PRAGMA wal_autocheckpoint=0");
    exec(options.full_sync ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  } else {
    exec("PRAGMA query_only=ON; PRAGMA wal_autocheckpoint=0");
  }
}

Connection::Prepared* Connection::take(const char* sql) {
  Prepared*& home = free_[sql];  // nodes of the map stay where they are
  if (home != nullptr) return std::exchange(home, home->next);
  sqlite3_stmt* statement = nullptr;
  const char* rest = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, &rest);
  if (code != SQLITE_OK) fail(code, sql);
  if (statement == nullptr || (rest != nullptr && *rest != '\0')) {
    sqlite3_finalize(statement);
    throw Bug(std::string("one statement is wanted: ") + sql);
  }
  return new Prepared{statement, sql, &home, nullptr};
}

void Connection::give_back(Prepared* prepared) noexcept {
  sqlite3_reset(prepared->statement);  // repeats an error that was reported already
  sqlite3_clear_bindings(prepared->statement);
  prepared->next = std::exchange(*prepared->home, prepared);
}

void Connection::exec(const char* script) {
  const int code = sqlite3_exec(handle_, script, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, script);
}

std::int64_t Connection::pragma(const char* sql) {
  Prepared* prepared = take(sql);
  const int code = sqlite3_step(prepared->statement);
  const std::int64_t value = code == SQLITE_ROW ? sqlite3_column_int64(prepared->statement, 0) : 0;
  give_back(prepared);
  if (code != SQLITE_ROW && code != SQLITE_DONE) fail(code, sql);
  return value;
}

void Connection::run(Prepared* prepared) {
  const int code = sqlite3_step(prepared->statement);
  sqlite3_reset(prepared->statement);
  if (code != SQLITE_DONE) fail(code, prepared->sql);
}

void Connection::rollback() noexcept {
  if (autocommit()) return;
  sqlite3_step(rollback_->statement);
  sqlite3_reset(rollback_->statement);
}

bool Connection::autocommit() const { return sqlite3_get_autocommit(handle_) != 0; }

std::int64_t Connection::changes() const { return sqlite3_total_changes64(handle_); }

void Connection::fail(int code, const char* what) {
  const Trouble trouble = trouble_of(code);
  if (trouble_ != Trouble::io && trouble != Trouble::none) trouble_ = trouble;
  std::string text = std::string(sqlite3_errmsg(handle_)) + " (" + std::to_string(code) + ") in: " + what;
  if (text.size() > 500) text.resize(500);
  raise(code, text);
}

}  // namespace bide::db
