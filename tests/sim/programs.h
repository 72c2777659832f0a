// Programs: what stands outside of the agent when a run is a program. Its process tree under a guard dies with the
// agent, somewhat later; the holder of a step's command goes on, keeps its outcome and hands it in to whatever agent
// there is [K2, K7, W7]. Here they are rows of two tables, and move with the world's time.
//
// Threads: one. Ownership: the World's; a ProgramDouble is its driver in one process of the agent.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/kernel/holders.h"
#include "agent/work/driver.h"
#include "tests/sim/plan.h"

namespace bide::sim {

class World;

inline constexpr const char* kProgram = "program";  // the workflow of programs' plans

// The program's process has ended: its verb was not answered.
struct ProgramClosed {};

struct Holder {
  enum class Phase {
    ready,    // its row is committed, or will be; the command has not begun
    running,  // the command
    ended,    // its outcome is in its file, and is being handed in
    gone,
  };
  RunId run;
  std::int64_t step = 0;  // seq
  const Op* op = nullptr;
  std::size_t execution = 0;
  int generation = 0;  // of the agent that began it
  Phase phase = Phase::ready;
  TimeMs apply_at = 0, end_at = 0, hand_at = 0;
  int pid = 0;
  bool spared = false;  // its row is on disk, or about to be: the guard leaves it when the agent is gone
  bool applied = false;
  bool handing = false;
  std::optional<kernel::HeldOutcome> file;
  [[nodiscard]] bool alive() const { return phase != Phase::gone; }
};

// The guard of an attempt, with the program below it.
struct Guard {
  RunId run;
  bool alive = true;
  TimeMs gone_at = 0;  // when it is not alive: from then on nothing of it is left
};

// A driver as the agent knows it; what it does is World's (programs.cpp).
class ProgramDouble final : public work::Driver {
 public:
  explicit ProgramDouble(World& world) : world_(world) {}
  flow::AttemptOptions options(const kernel::VersionRow& version) const override;
  int max_running(WorkflowId) const override { return 0; }
  void let_finish(flow::Attempt& attempt) override;
  void drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow& version) override;
  std::int64_t sweep(TimeMs now);
  [[nodiscard]] std::optional<DurationMs> look() const;

 private:
  friend class World;
  struct Attempting;
  World& world_;
  std::map<ProcessId, bool> mine_;  // rows of guards that this process drives
  std::map<RunId, std::int64_t> driven_;
  bool left_ = true;  // rows may be there that nobody drives
};

}  // namespace bide::sim
