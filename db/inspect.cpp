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

}  // namespace bide::db
