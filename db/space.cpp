#include "db/space.h"

namespace bide::db {

FileSpace file_space(ReadTx& tx) {
  FileSpace space;
  space.page_bytes = Query(tx, "PRAGMA page_size").one().integer(0);
  space.pages = Query(tx, "PRAGMA page_count").one().integer(0);
  space.free = Query(tx, "PRAGMA freelist_count").one().integer(0);
  return space;
}

int give_back_space(Tx& tx, int most) {
  int pages = 0;
  Query q(tx, "PRAGMA incremental_vacuum");  // a page a step
  while (pages < most && q.next()) ++pages;
  return pages;
}

}  // namespace bide::db
