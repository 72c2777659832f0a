#include "agent/kernel/usage.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "agent/base/json.h"

namespace bide::kernel {
namespace {

std::string number(double value) {
  if (std::nearbyint(value) == value && std::abs(value) < 9e15) return std::to_string(static_cast<std::int64_t>(value));
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

}  // namespace

Usage parse_usage(std::string_view document) {
  Usage usage;
  const auto parsed = nlohmann::json::parse(document, nullptr, false);
  if (!parsed.is_object()) return usage;
  for (const auto& [name, value] : parsed.items()) {
    if (value.is_number()) usage[name] = value.get<double>();
  }
  return usage;
}

std::string to_json(const Usage& usage) {
  json::Writer w;
  w.begin_object();
  for (const auto& [name, value] : usage) w.member_raw(name, number(value));
  return w.end_object().take();
}

void add_usage(Usage& sum, const Usage& more) {
  for (const auto& [name, value] : more) sum[name] += value;
}

Usage run_usage(db::ReadTx& tx, RunId run) {
  Usage sum;
  db::Query q(tx, "SELECT usage FROM steps WHERE run_id = ? AND usage IS NOT NULL ORDER BY seq, id");
  q.bind(run);
  while (q.next()) add_usage(sum, parse_usage(q.text(0)));
  return sum;
}

Usage mission_usage(db::ReadTx& tx, std::string_view mission) {
  Usage sum;
  db::Query q(tx,
              "SELECT s.usage FROM runs r JOIN steps s ON s.run_id = r.id WHERE r.mission = ? AND s.usage IS NOT NULL "
              "AND s.kind <> 'child' AND s.copied_from IS NULL ORDER BY s.id");
  q.bind(mission);
  while (q.next()) add_usage(sum, parse_usage(q.text(0)));
  return sum;
}

}  // namespace bide::kernel
