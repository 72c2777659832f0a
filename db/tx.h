// Tx, ReadTx, Query: how SQL is run. Only Store makes a Tx (one writer), only ReadPool or Store a ReadTx.
// SQL is always a literal: the statement cache is keyed by the literal's address. Not thread-safe: a Tx belongs
// to the job that it was given to.
// Faults: StorageFault (I/O), StorageFull, StorageBusy, CorruptData (a CHECK, trigger or key refused), Bug (bad SQL).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "agent/base/errors.h"
#include "agent/base/ids.h"
#include "agent/base/time.h"

namespace bide::db {

class Connection;
struct TxScope;

// Bytes that are bound as a BLOB (a std::string or string_view is bound as TEXT).
struct Blob {
  std::string_view bytes;
};

// A literal SQL text: cannot be made from a string that was put together.
class Sql {
 public:
  template <std::size_t N>
  consteval Sql(const char (&text)[N]) : text_(text) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] const char* text() const { return text_; }

 private:
  const char* text_;
};

// Reads. A snapshot: all queries of one ReadTx see the same commit.
class ReadTx {
 public:
  explicit ReadTx(Connection& connection) : connection_(&connection) {}
  ReadTx(const ReadTx&) = delete;
  ReadTx& operator=(const ReadTx&) = delete;
  [[nodiscard]] Connection& connection() { return *connection_; }

 private:
  Connection* connection_;
};

// The slots of ids that the writer counts itself (no AUTOINCREMENT page in each commit) [D2].
enum class Counter { steps, waits, events };
inline constexpr int kCounters = 3;

using Bell = std::function<void()>;

// Reads and writes, inside one savepoint of the writer's batch.
class Tx : public ReadTx {
 public:
  // The store's clock, read once a transaction [C6]. Pass it on to kernel functions.
  [[nodiscard]] TimeMs now() const { return now_; }
  // Rings after the COMMIT, in order, on the writer; dropped at a rollback. Must only wake threads or push to
  // bounded queues: never throw, wait or write [C2]. Each has a durable twin that a sweep finds.
  void after_commit(Bell bell);
  // Tells StoreOptions::announced of this id after the COMMIT, as a bell: a row that somebody outside waits for.
  void announce(std::int64_t id);
  // The next id of a counted table. Given back when the savepoint rolls back.
  [[nodiscard]] std::int64_t next_id(Counter counter);
  [[nodiscard]] std::int64_t last_insert_id();

 private:
  friend class BatchRunner;
  Tx(Connection& connection, TxScope& scope, TimeMs now) : ReadTx(connection), scope_(scope), now_(now) {}
  TxScope& scope_;
  TimeMs now_;
};

// One use of a prepared statement:
//   Query q(tx, "SELECT id, name FROM workflows WHERE id > ? ORDER BY id");
//   q.bind(after);
//   while (q.next()) use(q.integer(0), q.text(1));
// Or for a write: Query(tx, "UPDATE …").bind(a, b).run() → rows changed.
// The statement goes back to the cache (reset, bindings cleared) when the Query ends.
class Query {
 public:
  Query(ReadTx& tx, Sql sql);
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // Binds all parameters in order, from 1. Integers, bool, Id<>, string types (TEXT), Blob, std::optional of these,
  // nullptr (NULL). Enums with a free function to_text(Enum) are bound as its TEXT.
  template <class... Args>
  Query& bind(const Args&... args) {
    int index = 0;
    (bind_one(++index, args), ...);
    return *this;
  }
  // True: a row is there. False: done.
  [[nodiscard]] bool next();
  // Runs to the end and returns the number of rows changed; rows of RETURNING are skipped.
  int run();
  // next() for a statement that must give exactly one row: throws Bug without one.
  Query& one();

  [[nodiscard]] std::int64_t integer(int column);
  [[nodiscard]] std::string text(int column);
  [[nodiscard]] std::string blob(int column);
  [[nodiscard]] bool null(int column);
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(int column) {
    return null(column) ? std::nullopt : std::optional(integer(column));
  }
  [[nodiscard]] std::optional<std::string> maybe_text(int column) {
    return null(column) ? std::nullopt : std::optional(text(column));
  }

 private:
  void bind_null(int index);
  void bind_integer(int index, std::int64_t value);
  void bind_text(int index, std::string_view value);
  void bind_blob(int index, std::string_view value);

  template <class T>
  void bind_one(int index, const T& value) {
    if constexpr (std::is_same_v<T, std::nullptr_t>) {
      bind_null(index);
    } else if constexpr (std::is_same_v<T, Blob>) {
      bind_blob(index, value.bytes);
    } else if constexpr (std::is_integral_v<T>) {
      bind_integer(index, static_cast<std::int64_t>(value));
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      bind_text(index, std::string_view(value));
    } else if constexpr (requires { value.has_value(); }) {
      if (value.has_value()) {
        bind_one(index, *value);
      } else {
        bind_null(index);
      }
    } else if constexpr (std::is_enum_v<T>) {
      bind_text(index, to_text(value));
    } else {
      bind_integer(index, value.value);  // Id<>
    }
  }

  Connection& connection_;
  void* statement_;  // the cache's entry
};

[[nodiscard]] bool has_table(ReadTx& tx, std::string_view name);

}  // namespace bide::db
