// The whole schema in one file: whoever changes a migration sees in the review what an operator will see.
#include <catch2/catch.hpp>

#include <string>

#include "db/store.h"
#include "db/tx.h"
#include "tests/support/fake_clock.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace bide {
namespace {

std::string schema_of_new_file() {
  const test::TempDir dir;
  test::FakeClock clock;
  db::Store store({.directory = dir.str(), .threaded = false}, clock);
  return store.read([](db::ReadTx& tx) {
    std::string text = "-- The schema of a new file, as SQLite keeps it. Made by the golden test, from migrations/.\n";
    db::Query pragmas(tx,
                      "SELECT 'application_id', application_id FROM pragma_application_id "
                      "UNION ALL SELECT 'user_version', user_version FROM pragma_user_version "
                      "UNION ALL SELECT 'auto_vacuum', auto_vacuum FROM pragma_auto_vacuum "
                      "UNION ALL SELECT 'page_size', page_size FROM pragma_page_size");
    while (pragmas.next()) text += "-- " + pragmas.text(0) + " = " + std::to_string(pragmas.integer(1)) + "\n";
    // Tables and views by name, and with each what hangs on it.
    db::Query objects(tx,
                      "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!' "
                      "ORDER BY tbl_name, type NOT IN ('table', 'view'), type, name");
    while (objects.next()) text += "\n" + objects.text(0) + ";\n";
    return text;
  });
}

TEST_CASE("golden: the schema of a freshly migrated file") { test::check_golden("schema.sql", schema_of_new_file()); }

}  // namespace
}  // namespace bide
