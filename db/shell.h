// Shell: statements of an operator over the agent's file, read-only. A connection of its own; one thread.
// Failures: ConfigFault for a file that is not there and for SQL that is wrong or would write.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bide::db {

struct Cell {
  enum class Kind { null, number, text, blob };
  Kind kind = Kind::null;
  std::string text;  // number: as SQLite prints it; blob: hexadecimal digits
};

struct ShellSink {
  std::function<void(const std::vector<std::string>& names)> head;  // once a statement that yields columns
  std::function<void(const std::vector<Cell>& cells)> row;
};

// Runs the statements in order.
void query_file(const std::string& path, const std::string& sql, const ShellSink& sink);

[[nodiscard]] std::string sqlite_version();  // "3.40.1"

}  // namespace bide::db
