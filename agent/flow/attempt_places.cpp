// Where an operation of an attempt stands in its journal: its position, and whether what is asked for there is what was
// recorded [J4, J5, V3].
#include <utility>

#include "agent/base/hash.h"
#include "agent/base/limits.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/flow/nondeterminism.h"
#include "agent/flow/position.h"
#include "agent/flow/rehearsal_port.h"

namespace bide::flow {
namespace {

constexpr std::string_view kTooManyWaits =
    "256 verbs of this run wait at once, and one more came: a run that holds so many is never suspended. Ask for them "
    "a few at a time (bide each -P N, xargs -P N), for the first of several with bide wait any, or start a run "
    "for each with bide call.";

}  // namespace

// J4, V3: does what is asked fit what is recorded there?
std::optional<Outcome> Attempt::mismatch(Guard& guard, kernel::StepKind kind, const StepAsk& ask, const Entry* entry,
                                         std::string_view place, std::string_view position) {
  const Attempted attempted{std::string(position), kind, ask};
  const std::string hash = request_hash(ask.request);
  const std::string caller = ask.caller.empty() ? "" : sha256(ask.caller);
  const auto differs = [&](std::string_view message) {
    return end_locked(guard, nondeterminism(replayed(), entry, attempted, message));
  };
  if (entry == nullptr) {
    if (kind != kernel::StepKind::step || ask.effect != kernel::Effect::non_idempotent ||
        options_.style != Style::program)
      return std::nullopt;
    const Entry* twin = journal_.unasked_with(hash, fence_.epoch);
    if (twin == nullptr) return std::nullopt;
    return end_locked(guard, nondeterminism(replayed(), twin, attempted,
                                            "The same request was done under another position, which this attempt did "
                                            "not ask for: " +
                                                moved_request(twin->row.position, position) + "."));
  }
  const kernel::StepRow& row = entry->row;
  const bool same_request = row.request_hash == hash;
  if (row.kind == kind && row.name == ask.name && row.effect == ask.effect && same_request) {
    const bool moved = options_.style == Style::program && !caller.empty() && row.caller_hash != caller &&
                       journal_.sibling_from(place, entry, caller) != nullptr;
    if (!moved) return std::nullopt;
  } else if (options_.style != Style::program || (journal_.sibling_with(place, entry, hash) == nullptr &&
                                                  (row.effect != ask.effect || !journal_.several_at(place)))) {
    return differs(row.name == ask.name && row.kind == kind && row.effect == ask.effect
                       ? "The request at this position is another one than was recorded."
                       : "The code asks for another entry than was recorded at this position.");
  }
  return end_locked(guard,
                    error_json("AmbiguousPosition",
                               "Several entries of \"" + ask.name +
                                   "\" came back in another order, or with one more among them: give each --key."));
}

Replayed Attempt::replayed() const { return Replayed{run_.id, options_.version, journal_}; }

std::variant<Entry*, Outcome> Attempt::locate(Guard& guard, kernel::StepKind kind, const StepAsk& ask) {
  if (over()) return Outcome(Closed{why()});
  refresh_locked(guard);
  if (over()) return Outcome(Closed{why()});
  // The program goes on after a verb that returned no answer: not with us.
  if (verb_killed()) return end_locked(guard, verb_killed_error());
  std::string place;
  std::string position;
  if (options_.style == Style::remote && !options_.undoing) {
    if (auto refused = take_place(guard, ask)) return std::move(*refused);
    position = native_position(ask.branch, ask.seq);
    place = position.substr(0, position.rfind('/'));
  } else if (options_.style == Style::native || options_.undoing) {  // ~undo is one branch, in order, of either
    const std::int64_t seq = ++counts_[ask.branch];
    position = native_position(ask.branch, seq);
    place = position.substr(0, position.rfind('/'));
  } else {
    place = program_place(ask.branch, kind, ask.name, ask.key);
    Entry* open = journal_.open_at(place);
    if (open != nullptr && !ask.verb.empty() && open->ask.verb == ask.verb) {
      ++open->turn;  // the same verb over a new connection
      ++changes_;
      changed_.notify_all();
      return open;
    }
    if (open != nullptr) {
      return end_locked(
          guard, error_json("AmbiguousPosition", "Two open verbs are called \"" + ask.name + "\": give each --key."));
    }
    if (waiters_.size() >= limits::kWaitsAtOnce) return end_locked(guard, error_json("TooManyWaits", kTooManyWaits));
    position = program_position(ask.branch, kind, ask.name, ask.key, ++counts_[place]);
  }
  Entry* entry = journal_.find(position);
  if (auto refusal = mismatch(guard, kind, ask, entry, place, position)) return std::move(*refusal);
  if (options_.rehearsal != nullptr && options_.rehearsal->only_replays() && (entry == nullptr || !entry->is_settled()))
    return end_locked(guard, error_json(Rehearsal::kGoesOn, std::string(to_text(kind)) + " " + ask.name));
  if (entry == nullptr) {
    if (cancelled_) return Outcome(Closed{Closing::cancelled});
    if (journal_.size() >= static_cast<std::size_t>(limits::kStepsPerRun)) {
      return end_locked(guard, error_json("TooManySteps", "A run has at most 100000 steps."));
    }
    kernel::StepRow row;
    row.position = position;
    row.seq = journal_.next_seq();
    row.kind = kind;
    row.name = ask.name;
    row.effect = ask.effect;
    row.request = ask.request;
    row.request_hash = request_hash(ask.request);
    if (!ask.caller.empty()) row.caller_hash = sha256(ask.caller);
    row.epoch = fence_.epoch;
    row.retries = ask.retries;
    entry = &journal_.add(std::move(row), place);
  }
  const bool replayed =
      entry->row.status == kernel::StepStatus::completed || entry->row.status == kernel::StepStatus::failed;
  if (!replayed && fresh_bell_) std::exchange(fresh_bell_, {})();
  entry->visited = true;
  entry->open = true;
  journal_.begins(*entry);
  entry->ask = ask;
  if (options_.style == Style::remote && !entry->stored) entry->opening = true;
  return entry;
}

}  // namespace bide::flow
