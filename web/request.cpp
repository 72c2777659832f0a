#include "web/request.h"

#include <algorithm>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::web {
namespace {

const std::string* find(const std::vector<std::pair<std::string, std::string>>& pairs, std::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::optional<std::string> decode(std::string_view text) {
  auto decoded = percent_decode(text);
  if (!decoded || invalid_utf8(*decoded) != std::string::npos) return std::nullopt;
  if (decoded->find('\0') != std::string::npos) return std::nullopt;
  return decoded;
}

}  // namespace

const std::string& Request::capture(std::string_view name) const {
  if (const std::string* value = find(captures, name)) return *value;
  throw Bug("no capture of that name in this route: " + std::string(name));
}

std::optional<std::int64_t> Request::capture_id(std::string_view name) const { return parse_number(capture(name)); }

const std::string* Request::query_value(std::string_view name) const { return find(query, name); }

const std::string* Request::field(std::string_view name) const {
  for (const Field& one : fields) {
    if (one.name == name) return &one.value;
  }
  return nullptr;
}

std::int64_t Request::prefer_wait_ms() const {
  const std::string* prefer = field("prefer");
  return prefer == nullptr ? 0 : web::prefer_wait_ms(*prefer);
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    const std::size_t equals = std::min(one.find('='), one.size());
    auto name = decode(one.substr(0, equals));
    auto value = decode(one.substr(std::min(equals + 1, one.size())));
    if (!name || !value) return std::nullopt;
    pairs.emplace_back(std::move(*name), std::move(*value));
  }
  return pairs;
}

std::int64_t prefer_wait_ms(std::string_view prefer) {
  while (!prefer.empty()) {
    const std::size_t comma = std::min(prefer.find(','), prefer.size());
    std::string_view one = trim(prefer.substr(0, comma));
    prefer.remove_prefix(std::min(comma + 1, prefer.size()));
    one = trim(one.substr(0, one.find(';')));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos || lower(trim(one.substr(0, equals))) != "wait") continue;
    const auto seconds = parse_number(trim(one.substr(equals + 1)));
    if (!seconds) return 0;
    return std::min(*seconds, limits::kPreferWaitMs / 1000) * 1000;
  }
  return 0;
}

}  // namespace bide::web
