// What a rehearsal sees of an attempt, and how it ends one.
#include <utility>

#include "agent/flow/attempt.h"
#include "agent/flow/rehearsal_port.h"

namespace bide::flow {

bool Attempt::rehearsal_ends_here() {
  if (options_.rehearsal == nullptr) return false;
  Rehearsal::Answering answering;
  {
    Guard guard(mutex_);
    if (closing_ != Closing::open) return true;
    answering.run = run_.id;
    answering.epoch = fence_.epoch;
    for (const auto& [seq, entry] : journal_.all()) {
      if (entry->visited) {
        answering.seq = seq;
        answering.kind = entry->row.kind;
        answering.name = entry->row.name;
      }
      if (!entry->is_settled()) continue;
      ++answering.settled;
      if (!std::exchange(entry->told, true)) answering.recorded = true;
    }
  }
  if (!options_.rehearsal->ends_at(answering)) return false;
  close(Closing::paused);  // what executes in other branches is let finish, then the program is killed [X5]
  return true;
}

bool Attempt::rehearsal_goes_on() const {
  return options_.rehearsal != nullptr && options_.rehearsal->stands_still(run_.id);
}

std::optional<std::string> Attempt::rehearsal_stub(std::int64_t step) const {
  if (options_.rehearsal == nullptr) return std::nullopt;
  Guard guard(mutex_);
  const auto found = journal_.all().find(step);
  return found == journal_.all().end() ? std::nullopt : options_.rehearsal->stub_of(found->second->row.name);
}

}  // namespace bide::flow
