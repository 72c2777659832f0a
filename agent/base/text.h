// Small helpers for text: percent-encoding, trimming, nearest names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bide {

// RFC 3986 unreserved characters stay; all other bytes become %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);
// nullopt: a '%' without two hexadecimal digits after it.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);
[[nodiscard]] std::string_view trim(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);  // ASCII only
// Offset of the first byte that is not well-formed UTF-8 (RFC 3629), or npos.
[[nodiscard]] std::size_t invalid_utf8(std::string_view text);
// The candidate with the least edit distance, if it is near enough to be meant; else empty.
[[nodiscard]] std::string nearest(std::string_view wanted, const std::vector<std::string>& candidates);
// A positive decimal number that fits in 63 bits, whole text.
[[nodiscard]] std::optional<std::int64_t> parse_number(std::string_view text);

}  // namespace bide
