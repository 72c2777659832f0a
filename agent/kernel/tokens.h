// Tokens: named credentials of which only the hash is kept.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "db/tx.h"

namespace bide::kernel {

struct Token {
  std::string name;    // the principal
  std::string hash;    // sha256 of the secret, 32 raw bytes
  std::string scopes;  // words: read start approve work admin
  std::optional<TimeMs> expires_at;
};
// Those that are neither revoked nor expired.
[[nodiscard]] std::vector<Token> valid_tokens(db::ReadTx& tx, TimeMs now);
// Makes the token, or gives an existing one of that name this hash and these scopes. With another hash it is valid
// again, also if it was revoked.
void ensure_token(db::Tx& tx, const Token& token, TimeMs now);

struct TokenInfo {
  std::int64_t id = 0;
  std::string name;
  std::string scopes;
  TimeMs created_at = 0;
  std::optional<TimeMs> expires_at;
  std::optional<TimeMs> revoked_at;
};
// By id, those after `after`; also revoked and expired ones.
[[nodiscard]] std::vector<TokenInfo> list_tokens(db::ReadTx& tx, std::int64_t after, int limit);
// Problem: token_exists, while one of that name is valid. One that is not gets this hash and these scopes: the name is
// who acts, and stays so.
[[nodiscard]] std::variant<TokenInfo, Problem> add_token(db::Tx& tx, const Token& token, std::string_view by,
                                                         TimeMs now);
// Problem: token_not_found.
[[nodiscard]] std::variant<TokenInfo, Problem> revoke_token(db::Tx& tx, std::string_view name, std::string_view by,
                                                            TimeMs now);

}  // namespace bide::kernel
