#include <sqlite3.h>

#include "db/connection.h"
#include "db/tx.h"
#include "db/tx_scope.h"

namespace bide::db {
namespace {

sqlite3_stmt* raw(void* prepared) { return static_cast<Connection::Prepared*>(prepared)->statement; }
const char* sql_of(void* prepared) { return static_cast<Connection::Prepared*>(prepared)->sql; }

}  // namespace

void Tx::after_commit(Bell bell) { scope_.bells.push_back(std::move(bell)); }
void Tx::announce(std::int64_t id) {
  if (scope_.announced == nullptr || !*scope_.announced) return;
  after_commit([announced = scope_.announced, id] { (*announced)(id); });
}
std::int64_t Tx::next_id(Counter counter) { return scope_.counters.next(counter); }
std::int64_t Tx::last_insert_id() { return sqlite3_last_insert_rowid(connection().handle()); }

Query::Query(ReadTx& tx, Sql sql) : connection_(tx.connection()), statement_(connection_.take(sql.text())) {}
Query::~Query() { connection_.give_back(static_cast<Connection::Prepared*>(statement_)); }

bool Query::next() {
  const int code = sqlite3_step(raw(statement_));
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  connection_.fail(code, sql_of(statement_));
}

int Query::run() {
  while (next()) {
  }
  return sqlite3_changes(connection_.handle());
}

Query& Query::one() {
  if (!next()) throw Bug(std::string("a row is missing: ") + sql_of(statement_));
  return *this;
}

std::int64_t Query::integer(int column) { return sqlite3_column_int64(raw(statement_), column); }

std::string Query::text(int column) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(raw(statement_), column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(raw(statement_), column)));
}

std::string Query::blob(int column) {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(raw(statement_), column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(raw(statement_), column)));
}

bool Query::null(int column) { return sqlite3_column_type(raw(statement_), column) == SQLITE_NULL; }

void Query::bind_null(int index) {
  if (const int code = sqlite3_bind_null(raw(statement_), index); code != SQLITE_OK) {
    connection_.fail(code, sql_of(statement_));
  }
}

void Query::bind_integer(int index, std::int64_t value) {
  if (const int code = sqlite3_bind_int64(raw(statement_), index, value); code != SQLITE_OK) {
    connection_.fail(code, sql_of(statement_));
  }
}

void Query::bind_text(int index, std::string_view value) {
  const char* bytes = value.data() == nullptr ? "" : value.data();
  const int code = sqlite3_bind_text64(raw(statement_), index, bytes, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) connection_.fail(code, sql_of(statement_));
}

void Query::bind_blob(int index, std::string_view value) {
  const char* bytes = value.data() == nullptr ? "" : value.data();
  const int code = sqlite3_bind_blob64(raw(statement_), index, bytes, value.size(), SQLITE_TRANSIENT);
  if (code != SQLITE_OK) connection_.fail(code, sql_of(statement_));
}

bool has_table(ReadTx& tx, std::string_view name) {
  return Query(tx, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").bind(name).next();
}

}  // namespace bide::db
