// Idempotency of commands [M1]: a command's answer is stored in the transaction of its effect.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "db/tx.h"

namespace bide::kernel {

struct CommandKey {
  std::string principal;
  std::string key;          // the Idempotency-Key header
  std::string fingerprint;  // sha256 of method, path and canonical body
};
struct StoredAnswer {
  int status = 0;
  std::string response;
};
struct NewCommand {};
struct OtherBody {};  // the key was used with another request: 422
using CommandOutcome = std::variant<NewCommand, StoredAnswer, OtherBody>;
[[nodiscard]] CommandOutcome find_answer(db::ReadTx& tx, const CommandKey& key);
void store_answer(db::Tx& tx, const CommandKey& key, int status, std::string_view response, TimeMs now);

}  // namespace bide::kernel
