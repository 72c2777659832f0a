// Rig: the agent's floors up to `work` without HTTP, on a real file in a temporary folder.
//   Rig rig;                                  inline store, fake clock, nothing runs by itself
//   rig.add("flow", [](flow::Context& c) { … return std::string("null"); });
//   const RunId run = rig.start("flow");
//   rig.drive();                              claims and drives until nothing is due
//   rig.advance(60'000); rig.sweep.pass(); …
//   rig.restart();                            as after a SIGKILL between two calls: nothing is handed back
// An effect that throws Died{} is where the process dies: drive() lets it pass, then restart().
// With Rig::Mode::threaded the store has its writer thread, and executor.start()/sweep.start() may be called.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/random.h"
#include "agent/flow/registry.h"
#include "agent/work/commands.h"
#include "agent/work/deliverer.h"
#include "agent/work/executor.h"
#include "agent/work/feed.h"
#include "agent/work/retention.h"
#include "agent/work/sweep.h"
#include "agent/work/task_pool.h"
#include "db/store.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_transport.h"
#include "tests/support/temp_dir.h"

namespace bide::test {

struct Died {};

class Rig {
 public:
  enum class Mode { inlined, threaded };
  explicit Rig(Mode mode = Mode::inlined, work::ExecutorOptions options = default_options());
  ~Rig();

  static work::ExecutorOptions default_options();

  // Registers a native workflow; call before the first start(). The same code is registered again at a restart().
  void add(const std::string& name, std::function<std::string(flow::Context&)> code, const std::string& version = "1");
  void add(flow::NativeWorkflow workflow);
  // The code of a name is another one from the next restart() on.
  void replace(const std::string& name, std::function<std::string(flow::Context&)> code,
               const std::string& version = "1");
  void replace(flow::NativeWorkflow workflow);
  void remove(const std::string& name);

  // A function that tasks name; call before the first start().
  void add_task(const std::string& name, flow::TaskFn function);

  RunId start(const std::string& workflow, const std::string& input = "{}");
  // Claims and drives on this thread until nothing is due; returns how many attempts it drove.
  int drive(int most = 1000);
  void advance(DurationMs length);
  // The process is gone as by SIGKILL and a new one has opened the file: new owner, empty table of driven attempts.
  void restart();

  [[nodiscard]] kernel::RunRow run(RunId id);
  [[nodiscard]] std::vector<kernel::StepRow> journal(RunId id);
  [[nodiscard]] std::vector<kernel::WaitRow> waits(RunId id);  // all, by id
  [[nodiscard]] int count_events(RunId id, const std::string& kind);
  // A number from the file: rig.number("SELECT count(*) FROM runs").
  [[nodiscard]] std::int64_t number(const std::string& sql);
  void exec(const std::string& sql);  // as an operator's hand, through a connection of its own

  static kernel::Principal person(const std::string& name = "ada");
  kernel::ResolveOutcome resolve(WaitId wait, const std::string& body, const kernel::Principal& by = person());
  kernel::SignalOutcome signal(RunId run, const std::string& name, const std::string& payload = "{}");
  kernel::CancelOutcome cancel(RunId run, bool without_compensation = false);

  // Before the first start(): the store's VFS (a VfsShim's name), what is called when the disk fails, and a bell after
  // each COMMIT.
  std::string vfs;
  std::function<void(const std::string&)> on_fatal;
  std::function<void()> after_commit;
  // Before the first start(): deliveries go to `transport`. The deliverer has no threads: deliver() does what is there
  // to do on this thread, sweep->pass() hands out what is due.
  std::optional<work::DelivererOptions> deliveries;
  int deliver();
  // Before the first start(): the sweep lets go of what is old.
  std::optional<work::RetentionOptions> keep;

  // Asked when no native workflow has the name.
  std::function<std::optional<work::Startable>(const std::string& name)> find_more;

  TempDir dir;
  FakeClock clock;
  SeededRandom random{1};
  flow::Registry registry;
  std::unique_ptr<db::Store> store;
  std::unique_ptr<work::Executor> executor;
  std::unique_ptr<work::Sweep> sweep;
  std::unique_ptr<work::TaskPool> tasks;
  std::unique_ptr<work::Feed> feed;
  std::unique_ptr<work::Commands> commands;
  MemoryTransport transport;
  std::unique_ptr<work::FreshRows> fresh;
  std::unique_ptr<work::Deliverer> deliverer;
  std::unique_ptr<work::Retention> retention;

 private:
  void open();
  void close();
  Mode mode_;
  work::ExecutorOptions options_;
  std::vector<flow::NativeWorkflow> workflows_;
  std::map<std::string, flow::TaskFn> task_functions_;
  int generation_ = 0;
};

}  // namespace bide::test
