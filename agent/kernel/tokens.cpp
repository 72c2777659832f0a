#include "agent/kernel/tokens.h"

#include "agent/base/json.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

TokenInfo read_info(db::Query& q) {
  return {q.integer(0), q.text(1), q.text(2), q.integer(3), q.maybe_integer(4), q.maybe_integer(5)};
}

std::optional<TokenInfo> find(db::ReadTx& tx, std::string_view name) {
  db::Query q(tx, "SELECT id, name, scopes, created_at, expires_at, revoked_at FROM tokens WHERE name = ?");
  q.bind(name);
  if (!q.next()) return std::nullopt;
  return read_info(q);
}

void tell(db::Tx& tx, std::string_view kind, const TokenInfo& token, std::string_view by, TimeMs now) {
  append_event(tx, now, kind, RunId(), StepId(),
               json::Writer()
                   .begin_object()
                   .member("token", token.name)
                   .member("scopes", token.scopes)
                   .member("by", by)
                   .end_object()
                   .text());
}

}  // namespace

std::vector<Token> valid_tokens(db::ReadTx& tx, TimeMs now) {
  std::vector<Token> tokens;
  db::Query q(tx,
              "SELECT name, hash, scopes, expires_at FROM tokens WHERE revoked_at IS NULL AND (expires_at IS NULL OR "
              "expires_at > ?) ORDER BY id");
  q.bind(now);
  while (q.next()) tokens.push_back({q.text(0), q.blob(1), q.text(2), q.maybe_integer(3)});
  return tokens;
}

void ensure_token(db::Tx& tx, const Token& token, TimeMs now) {
  db::Query(tx,
            "INSERT INTO tokens (name, hash, scopes, created_at) VALUES (?,?,?,?) ON CONFLICT (name) DO UPDATE SET "
            "hash = excluded.hash, scopes = excluded.scopes, revoked_at = CASE WHEN hash IS excluded.hash THEN "
            "revoked_at END WHERE hash IS NOT excluded.hash OR scopes IS NOT excluded.scopes")
      .bind(token.name, db::Blob{token.hash}, token.scopes, now)
      .run();
}

std::vector<TokenInfo> list_tokens(db::ReadTx& tx, std::int64_t after, int limit) {
  std::vector<TokenInfo> tokens;
  db::Query q(tx,
              "SELECT id, name, scopes, created_at, expires_at, revoked_at FROM tokens WHERE id > ? ORDER BY id "
              "LIMIT ?");
  q.bind(after, limit);
  while (q.next()) tokens.push_back(read_info(q));
  return tokens;
}

std::variant<TokenInfo, Problem> add_token(db::Tx& tx, const Token& token, std::string_view by, TimeMs now) {
  const auto there = find(tx, token.name);
  if (there && !there->revoked_at && (!there->expires_at || *there->expires_at > now)) {
    return problem("token_exists", "There is a valid token " + token.name + ".", "bide token remove " + token.name);
  }
  db::Query(tx,
            "INSERT INTO tokens (name, hash, scopes, created_at, expires_at) VALUES (?1,?2,?3,?4,?5) ON CONFLICT "
            "(name) DO UPDATE SET hash = excluded.hash, scopes = excluded.scopes, created_at = excluded.created_at, "
            "expires_at = excluded.expires_at, revoked_at = NULL")
      .bind(token.name, db::Blob{token.hash}, token.scopes, now, token.expires_at)
      .run();
  const TokenInfo made = find(tx, token.name).value();
  tell(tx, "token.added", made, by, now);
  return made;
}

std::variant<TokenInfo, Problem> revoke_token(db::Tx& tx, std::string_view name, std::string_view by, TimeMs now) {
  const int changed =
      db::Query(tx, "UPDATE tokens SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL").bind(name, now).run();
  if (changed == 0)
    return problem("token_not_found", "There is no token " + std::string(name) + ".", "bide token list");
  const TokenInfo gone = find(tx, name).value();
  tell(tx, "token.revoked", gone, by, now);
  return gone;
}

}  // namespace bide::kernel
