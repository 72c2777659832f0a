// The end of an attempt whose steps are to be taken back [E6].
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"

namespace bide::flow {

std::vector<kernel::Compensation> Attempt::open_compensations() const {
  return store_.read([&](db::ReadTx& tx) { return kernel::open_compensations(tx, fence_.run); });
}

Outcome Attempt::begin_undo(std::int64_t seq, const std::string& key_uid, const StepAsk& asked, const Caller& caller) {
  Guard guard(mutex_);
  StepAsk ask = asked;
  counts_[ask.branch] = seq - 1;  // its position is the seq of the step that it takes back
  // What began is gone on with as it was recorded, whatever the version that is registered now says.
  const Entry* there = journal_.find(std::string(kernel::kUndoBranch) + "/" + std::to_string(seq));
  if (there != nullptr) {
    ask.name = there->row.name;
    ask.effect = there->row.effect;
    ask.request = there->row.request;
  }
  auto located = locate(guard, kernel::StepKind::step, ask);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  entry.key_uid = key_uid;
  entry.verb = caller.process;
  return drive_step(guard, entry, caller);
}

bool Attempt::compensates() const {
  Guard guard(mutex_);
  return compensates_;
}

bool Attempt::cancel_met(db::ReadTx& tx) const { return !options_.undoing && kernel::is_ending(tx, fence_); }

}  // namespace bide::flow
