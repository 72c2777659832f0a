#include "web/attempt_token.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/flow/attempt.h"
#include "agent/kernel/processes.h"

namespace bide::web {

bool attempt_token_is_known(const work::Executor& executor, work::Remotes* remotes, db::Store& store,
                            const AttemptToken& token) {
  if (token.step == 0) {
    if (const auto attempt = executor.attempt(token.run, token.epoch))
      return !token.secret.empty() && same_secret(attempt->secret(), token.secret);
    return remotes != nullptr && std::holds_alternative<std::shared_ptr<flow::Attempt>>(
                                     remotes->attempt(token.run, token.epoch, token.secret));
  }
  if (const auto attempt = executor.attempt(token.run); attempt && attempt->executes(token.step, token.secret))
    return true;
  const auto holders = store.read([&](db::ReadTx& tx) { return kernel::live_holders(tx, token.run); });
  return std::any_of(holders.begin(), holders.end(),
                     [&](const kernel::ProcessRow& row) { return same_secret(row.nonce, token.secret); });
}

}  // namespace bide::web
