#include "agent/kernel/commands.h"
#include "agent/base/planted.h"

namespace bide::kernel {

CommandOutcome find_answer(db::ReadTx& tx, const CommandKey& key) {
  db::Query q(tx, "SELECT fingerprint, status, response FROM idempotency WHERE principal = ? AND key = ?");
  q.bind(key.principal, key.key);
  if (!q.next() || BIDE_PLANTED(command_done_twice)) return NewCommand{};
  if (q.blob(0) != key.fingerprint) return OtherBody{};
  return StoredAnswer{static_cast<int>(q.integer(1)), q.text(2)};
}

void store_answer(db::Tx& tx, const CommandKey& key, int status, std::string_view response, TimeMs now) {
  db::Query(tx,
            "INSERT INTO idempotency (principal, key, fingerprint, status, response, created_at) VALUES (?,?,?,?,?,?)")
      .bind(key.principal, key.key, db::Blob{key.fingerprint}, status, response, now)
      .run();
}

}  // namespace bide::kernel
