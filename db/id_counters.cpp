#include "db/id_counters.h"

#include <algorithm>

#include "db/connection.h"

namespace bide::db {
namespace {

struct Counted {
  const char* table;
  Sql highest;
  const char* mark;
};

constexpr Counted kCounted[kCounters] = {
    {"steps", "SELECT coalesce(max(id), 0) FROM steps", "id_mark:steps"},
    {"waits", "SELECT coalesce(max(id), 0) FROM waits", "id_mark:waits"},
    {"events", "SELECT coalesce(max(id), 0) FROM events", "id_mark:events"},
};

}  // namespace

void IdCounters::give_back(const Values& values) {
  for (std::size_t i = 0; i < last_.size(); ++i) last_[i] = std::max(values[i], in_file_[i]);
}

void IdCounters::load(Connection& connection) {
  ReadTx tx(connection);
  const bool has_meta = has_table(tx, "meta");
  for (int i = 0; i < kCounters; ++i) {
    std::int64_t& last = in_file_[static_cast<std::size_t>(i)];
    if (has_table(tx, kCounted[i].table)) last = std::max(last, Query(tx, kCounted[i].highest).one().integer(0));
    if (!has_meta) continue;
    Query mark(tx, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?");
    mark.bind(kCounted[i].mark);
    if (mark.next()) last = std::max(last, mark.integer(0));
  }
  give_back(last_);
}

}  // namespace bide::db
