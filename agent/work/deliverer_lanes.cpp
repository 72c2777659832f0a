// Deliverer: the lanes. One row at a time in each, what came of a page in one transaction.
#include <algorithm>

#include "agent/base/crash_point.h"
#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/base/planted.h"
#include "agent/kernel/task_push.h"
#include "agent/kernel/webhooks.h"
#include "agent/work/deliverer.h"
#include "agent/work/retry_after.h"
#include "agent/work/signature.h"

namespace bide::work {

std::optional<Deliverer::Page> Deliverer::pick() {
  Lock lock(mutex_);
  if (closing_.load() || busy_ >= limits::kLanesAtOnce) return std::nullopt;
  for (auto it = ready_.begin(); it != ready_.end(); ++it) {
    Lane& lane = lanes_[*it];
    if (lane.slow && slow_busy_ >= limits::kSlowLanesAtOnce) continue;
    Page page{*it, {lane.items.begin(), lane.items.end()}};
    ready_.erase(it);
    lane.items.clear();
    lane.ready = false;
    lane.busy = true;
    ++busy_;
    slow_busy_ += lane.slow ? 1 : 0;
    return page;
  }
  return std::nullopt;
}

// The rows of the page from `done` on were not begun: back to the head of the lane, or let go because we close.
void Deliverer::give_back(const Page& page, std::size_t done, bool slow) {
  Lock lock(mutex_);
  Lane& lane = lanes_[page.lane];
  --busy_;
  slow_busy_ -= lane.slow ? 1 : 0;
  lane.busy = false;
  lane.slow = slow;
  for (std::size_t i = page.items.size(); i > done; --i) {
    if (closing_.load()) {
      in_flight_.erase(page.items[i - 1].id.value);
    } else {
      lane.items.push_front(page.items[i - 1]);
    }
  }
  if (!lane.items.empty() && !lane.ready) {
    lane.ready = true;
    ready_.push_back(page.lane);
  }
  changed_.notify_all();
}

void Deliverer::run_page(Page page) {
  std::vector<Outcome> outcomes;
  std::size_t done = 0;
  bool slow = false;
  BootMs oldest = 0;
  const auto boot = [this] { return store_.system_clock().boot_ms(); };
  const auto flush = [&] {
    record(page.lane, outcomes);
    outcomes.clear();
  };
  while (done < page.items.size() && !closing_.load() && !slow) {
    // What is delivered is deleted within a second, also when a later row hangs: a crash repeats little [O3].
    if (!outcomes.empty() && boot() - oldest >= limits::kSlowMs) flush();
    std::optional<Outcome> outcome;
    try {
      outcome = try_row(page.lane, page.items[done++]);
    } catch (const std::exception& e) {  // of the store: the row stays as it is
      log::warn("outbox.not_read", {{"to", page.lane}, {"error", e.what()}});
      Lock lock(mutex_);
      in_flight_.erase(page.items[done - 1].id.value);
      slow = true;
    }
    if (!outcome) continue;
    if (outcomes.empty()) oldest = boot();
    slow = outcome->tried.took >= limits::kSlowMs;  // gives its place to another lane
    outcomes.push_back(std::move(*outcome));
  }
  transport_.rest(page.lane);
  flush();
  give_back(page, done, slow);
}

namespace {

// A task that nobody asks for any more, as if an operator had dropped its row.
bool drop_unwanted(db::Tx& tx, DeliveryId id) {
  const auto row = kernel::read_delivery(tx, id);
  if (!row || kernel::push_wanted(tx, *row)) return false;
  (void)kernel::drop_delivery(tx, id, "bide", tx.now());
  return true;
}

}  // namespace

// nullopt: the row is not to be sent, or was not: it is let go as it is.
std::optional<Deliverer::Outcome> Deliverer::try_row(const std::string& lane, const Item& item) {
  const auto let_go = [&] {
    Lock lock(mutex_);
    in_flight_.erase(item.id.value);
    return std::nullopt;
  };
  // Read now: since it was handed out it may have been dropped, parked or retried by an operator.
  bool wanted = true;
  const auto row = store_.read([&](db::ReadTx& tx) {
    auto found = kernel::read_delivery(tx, item.id);
    wanted = !found || kernel::push_wanted(tx, *found);
    return found;
  });
  if (!row || row->parked_at || (item.fresh ? row->tries > 0 : row->next_try_at > store_.now())) return let_go();
  if (!wanted) {  // K8, P1: its run has ended, or ends
    store_.write([&](db::Tx& tx) { drop_unwanted(tx, item.id); });
    return let_go();
  }
  crash_point("outbox.before_send");
  const BootMs began = store_.system_clock().boot_ms();
  auto sent = send(*row);
  Outcome outcome{item, {item.id, 0, 0, ""}, std::move(sent), row->webhook, 0};
  crash_point("outbox.sent_before_record");
  outcome.task = row->kind == kernel::OutboxKind::task;
  const Answered& answer = outcome.answer;
  if (answer.kind == Answered::Kind::interrupted) return let_go();
  outcome.tried.took = store_.system_clock().boot_ms() - began;
  outcome.tried.status = answer.status;
  if (!answer.delivered()) {
    outcome.tried.error =
        !answer.error.empty() ? answer.error : "the receiver answered " + std::to_string(answer.status);
    if (answer.status >= 300 && answer.status < 400) outcome.tried.error += ": redirects are not followed";
    if (answer.kind != Answered::Kind::no_network) outcome.together = failed_together(lane);
  }
  return outcome;
}

std::int64_t Deliverer::failed_together(const std::string& name) {
  Lock lock(mutex_);
  Lane& lane = lanes_[name];
  const BootMs boot = store_.system_clock().boot_ms();
  if (lane.together == 0 || boot - lane.failed_at >= limits::kTogetherMs) {
    lane.failed_at = boot;
    lane.together = 0;
  }
  return lane.together++;
}

// One transaction a page: what was delivered is deleted, also when a later row failed [O4].
void Deliverer::record(const std::string& lane, std::vector<Outcome>& outcomes) {
  if (outcomes.empty()) return;
  struct Line {
    DeliveryId id;
    kernel::FailureRecorded recorded;
    std::string error;
  };
  std::vector<Line> lines;
  bool due_later = false;
  try {
    store_.write(
        [&](db::Tx& tx) {
          lines.clear();
          for (const Outcome& one : outcomes) {
            if (one.tried.error.empty()) {
              if (one.task && task_answered_) task_answered_(tx, one.item.id, one.answer.status, one.answer.body);
              kernel::record_delivered(tx, one.tried, tx.now());
              continue;
            }
            due_later = true;
            if (one.task && drop_unwanted(tx, one.item.id)) continue;
            const bool gone = one.answer.kind == Answered::Kind::answered && one.answer.status == 410;
            const bool never = one.answer.kind == Answered::Kind::never || gone;
            if (one.answer.kind == Answered::Kind::no_network) {
              kernel::postpone(tx, one.item.id, tx.now() + limits::kNoNetworkMs);
            } else if (one.item.fresh && !never) {
              kernel::record_fresh_failed(tx, one.tried, tx.now());
            } else {
              const auto recorded = kernel::record_failed(tx, one.tried,
                                                          {retry_after(one.answer.retry_after, tx.now()),
                                                           options_.park_after, one.together, random_.next(), never},
                                                          tx.now());
              if (recorded) lines.push_back({one.item.id, *recorded, one.tried.error});
            }
            if (gone && one.webhook.valid())
              kernel::disable_webhook(tx, one.webhook, "the receiver answered 410 Gone", tx.now());
          }
        },
        db::Purpose::decision);
  } catch (const std::exception& e) {
    log::warn("outbox.not_recorded", {{"to", lane}, {"error", e.what()}});
    Lock lock(mutex_);
    if (not_recorded_.empty()) not_recorded_ = std::string("a delivery could not be recorded: ") + e.what();
  }
  crash_point("outbox.recorded");
  release(outcomes);
  bool parked = false;
  for (const Line& line : lines) {
    parked = parked || line.recorded.parked;
    const log::Fields fields = {
        {"delivery", line.id.value}, {"to", lane}, {"tries", line.recorded.tries}, {"error", line.error}};
    line.recorded.parked ? log::error("outbox.parked", fields) : log::warn("outbox.failed", fields);
  }
  if (parked) count_parked();
  if (due_later && due_bell_) due_bell_();
}

void Deliverer::release(const std::vector<Outcome>& outcomes) {
  Lock lock(mutex_);
  for (const Outcome& one : outcomes) in_flight_.erase(one.item.id.value);
}

// -- One request.

namespace {

// What an endpoint gets beside the body: id and time, and the signatures over them. What is wrong, if it cannot.
std::optional<std::string> address_to(const kernel::WebhookRow& endpoint, const kernel::OutboxRow& row, TimeMs now,
                                      Envelope& envelope) {
  const std::int64_t seconds = now / 1000;
  const std::string signatures =
      sign(kernel::signing_secrets(endpoint.secrets, now), row.idem_key, seconds, row.request);
  if (signatures.empty()) return "the endpoint has no valid secret to sign with";
  envelope.headers.emplace_back("webhook-id", row.idem_key);
  envelope.headers.emplace_back("webhook-timestamp", std::to_string(seconds));
  envelope.headers.emplace_back("webhook-signature", signatures);
  for (std::size_t i = 0; const auto one = json::at_pointer(endpoint.allow, "/" + std::to_string(i)); ++i)
    envelope.allow.push_back(json::as_string(*one).value_or(""));
  return std::nullopt;
}

}  // namespace

Answered Deliverer::send(const kernel::OutboxRow& row) {
  const auto never = [](std::string why) { return Answered{Answered::Kind::never, 0, std::move(why), {}}; };
  if (const auto bad = json::check(row.request))
    return never("the stored body is not JSON: " + bad->why + " at byte " + std::to_string(bad->offset));
  Envelope envelope;
  envelope.url = row.destination;
  envelope.body = row.request;
  envelope.allow = options_.allow;
  envelope.deadline = limits::kDeliveryMs;
  // A result is as long as any [D5]: the bound is looked at when it is recorded.
  if (row.kind == kernel::OutboxKind::task) envelope.most_answer = limits::kDocumentBytes + limits::kAnswerBytes;
  envelope.headers = {{"User-Agent", options_.user_agent}};
  // What the body is was decided when it was written: the endpoint may be another one's by now.
  const bool cloud_event = row.kind == kernel::OutboxKind::webhook && json::member(row.request, "specversion");
  envelope.headers.emplace_back("Content-Type", cloud_event ? "application/cloudevents+json" : "application/json");
  if (row.kind == kernel::OutboxKind::webhook) {
    const auto endpoint = store_.read([&](db::ReadTx& tx) { return kernel::read_webhook(tx, row.webhook); });
    if (!endpoint || endpoint->disabled_at) return never("the endpoint is switched off");
    envelope.allow.clear();  // it has a list of its own [O6]
    if (auto refused = address_to(*endpoint, row, store_.now(), envelope)) return never(std::move(*refused));
    envelope.key = row.idem_key;
  } else {
    const bool task = row.kind == kernel::OutboxKind::task;
    const std::string key = BIDE_PLANTED(key_per_delivery) ? row.idem_key + std::to_string(row.tries) : row.idem_key;
    envelope.key = task ? std::string(kernel::step_key_of(row)) : key;
    envelope.headers.emplace_back("Idempotency-Key", envelope.key);
  }
  try {
    return transport_.send(envelope);
  } catch (const std::exception& e) {
    return {Answered::Kind::failed, 0, e.what(), {}};
  }
}

}  // namespace bide::work
