#include "agent/kernel/links.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/hmac.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::kernel {
namespace {

std::string link_key(db::ReadTx& tx) {
  db::Query q(tx, "SELECT value FROM meta WHERE key = 'link_key'");
  return q.next() ? q.text(0) : "";
}

std::string signature_of(std::string_view key, const WaitRow& wait, std::int64_t webhook, std::int64_t until) {
  const std::string text = "decide:" + std::to_string(wait.id.value) + ":" + std::to_string(webhook) + ":" +
                           std::to_string(until) + ":" + to_hex(wait.digest);
  return to_hex(hmac_sha256(key, text)).substr(0, 40);
}

bool links_on(db::ReadTx& tx, WebhookId webhook) {
  db::Query q(tx, "SELECT 1 FROM webhooks WHERE id = ? AND disabled_at IS NULL AND decision_links = 1");
  return q.bind(webhook).next();
}

Problem invalid() { return problem("link_invalid", "this link decides nothing"); }

}  // namespace

void ensure_link_key(db::Tx& tx, std::string_view fresh) {
  db::Query(tx, "INSERT INTO meta (key, value) VALUES ('link_key', ?) ON CONFLICT (key) DO NOTHING").bind(fresh).run();
}

std::string decision_token(db::ReadTx& tx, WaitId id, WebhookId webhook, TimeMs now) {
  const auto wait = read_wait(tx, id);
  const std::string key = link_key(tx);
  if (!wait || wait->kind != WaitKind::approval || key.empty()) return "";
  const TimeMs end = std::min(now + limits::kDecisionLinkMs, wait->resolve_by.value_or(now + limits::kDecisionLinkMs));
  const std::int64_t until = end / 1000;
  return std::to_string(id.value) + "." + std::to_string(webhook.value) + "." + std::to_string(until) + "." +
         signature_of(key, *wait, webhook.value, until);
}

std::variant<LinkedDecision, Problem> read_decision_token(db::ReadTx& tx, std::string_view token, TimeMs now) {
  std::int64_t numbers[3] = {};
  std::string_view rest = token;
  for (std::int64_t& number : numbers) {
    const std::size_t dot = rest.find('.');
    const auto value = dot == std::string_view::npos ? std::nullopt : parse_number(rest.substr(0, dot));
    if (!value) return invalid();
    number = *value;
    rest.remove_prefix(dot + 1);
  }
  const auto wait = read_wait(tx, WaitId(numbers[0]));
  const std::string key = link_key(tx);
  if (!wait || wait->kind != WaitKind::approval || key.empty()) return invalid();
  if (!same_secret(signature_of(key, *wait, numbers[1], numbers[2]), rest)) return invalid();
  if (!links_on(tx, WebhookId(numbers[1]))) return invalid();
  if (numbers[2] * 1000 <= now) return problem("link_expired", "the link was good for a short time, and that is over");
  LinkedDecision found;
  found.wait = *wait;
  found.digest = wait->digest;
  found.by.name = "link:webhook-" + std::to_string(numbers[1]);
  found.by.scopes = scopes_from("approve");
  return found;
}

}  // namespace bide::kernel
