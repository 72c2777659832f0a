#include "agent/work/delivery_commands.h"

#include "agent/work/broker.h"
#include "agent/work/signature.h"
#include "agent/work/targets.h"

namespace bide::work {

void DeliveryCommands::changed() {
  deliverer_.count_parked();
  if (due_) due_();
}

kernel::DeliveryOutcome DeliveryCommands::retry(DeliveryId id, const kernel::Principal& by) {
  auto outcome = store_.write([&](db::Tx& tx) { return kernel::retry_delivery(tx, id, by.name, tx.now()); });
  changed();
  return outcome;
}

kernel::DeliveryOutcome DeliveryCommands::drop(DeliveryId id, const kernel::Principal& by) {
  auto outcome = store_.write([&](db::Tx& tx) { return kernel::drop_delivery(tx, id, by.name, tx.now()); });
  changed();
  return outcome;
}

std::int64_t DeliveryCommands::retry_lane(const std::string& lane, const kernel::Principal& by) {
  std::int64_t all = 0;
  for (int done = limits::kSweepPage; done == limits::kSweepPage; all += done) {
    done =
        store_.write([&](db::Tx& tx) { return kernel::retry_lane(tx, lane, limits::kSweepPage, by.name, tx.now()); });
  }
  changed();
  return all;
}

std::int64_t DeliveryCommands::drop_lane(const std::string& lane, const kernel::Principal& by) {
  std::int64_t all = 0;
  for (int done = limits::kSweepPage; done == limits::kSweepPage; all += done) {
    done = store_.write([&](db::Tx& tx) { return kernel::drop_lane(tx, lane, limits::kSweepPage, by.name, tx.now()); });
  }
  changed();
  return all;
}

namespace {

Problem no_webhook(WebhookId id) {
  return problem("webhook_not_found", "There is no webhook " + std::to_string(id.value) + ".", "bide webhook list");
}

}  // namespace

// M1: look, act, store in one transaction; what is stored has no secret.
std::variant<DeliveryCommands::Shown, Problem> DeliveryCommands::show_once(
    const Once& once, int status, const std::string& secret, const Render& render,
    const std::function<kernel::WebhookOutcome(db::Tx&)>& effect) {
  return store_.write([&](db::Tx& tx) -> std::variant<Shown, Problem> {
    if (once) {
      const auto found = kernel::find_answer(tx, *once);
      if (const auto* stored = std::get_if<kernel::StoredAnswer>(&found))
        return Shown{stored->response, "", WebhookId(), true};
      if (std::holds_alternative<kernel::OtherBody>(found)) {
        return problem("idempotency_conflict", "This Idempotency-Key was used with another request.",
                       "Use a new key for a new request, or send the same body again.");
      }
    }
    const auto outcome = effect(tx);
    if (const auto* refused = std::get_if<Problem>(&outcome)) return *refused;
    const kernel::WebhookRow& row = std::get<kernel::WebhookAdded>(outcome).row;
    Shown shown{render(row), secret, row.id, false};
    if (once) kernel::store_answer(tx, *once, status, shown.body, tx.now());
    return shown;
  });
}

std::variant<DeliveryCommands::Shown, Problem> DeliveryCommands::add(kernel::NewWebhook add,
                                                                     const kernel::Principal& by, const Once& once,
                                                                     const Render& render) {
  if (add.secret.empty()) add.secret = make_secret(random_);
  return show_once(once, 201, add.secret, render,
                   [&](db::Tx& tx) { return kernel::add_webhook(tx, add, by.name, tx.now()); });
}

std::variant<DeliveryCommands::Shown, Problem> DeliveryCommands::rotate(WebhookId id, std::string secret,
                                                                        const Once& once, const Render& render) {
  if (secret.empty()) secret = make_secret(random_);
  return show_once(once, 200, secret, render,
                   [&](db::Tx& tx) { return kernel::rotate_secret(tx, id, secret, tx.now()); });
}

kernel::WebhookOutcome DeliveryCommands::change(WebhookId id, const kernel::WebhookChange& change) {
  auto outcome = store_.write([&](db::Tx& tx) { return kernel::change_webhook(tx, id, change, tx.now()); });
  changed();
  return outcome;
}

std::variant<int, Problem> DeliveryCommands::remove(WebhookId id, const kernel::Principal& by) {
  const auto dropped = store_.write([&](db::Tx& tx) { return kernel::remove_webhook(tx, id, by.name, tx.now()); });
  if (!dropped) return no_webhook(id);
  changed();
  return *dropped;
}

std::variant<DeliveryId, Problem> DeliveryCommands::test(WebhookId id, const kernel::Principal& by) {
  return store_.write([&](db::Tx& tx) -> std::variant<DeliveryId, Problem> {
    const auto row = kernel::read_webhook(tx, id);
    if (!row) return no_webhook(id);
    const auto delivery = kernel::test_webhook(tx, id, by.name, tx.now());
    if (delivery) return *delivery;
    return problem("endpoint_off", "The endpoint is switched off.", "bide webhook enable " + std::to_string(id.value));
  });
}

namespace {

std::variant<Url, std::string> destination_of(const std::string& url) {
  if (!is_broker_url(url)) return parse_url(url);
  auto broker = parse_broker_url(url);
  if (auto* wrong = std::get_if<std::string>(&broker)) return std::move(*wrong);
  return std::move(std::get<BrokerUrl>(broker).url);
}

}  // namespace

std::optional<std::string> app_url_error(const std::string& url, const std::vector<std::string>& allow) {
  const auto parsed = parse_url(url);
  if (const auto* wrong = std::get_if<std::string>(&parsed)) return *wrong;
  const auto& good = std::get<Url>(parsed);
  if (!good.is_address) return std::nullopt;
  auto why = refuse(parse_address(good.host, good.port).value(), allow, std::nullopt);
  if (why) *why += ": allow_targets in bide.toml names the addresses that apps may be asked at";
  return why;
}

std::vector<PointerError> webhook_errors(const std::optional<std::string>& url,
                                         const std::optional<std::string>& secret,
                                         const std::vector<std::string>& allow) {
  std::vector<PointerError> errors;
  for (std::size_t i = 0; i < allow.size(); ++i) {
    if (!is_allow_rule(allow[i]))
      errors.push_back({"/allow/" + std::to_string(i), "must be an address, with a port or not: \"127.0.0.1:9000\""});
  }
  if (secret && !secret_key(*secret)) errors.push_back({"/secret", "must be whsec_ and the base64 of 24 to 64 bytes"});
  if (!url) return errors;
  const auto parsed = destination_of(*url);
  if (const auto* wrong = std::get_if<std::string>(&parsed)) {
    errors.push_back({"/url", *wrong});
  } else if (const auto& good = std::get<Url>(parsed); good.is_address && errors.empty()) {
    if (const auto why = refuse(parse_address(good.host, good.port).value(), allow, std::nullopt))
      errors.push_back({"/url", *why});
  }
  return errors;
}

}  // namespace bide::work
