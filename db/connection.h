// Connection: one SQLite connection with our settings, its cache of prepared statements, and the mapping of its
// errors to base/errors.h. One thread at a time (NOMUTEX): the writer's belongs to the writer, a reader's to its lease.
// Faults: see fail(). A storage error is remembered (trouble()), so that a job which swallows it commits nothing.
// Ownership: owns the handle and the statements; a Query borrows a statement and gives it back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

struct sqlite3;
struct sqlite3_stmt;
namespace SQLite {
class Database;
}

namespace bide::db {

enum class Access {
  write,   // the one connection that writes and checkpoints; makes the file
  read,    // a reader of the pool: read-only and query_only
  inspect  // a look at a file before anything of ours has touched it: read-only, changes no byte of it
};

struct ConnectionOptions {
  std::string path;  // absolute: a name that begins with "file:" would be a URI
  Access access = Access::read;
  bool full_sync = true;  // synchronous=FULL, else NORMAL [C3]
  std::string vfs;        // empty for the default
  int page_size = 2048;   // of a new file: measured, see tests/bench/README.md
};

// What kind of storage trouble a statement met since it was last asked.
enum class Trouble { none, full, io };

class Connection {
 public:
  // One statement of the cache. `next` links the free ones of the same literal, `home` is where they hang.
  struct Prepared {
    sqlite3_stmt* statement = nullptr;
    const char* sql = nullptr;
    Prepared** home = nullptr;
    Prepared* next = nullptr;
  };

  explicit Connection(const ConnectionOptions& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] sqlite3* handle() const { return handle_; }

  // A statement ready to be bound. The key is the address of the literal; a second use of a literal while the first
  // is open gets a statement of its own. Throws Bug for SQL that does not compile.
  [[nodiscard]] Prepared* take(const char* sql);
  void give_back(Prepared* prepared) noexcept;

  // Runs a whole script (migrations, pragmas).
  void exec(const char* script);
  // The first column of the first row, 0 without one: for pragmas.
  [[nodiscard]] std::int64_t pragma(const char* sql);

  void begin_immediate() { run(begin_immediate_); }
  void begin_read() { run(begin_); }
  void commit() { run(commit_); }
  // Ends the transaction if one is open. Never throws: what failed before is the error to report.
  void rollback() noexcept;
  // The guard of a job: mark, then keep or undo (undo releases the mark too).
  void mark() { run(savepoint_); }
  void keep() { run(release_); }
  void undo() {
    run(rollback_to_);
    run(release_);
  }
  // False inside a transaction. SQLite may have rolled back by itself after a failure: ask.
  [[nodiscard]] bool autocommit() const;
  [[nodiscard]] Trouble trouble() const { return trouble_; }
  void forget_trouble() { trouble_ = Trouble::none; }
  [[nodiscard]] std::int64_t changes() const;  // rows changed by this connection, ever

  // Maps a result code: FULL → StorageFull; BUSY, LOCKED → StorageBusy; IOERR, CANTOPEN, NOMEM and the like →
  // StorageFault; CONSTRAINT, CORRUPT, NOTADB → CorruptData; everything else → Bug.
  [[noreturn]] void fail(int code, const char* what);

 private:
  void configure(const ConnectionOptions& options);
  void run(Prepared* prepared);

  std::unique_ptr<SQLite::Database> database_;
  sqlite3* handle_ = nullptr;
  Trouble trouble_ = Trouble::none;
  std::unordered_map<const char*, Prepared*> free_;
  Prepared* begin_immediate_ = nullptr;
  Prepared* begin_ = nullptr;
  Prepared* commit_ = nullptr;
  Prepared* rollback_ = nullptr;
  Prepared* savepoint_ = nullptr;
  Prepared* release_ = nullptr;
  Prepared* rollback_to_ = nullptr;
};

}  // namespace bide::db
