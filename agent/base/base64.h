// RFC 4648 base64 with padding, without OpenSSL: the static front uses it too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bide {

[[nodiscard]] std::string base64(std::string_view bytes);
// nullopt: not base64 (a foreign character, wrong length, bits after the end).
[[nodiscard]] std::optional<std::string> base64_decode(std::string_view text);

}  // namespace bide
