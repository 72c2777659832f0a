// M1: look for the stored answer of a command, act, store the answer, in one transaction. Two at once with one key wait
// for each other at the writer. Thread-safe; returns after the COMMIT.
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "agent/base/errors.h"
#include "agent/kernel/commands.h"
#include "agent/work/commands.h"
#include "db/store.h"

namespace bide::work {

// `act` runs in the transaction, perhaps twice. What it refuses is stored and given again like any answer. Problem:
// idempotency_conflict.
[[nodiscard]] inline std::variant<Answer, Problem> once(db::Store& store, const std::optional<kernel::CommandKey>& key,
                                                        const std::function<Answer(db::Tx&)>& act,
                                                        db::Purpose purpose = db::Purpose::normal) {
  return store.write(
      [&](db::Tx& tx) -> std::variant<Answer, Problem> {
        if (key) {
          const auto found = kernel::find_answer(tx, *key);
          if (const auto* stored = std::get_if<kernel::StoredAnswer>(&found)) {
            return Answer{stored->status, stored->response, "", true};
          }
          if (std::holds_alternative<kernel::OtherBody>(found)) {
            return problem("idempotency_conflict", "This Idempotency-Key was used with another request.",
                           "Use a new key for a new request, or send the same body again.");
          }
        }
        Answer answer = act(tx);
        if (key) kernel::store_answer(tx, *key, answer.status, answer.body, tx.now());
        return answer;
      },
      purpose);
}

}  // namespace bide::work
