// SHA-256 (FIPS 180-4, by OpenSSL's libcrypto) and hexadecimal text.
#pragma once

#include <string>
#include <string_view>

#include "agent/base/base64.h"

namespace bide {

// 32 raw bytes.
[[nodiscard]] std::string sha256(std::string_view bytes);
// Lower-case hexadecimal.
[[nodiscard]] std::string to_hex(std::string_view bytes);
// Compares in time that depends on the lengths only.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b);

}  // namespace bide
