#include "db/shell.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <memory>

#include "agent/base/errors.h"
#include "agent/base/hash.h"
#include "db/connection.h"

namespace bide::db {
namespace {

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

Cell cell_of(sqlite3_stmt* statement, int column) {
  const auto text = [&] {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
    return bytes == nullptr ? std::string()
                            : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
  };
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL: return {};
    case SQLITE_INTEGER:
    case SQLITE_FLOAT: return {Cell::Kind::number, text()};
    case SQLITE_TEXT: return {Cell::Kind::text, text()};
    default: break;
  }
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  const std::size_t size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
  return {Cell::Kind::blob, bytes == nullptr ? "" : to_hex(std::string_view(bytes, size))};
}

void run(sqlite3* handle, sqlite3_stmt* statement, const ShellSink& sink) {
  const int columns = sqlite3_column_count(statement);
  std::vector<std::string> names;
  for (int i = 0; i < columns; ++i) names.emplace_back(sqlite3_column_name(statement, i));
  if (columns > 0) sink.head(names);
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    std::vector<Cell> cells;
    for (int i = 0; i < columns; ++i) cells.push_back(cell_of(statement, i));
    sink.row(cells);
  }
  if (code != SQLITE_DONE) throw ConfigFault(std::string("sql: ") + sqlite3_errmsg(handle));
}

}  // namespace

void query_file(const std::string& path, const std::string& sql, const ShellSink& sink) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0)
    throw ConfigFault("sql: there is no file " + path + ": say in which folder it is, --data DIR");
  Connection connection({path, Access::read, true, ""});
  sqlite3* handle = connection.handle();
  const char* rest = sql.c_str();
  while (*rest != '\0') {
    sqlite3_stmt* prepared = nullptr;
    const int code = sqlite3_prepare_v2(handle, rest, -1, &prepared, &rest);
    const Statement statement(prepared);
    if (code != SQLITE_OK) throw ConfigFault(std::string("sql: ") + sqlite3_errmsg(handle));
    if (!statement) continue;  // white space or a comment
    if (sqlite3_stmt_readonly(statement.get()) == 0)
      throw ConfigFault("sql: bide sql only reads; the agent is the one who writes");
    run(handle, statement.get(), sink);
  }
}

std::string sqlite_version() { return sqlite3_libversion(); }

}  // namespace bide::db
