// Signatures of Standard Webhooks 1.0: HMAC-SHA256 over "id.timestamp.body", with every secret that is valid, so that a
// receiver may rotate when it likes [O6]. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/random.h"
#include "agent/base/time.h"

namespace bide::work {

// The key in a secret "whsec_" + base64 of 24 to 64 bytes; nullopt: not such a secret.
[[nodiscard]] std::optional<std::string> secret_key(std::string_view secret);
// A new one of 32 random bytes.
[[nodiscard]] std::string make_secret(Random& random);

// "v1,…" for one secret, with a space between them for several. Secrets that are none are left out; empty: none signs.
[[nodiscard]] std::string sign(const std::vector<std::string>& secrets, std::string_view id, std::int64_t seconds,
                               std::string_view body);

}  // namespace bide::work
