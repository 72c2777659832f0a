#include "agent/kernel/tokens.h"

namespace bide::kernel {

std::vector<Token> valid_tokens(db::ReadTx& tx, TimeMs now) {
  std::vector<Token> tokens;
  db::Query q(tx,
              "SELECT name, hash, scopes FROM tokens WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > "
              "?) ORDER BY id");
  q.bind(now);
  while (q.next()) tokens.push_back({q.text(0), q.blob(1), q.text(2)});
  return tokens;
}

void ensure_token(db::Tx& tx, const Token& token, TimeMs now) {
  db::Query(
      tx,
      "INSERT INTO tokens (name, hash, scopes, created_at) VALUES (?,?,?,?) ON CONFLICT (name) DO UPDATE SET "
      "hash = excluded.hash, scopes = excluded.scopes WHERE hash IS NOT excluded.hash OR scopes IS NOT excluded.scopes")
      .bind(token.name, db::Blob{token.hash}, token.scopes, now)
      .run();
}

}  // namespace bide::kernel
