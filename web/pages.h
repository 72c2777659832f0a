// Pages of rows. A page ends after as many rows as were asked for, or once it has limits::kPageBytes: rows are read a
// few at a time, so that 200 of the largest never stand in memory at once. Any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "web/body.h"

namespace bide::web {

// Writes "items":[…]. `read(after, most)` gives rows that follow the one with the number `after`, `write(row)` writes
// one, `number(row)` is its number. Where the next page begins; nullopt: nothing follows.
template <class Read, class Write, class Number>
std::optional<std::int64_t> write_items(json::Writer& out, const Page& page, Read read, Write write, Number number) {
  constexpr int kAtOnce = 8;
  std::int64_t after = page.after;
  int left = page.limit;
  bool more = true;
  out.key("items").begin_array();
  while (more && left > 0 && out.text().size() < limits::kPageBytes) {
    const int most = std::min(left, kAtOnce);
    const auto rows = read(after, most);
    for (const auto& row : rows) write(row);
    if (!rows.empty()) after = number(rows.back());
    left -= static_cast<int>(rows.size());
    more = static_cast<int>(rows.size()) == most;
  }
  out.end_array();
  return more ? std::optional(after) : std::nullopt;
}

// …,"next":"17"} or …,"next":null}
inline void write_next(json::Writer& out, const std::optional<std::int64_t>& next) {
  out.key("next");
  next ? out.string(std::to_string(*next)) : out.null();
}

}  // namespace bide::web
