// Who asks: the credential's name and what it may do. Who decided is the credential, never a body [A7].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/base/ids.h"

namespace bide::kernel {

enum class Scope : std::uint8_t { read = 1, start = 2, approve = 4, work = 8, admin = 16, attempt = 32 };

struct Principal {
  std::string name;         // token's name, "uid:1000", "attempt:12"
  std::uint8_t scopes = 0;  // of Scope; admin holds all but attempt
  RunId attempt_run;        // attempt: the run whose attempt this process belongs to
  [[nodiscard]] bool has(Scope scope) const {
    const auto admin = static_cast<std::uint8_t>(Scope::admin);
    if (scope != Scope::attempt && (scopes & admin) != 0) return true;
    return (scopes & static_cast<std::uint8_t>(scope)) != 0;
  }
};

// "read start approve": words separated by spaces, unknown words are ignored.
[[nodiscard]] std::uint8_t scopes_from(std::string_view words);
[[nodiscard]] std::string scopes_text(std::uint8_t scopes);

}  // namespace bide::kernel
