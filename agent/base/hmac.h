// HMAC-SHA256 (RFC 2104, FIPS 198-1), by OpenSSL's libcrypto. Apart from hash.h: the static front needs no HMAC.
#pragma once

#include <string>
#include <string_view>

namespace bide {

// 32 raw bytes.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view bytes);

}  // namespace bide
