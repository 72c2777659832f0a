#include "agent/flow/journal.h"

#include <algorithm>

namespace bide::flow {

Journal::Journal(std::vector<kernel::StepRow> rows) {
  for (auto& row : rows) {
    const auto slash = row.position.rfind('/');
    std::string place = row.position.substr(0, slash);
    Entry& entry = add(std::move(row), std::move(place));
    entry.stored = true;
    entry.key_uid = entry.row.key_uid.value_or("");
    entry.told = entry.is_settled();
  }
}

Entry& Journal::add(kernel::StepRow row, std::string place) {
  auto entry = std::make_unique<Entry>();
  entry->row = std::move(row);
  entry->place = std::move(place);
  Entry& ref = *entry;
  last_seq_ = std::max(last_seq_, ref.row.seq);
  by_position_.emplace(ref.row.position, &ref);
  by_place_.emplace(ref.place, &ref);
  by_seq_.emplace(ref.row.seq, std::move(entry));
  return ref;
}

Entry* Journal::find(std::string_view position) {
  const auto it = by_position_.find(position);
  return it == by_position_.end() ? nullptr : it->second;
}

Entry* Journal::by_seq(std::int64_t seq) {
  const auto it = by_seq_.find(seq);
  return it == by_seq_.end() ? nullptr : it->second.get();
}

const Entry* Journal::sibling_with(std::string_view place, const Entry* but, std::string_view request_hash) const {
  const auto [first, last] = by_place_.equal_range(place);
  const auto it = std::find_if(
      first, last, [&](const auto& p) { return p.second != but && p.second->row.request_hash == request_hash; });
  return it == last ? nullptr : it->second;
}

const Entry* Journal::sibling_from(std::string_view place, const Entry* but, std::string_view caller_hash) const {
  const auto [first, last] = by_place_.equal_range(place);
  const auto it = std::find_if(
      first, last, [&](const auto& p) { return p.second != but && p.second->row.caller_hash == caller_hash; });
  return it == last ? nullptr : it->second;
}

bool Journal::several_at(std::string_view place) const {
  const auto [first, last] = by_place_.equal_range(place);
  return std::distance(first, last) > 1;
}

Entry* Journal::open_at(std::string_view place) {
  const auto& entries = at_work();
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const auto& p) { return p.second->open && p.second->place == place; });
  return it == entries.end() ? nullptr : it->second;
}

const Journal::Entries& Journal::at_work() const {
  std::erase_if(at_work_, [](const auto& p) { return !p.second->open && !p.second->executing; });
  return at_work_;
}

const Entry* Journal::unasked_with(std::string_view request_hash, std::int64_t epoch) const {
  for (const auto& [seq, entry] : by_seq_) {
    if (!entry->visited && entry->row.epoch < epoch && settled(entry->row.status) &&
        entry->row.kind == kernel::StepKind::step && entry->row.effect == kernel::Effect::non_idempotent &&
        entry->row.request_hash == request_hash) {
      return entry.get();
    }
  }
  return nullptr;
}

const Entry* Journal::first_unvisited() const {
  for (const auto& [seq, entry] : by_seq_) {
    if (!entry->visited) return entry.get();
  }
  return nullptr;
}

const Entry* Journal::first_open() const {
  for (const auto& [seq, entry] : by_seq_) {
    if (!settled(entry->row.status)) return entry.get();
  }
  return nullptr;
}

}  // namespace bide::flow
