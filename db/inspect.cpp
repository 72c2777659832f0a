#include "db/inspect.h"

namespace bide::db {

std::vector<std::string> check_file(ReadTx& tx) {
  std::vector<std::string> wrong;
  Query q(tx, "PRAGMA quick_check(10)");
  while (q.next()) {
    if (std::string line = q.text(0); line != "ok") wrong.push_back(std::move(line));
  }
  Query keys(tx, "PRAGMA foreign_key_check");
  while (keys.next() && wrong.size() < 10) {
    wrong.push_back("a row of " + keys.text(0) + " names one of " + keys.text(2) + " that is not there");
  }
  return wrong;
}

FileSize file_size(ReadTx& tx) {
  Query q(tx,
          "SELECT p.page_size * c.page_count, p.page_size * f.freelist_count FROM pragma_page_size p, "
          "pragma_page_count c, pragma_freelist_count f");
  q.one();
  return {q.integer(0), q.integer(1)};
}

}  // namespace bide::db
