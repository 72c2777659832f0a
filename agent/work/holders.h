// Holders: the agent's side of the processes that run steps' commands beyond their attempts [K2, K7, W7]. What they
// hand in is taken here, over the door or from the file that a dead one left: DIR/outcomes/NONCE, the same document.
//
// {"result":JSON | "error":{…},"retryable":bool,"unknown":bool,"begun":bool,"left":bool,"backoff_ms":n}
//
// Threads: any. Failures: a file that is no whole document is no outcome (the machine went down while it was written);
// faults of the store are thrown. Ownership: Store, Random and Executor outlive it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/base/process_tree.h"
#include "agent/base/random.h"
#include "agent/kernel/holders.h"
#include "agent/work/executor.h"
#include "db/store.h"

namespace bide::work {

// One holder, as its row or its attempt knows it.
struct Holder {
  RunId run;
  std::int64_t step = 0;  // seq
  std::string nonce;
  ProcessKey key;
  bool this_boot = true;
  bool handed_in = false;
};

class Holders {
 public:
  // `directory`: DIR/outcomes. `socket`: BIDE_AGENT of what holders run.
  Holders(db::Store& store, Random& random, Executor& executor, std::string directory, std::string socket)
      : store_(store),
        random_(random),
        executor_(executor),
        directory_(std::move(directory)),
        socket_(std::move(socket)) {}

  // Where the holder of this execution keeps its outcome.
  [[nodiscard]] std::string file_of(std::string_view nonce) const { return directory_ + "/" + std::string(nonce); }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  void make_directory() const;
  // Before the first claim: files that no row knows are nobody's (their executions were never durable).
  void tidy();

  // What a holder hands in, or what its file says. The attempt that drives the run is told.
  kernel::Taken hand_in(RunId run, std::int64_t step, std::string_view nonce, const kernel::HeldOutcome& outcome);

  // A holder that is dead, or whose boot is over: its file is handed in, else what is left of the command is ended. The
  // row is stopped then.
  enum class Found {
    alive,
    handed_in,
    gone,     // without an outcome
    lingers,  // without an outcome, and something of its command resists its end: look again
  };
  Found look(const Holder& holder);
  // Ends it with all below it, and stops the row once nothing is left: true.
  bool end(const Holder& holder);
  [[nodiscard]] Holder of_row(const kernel::ProcessRow& row) const;

 private:
  [[nodiscard]] bool end_tree(const Holder& holder) const;
  void stop(const Holder& holder);

  db::Store& store_;
  Random& random_;
  Executor& executor_;
  const std::string directory_;
  const std::string socket_;
};

// nullopt: not such a document.
[[nodiscard]] std::optional<kernel::HeldOutcome> parse_outcome(std::string_view text);

}  // namespace bide::work
