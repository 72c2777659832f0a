// Tokens: named credentials of which only the hash is kept.
#pragma once

#include <string>
#include <vector>

#include "db/tx.h"

namespace bide::kernel {

struct Token {
  std::string name;    // the principal
  std::string hash;    // sha256 of the secret, 32 raw bytes
  std::string scopes;  // words: read start approve work admin
};
// Those that are neither revoked nor expired.
[[nodiscard]] std::vector<Token> valid_tokens(db::ReadTx& tx, TimeMs now);
// Makes the token, or gives an existing one of that name this hash and these scopes.
void ensure_token(db::Tx& tx, const Token& token, TimeMs now);

}  // namespace bide::kernel
