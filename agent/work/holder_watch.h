// HolderWatch: the holders of the steps that execute in one attempt, as its driver looks at them: whether they live,
// what dead ones left, and their end at a cancel [K7, V2].
//
// Threads: one owner. Failures: CannotLook is thrown when we lack descriptors [E8]; faults of the store too.
#pragma once

#include "agent/flow/attempt.h"
#include "agent/work/holders.h"

namespace bide::work {

class HolderWatch {
 public:
  HolderWatch(flow::Attempt& attempt, Holders& holders) : attempt_(attempt), holders_(holders) {}

  // Takes what dead holders left. False: one that this attempt began is gone without an outcome. That is a crash of the
  // attempt: its command may be anywhere below the guard.
  [[nodiscard]] bool look();
  // Steps that execute and whose outcome is on its way: a holder, or a verb that does it itself, lives.
  [[nodiscard]] int alive() const;
  // The same without what takes steps back: that is the undoing attempt's, and no cancel ends it [E6].
  [[nodiscard]] int alive_but_undo() const;
  // Whether a step executes without a holder: nobody but its verb could tell its outcome.
  [[nodiscard]] bool without_holder() const;
  // SIGTERM to the commands of all steps that execute; their holders see what comes of it.
  void terminate();
  // Ends the holders with their commands.
  void end();
  [[nodiscard]] bool executes_under(const ProcessKey& holder) const;

 private:
  [[nodiscard]] static bool lives(const flow::Attempt::OpenCall& call);
  [[nodiscard]] Holder holder_of(const flow::Attempt::OpenCall& call) const;

  flow::Attempt& attempt_;
  Holders& holders_;
};

}  // namespace bide::work
