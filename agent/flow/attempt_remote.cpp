// What an attempt of a remote worker does otherwise: its places come with the requests, what lasts is polled, and it
// outlives the agent [J5, K4].
#include <algorithm>

#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/flow/position.h"

namespace bide::flow {

// A branch is sequential: its next place is that after the last, once the last is settled. A place that was asked for
// before is the same operation again: its answer was lost on the way, or it is still waited for.
std::optional<Outcome> Attempt::take_place(Guard& guard, const StepAsk& ask) {
  if (ask.seq < 1) return problem("bad_seq", "seq is missing: the place of the operation in its branch, from 1.");
  std::int64_t& last = counts_[ask.branch];
  if (ask.seq > last) {
    const Entry* before = journal_.find(native_position(ask.branch, ask.seq - 1));
    if (before != nullptr && before->open) {
      return problem("branch_busy", "Operation " + std::to_string(ask.seq - 1) + " of branch \"" + ask.branch +
                                        "\" is open: a branch does one thing after the other.");
    }
    // An agent that came back does not know how far the worker was: it is believed what the journal can bear.
    const bool told = options_.resumed && last == 0 && before != nullptr;
    if (ask.seq != last + 1 && !told) {
      return problem("bad_seq", "The next operation of branch \"" + ask.branch + "\" is " + std::to_string(last + 1) +
                                    ", not " + std::to_string(ask.seq) + ".");
    }
    last = ask.seq;
  }
  for (;;) {
    const Entry* there = journal_.find(native_position(ask.branch, ask.seq));
    if (over()) return Closed{why()};
    if (there == nullptr || !there->opening || there->stored) return std::nullopt;
    wait_for_change(guard);
  }
}

// Steps that were begun in this attempt are executed by its worker still. What else it had asked for nobody knows:
// an entry of such an attempt counts as asked for [J9].
void Attempt::resume() {
  for (const auto& [seq, entry] : journal_.all()) {
    entry->visited = true;
    const bool begun = entry->row.kind == kernel::StepKind::step && entry->row.epoch == fence_.epoch &&
                       entry->row.status == kernel::StepStatus::started && entry->row.nonce;
    if (!begun) continue;
    entry->executing = true;
    entry->open = true;
    journal_.begins(*entry);
    entry->ask.branch = entry->place;
    entry->ask.name = entry->row.name;
    entry->ask.effect = entry->row.effect;
    entry->ask.retries = entry->row.retries;
    ++executing_;
  }
}

BootMs Attempt::poll_end(DurationMs wanted) const {
  return store_.system_clock().boot_ms() + std::min(wanted, options_.longest_poll);
}

bool Attempt::executes_any() const {
  Guard guard(mutex_);
  return executing_ > 0;
}

std::vector<Attempt::Waiter> Attempt::waiting() const {
  std::vector<Waiter> all;
  if (options_.style != Style::remote) {
    for (const Waiter* waiter : waiters_) all.push_back(*waiter);
    return all;
  }
  for (Entry* entry : parked_) {
    if (entry->open && !entry->executing && !settled(entry->row.status))
      all.push_back({entry, entry->waits_on, {}, entry->may_suspend});
  }
  return all;
}

}  // namespace bide::flow
