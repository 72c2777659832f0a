// Process: one agent's floors up to `work` on a disk in memory, as a process that can die at any moment and be started
// again. It does what the threads of the real one do (dispatcher, sweep, workers), on fibers and virtual time.
//
// Threads: one. Failures: Killed from within means that the process has died; dead() then says so.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/flow/pace.h"
#include "agent/flow/registry.h"
#include "agent/work/commands.h"
#include "agent/work/deliverer.h"
#include "agent/work/executor.h"
#include "agent/work/feed.h"
#include "agent/work/fresh_rows.h"
#include "agent/work/sweep.h"
#include "agent/work/task_pool.h"
#include "db/store.h"
#include "tests/sim/chance.h"
#include "tests/sim/fibers.h"
#include "tests/support/fake_clock.h"
#include "tests/support/vfs_shim.h"

namespace bide::sim {

class ProgramDouble;

struct ProcessSettings {
  std::string directory;  // for bide.lock and bide.reserve, which are real files
  std::function<std::string(flow::Context&)> code;
  std::function<std::string(const flow::UndoInfo&)> undo;                                     // of every compensation
  std::function<std::string(const std::string& request, const flow::EffectInfo& info)> task;  // of every task
  std::function<work::Answered(const work::Envelope&)> receive;                               // what was sent out
  ProgramDouble* programs = nullptr;
  int generation = 1;
  int workers = 6;
};

inline constexpr const char* kFlow = "flow";      // the workflow of every plan
inline constexpr const char* kNarrow = "narrow";  // the same, one at a time
inline constexpr int kNarrowRunning = 1;
inline constexpr const char* kUndo = "undo";  // the name of every compensation

class Process final : private flow::Pace {
 public:
  Process(const ProcessSettings& settings, test::VfsShim& disk, test::FakeClock& clock, Fibers& fibers, Chance& chance);
  ~Process() override;

  // What is due is claimed, driven, swept, until everybody waits. False: it died on the way.
  bool settle();
  // Boot time at which something may be due again.
  [[nodiscard]] BootMs next_look();
  // A bell for the dispatcher and the sweep.
  void ring() {
    look_at_ = 0;
    sweep_rung_ = true;
  }

  [[nodiscard]] bool dead() const { return dead_; }
  // The clock was held when the dispatcher looked last: it has not yet seen that it goes on.
  [[nodiscard]] bool held_when_looked() const { return held_; }
  // From now on nothing of it goes on: the disk has lost its power, or somebody killed it.
  void die();
  // It may die between a read and a write, or in a write, from now on: one in so many. 0: no.
  void set_peril(std::uint64_t one_in) { peril_ = one_in; }

  // What others do between a read and a write.
  void interrupt() { before_write(); }
  // Something that it may do in its turn (a receiver's answer that kills it).
  void peril();

  // The disk has no room: refusals for that reason are none of the agent's faults [C4].
  void set_full(bool full) { full_ = full; }
  // Before it is destroyed: nothing may reach the disk any more.
  void let_go() { leaving_ = true; }

  std::unique_ptr<work::Feed> feed;
  std::unique_ptr<db::Store> store;
  flow::Registry registry;
  std::unique_ptr<work::Executor> executor;
  std::unique_ptr<work::TaskPool> tasks;
  std::unique_ptr<work::Deliverer> deliverer;
  std::unique_ptr<work::Sweep> sweep;
  std::unique_ptr<work::Commands> commands;

 private:
  struct Wire final : work::Transport {
    work::Answered send(const work::Envelope& envelope) override { return receive(envelope); }
    void close() override {}
    std::function<work::Answered(const work::Envelope&)> receive;
  };
  void wait(DurationMs longest) override { fibers_.wait(longest); }
  void before_write() override;
  void run(const std::vector<std::function<void()>>& branches) override { fibers_.run(branches); }
  void open(const ProcessSettings& settings);
  [[nodiscard]] int due_runs();
  bool dispatch();
  bool sweep_if_called();
  // A fiber that does what is there to do, if there is none yet. True: one began.
  bool deliver();
  bool do_tasks();

  test::VfsShim& disk_;
  test::FakeClock& clock_;
  Fibers& fibers_;
  Chance& chance_;
  Wire wire_;
  work::FreshRows fresh_;
  int delivering_ = 0;
  int tasking_ = 0;
  bool dead_ = false;
  bool held_ = false;
  bool leaving_ = false;
  bool full_ = false;
  std::uint64_t peril_ = 0;
  int workers_;
  int busy_ = 0;
  std::uint64_t fruitless_ = 0;   // commits of claims that found nothing
  std::uint64_t looked_ = ~0ULL;  // commits, but for those, when the dispatcher looked last
  bool sweep_rung_ = true;
  bool sweeping_ = false;
  BootMs sweep_at_ = 0;
  BootMs look_at_ = 0;
};

}  // namespace bide::sim
