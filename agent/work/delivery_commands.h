// Commands about deliveries and webhooks: what operators ask, each one transaction and the bells that belong to it.
// Thread-safe; returns after the COMMIT. Refusals are Problems: delivery_not_found, endpoint_off, webhook_not_found,
// too_many_webhooks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/random.h"
#include "agent/kernel/commands.h"
#include "agent/kernel/outbox.h"
#include "agent/kernel/principal.h"
#include "agent/kernel/webhooks.h"
#include "agent/work/deliverer.h"
#include "db/store.h"

namespace bide::work {

class DeliveryCommands {
 public:
  // `due`: rung when rows became due; Sweep::ring.
  DeliveryCommands(db::Store& store, Random& random, Deliverer& deliverer, std::function<void()> due)
      : store_(store), random_(random), deliverer_(deliverer), due_(std::move(due)) {}

  kernel::DeliveryOutcome retry(DeliveryId id, const kernel::Principal& by);
  kernel::DeliveryOutcome drop(DeliveryId id, const kernel::Principal& by);
  // By destination; how many.
  std::int64_t retry_lane(const std::string& lane, const kernel::Principal& by);
  std::int64_t drop_lane(const std::string& lane, const kernel::Principal& by);

  // What is shown of a webhook whose secret was made: `body` is what is stored for the Idempotency-Key, without the
  // secret, which is shown this once [M1, D4]. replayed: the command was done before, and the secret shown then.
  struct Shown {
    std::string body;  // a JSON object
    std::string secret;
    WebhookId id;
    bool replayed = false;
  };
  using Once = std::optional<kernel::CommandKey>;
  using Render = std::function<std::string(const kernel::WebhookRow&)>;  // pure: runs in the transaction
  // No secret given: a new one. Problem besides: idempotency_conflict.
  std::variant<Shown, Problem> add(kernel::NewWebhook add, const kernel::Principal& by, const Once& once,
                                   const Render& render);
  std::variant<Shown, Problem> rotate(WebhookId id, std::string secret, const Once& once, const Render& render);
  kernel::WebhookOutcome change(WebhookId id, const kernel::WebhookChange& change);
  std::variant<int, Problem> remove(WebhookId id, const kernel::Principal& by);  // rows that were dropped with it
  std::variant<DeliveryId, Problem> test(WebhookId id, const kernel::Principal& by);

  // Addresses inside that apps and messages may be sent to [O6].
  [[nodiscard]] const std::vector<std::string>& allow() const { return deliverer_.allow(); }
  [[nodiscard]] db::Store& store() { return store_; }
  [[nodiscard]] std::int64_t parked() const { return deliverer_.parked(); }

 private:
  void changed();
  std::variant<Shown, Problem> show_once(const Once& once, int status, const std::string& secret, const Render& render,
                                         const std::function<kernel::WebhookOutcome(db::Tx&)>& effect);

  db::Store& store_;
  Random& random_;
  Deliverer& deliverer_;
  const std::function<void()> due_;
};

// What is wrong with a webhook as an operator wrote it, with pointers: its URL, its secret, the addresses that it may
// go to. A URL with an address that is not allowed is told at once; a name is checked at each delivery [O6].
[[nodiscard]] std::vector<PointerError> webhook_errors(const std::optional<std::string>& url,
                                                       const std::optional<std::string>& secret,
                                                       const std::vector<std::string>& allow);

// What is wrong with the URL at which an app wants to be asked (wakes, tasks); nullopt: nothing that is known before a
// try. An address that is not allowed is told at once [O6].
[[nodiscard]] std::optional<std::string> app_url_error(const std::string& url, const std::vector<std::string>& allow);

}  // namespace bide::work
