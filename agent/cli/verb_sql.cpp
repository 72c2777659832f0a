// bide sql: the file of an agent, which may run or not, read-only.
#include <istream>
#include <iterator>
#include <ostream>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/cli/verbs.h"
#include "db/shell.h"

namespace bide::cli {
namespace {

std::string shown(const db::Cell& cell) {
  switch (cell.kind) {
    case db::Cell::Kind::null: return "-";
    case db::Cell::Kind::number: return cell.text;
    case db::Cell::Kind::text: return printable(cell.text);
    case db::Cell::Kind::blob: return "x'" + cell.text + "'";
  }
  return {};
}

// [{"columns":[…],"rows":[[…]]}]: one entry a statement. A blob is its hexadecimal digits.
void query_as_json(Console& console, const std::string& path, const std::string& sql) {
  json::Writer out;
  out.begin_array();
  bool open = false;
  const auto close = [&] {
    if (open) out.end_array().end_object();
  };
  db::query_file(path, sql,
                 {[&](const std::vector<std::string>& names) {
                    close();
                    open = true;
                    out.begin_object().key("columns").begin_array();
                    for (const std::string& name : names) out.string(name);
                    out.end_array().key("rows").begin_array();
                  },
                  [&](const std::vector<db::Cell>& cells) {
                    out.begin_array();
                    for (const db::Cell& cell : cells) {
                      const bool number = cell.kind == db::Cell::Kind::number && !json::check(cell.text);
                      if (cell.kind == db::Cell::Kind::null)
                        out.null();
                      else if (number)
                        out.raw(cell.text);
                      else
                        out.string(cell.text);
                    }
                    out.end_array();
                  }});
  close();
  print_json(console, out.end_array().text());
}

void query_as_tables(Console& console, const std::string& path, const std::string& sql) {
  std::optional<Table> table;
  const auto flush = [&] {
    if (table) table->print(console);
    table.reset();
  };
  db::query_file(path, sql,
                 {[&](const std::vector<std::string>& names) {
                    flush();
                    table.emplace(names);
                  },
                  [&](const std::vector<db::Cell>& cells) {
                    std::vector<std::string> row;
                    for (const db::Cell& cell : cells) row.push_back(shown(cell));
                    table->add(std::move(row));
                  }});
  flush();
}

}  // namespace

int verb_sql(Console& console, const Arguments& arguments) {
  const Surroundings around = surroundings_of_process();
  Flags flags;
  if (!arguments.data_dir.empty()) flags.emplace_back("data_dir", arguments.data_dir);
  const std::string path = load_config(around, std::nullopt, flags).config.data_dir + "/bide.db";
  const std::string sql =
      arguments.value.empty() ? std::string(std::istreambuf_iterator<char>(console.in), {}) : arguments.value;
  if (arguments.json)
    query_as_json(console, path, sql);
  else
    query_as_tables(console, path, sql);
  return kDone;
}

}  // namespace bide::cli
