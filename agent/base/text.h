// Small helpers for text: percent-encoding, trimming, nearest names.
#pragma once

#include <cstddef>
#include <cstdint>
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
// Length of the well-formed UTF-8 sequence (RFC 3629) at the start of a text that is not empty; 0: none.
[[nodiscard]] std::size_t utf8_sequence(std::string_view text);
// Offset of the first byte that is not well-formed UTF-8, or npos.
[[nodiscard]] std::size_t invalid_utf8(std::string_view text);
// The candidate with the least edit distance, if it is near enough to be meant; else empty.
[[nodiscard]] std::string nearest(std::string_view wanted, const std::vector<std::string>& candidates);
// A decimal number without a sign, 0 to 2^63 - 1, whole text.
[[nodiscard]] std::optional<std::int64_t> parse_number(std::string_view text);

}  // namespace bide
