#include "tests/sim/process.h"

#include <algorithm>
#include <stdexcept>

#include "agent/base/limits.h"
#include "tests/sim/ledger.h"
#include "tests/sim/programs.h"

namespace bide::sim {
namespace {

// The real dispatcher looks every 5 s whether the clock is still held: hours of that show nothing more.
constexpr DurationMs kHeldLookMs = 600'000;
constexpr int kTaskWorkers = 2;

}  // namespace

Process::Process(const ProcessSettings& settings, test::VfsShim& disk, test::FakeClock& clock, Fibers& fibers,
                 Chance& chance)
    : disk_(disk), clock_(clock), fibers_(fibers), chance_(chance), workers_(settings.workers) {
  try {
    open(settings);
  } catch (const Killed&) {
    dead_ = true;
  } catch (const std::exception& e) {
    dead_ = true;
    if (!disk_.power_is_cut()) violated("I9", std::string("the agent does not start: ") + e.what());
  }
}

Process::~Process() {
  leaving_ = true;
  commands.reset();
  sweep.reset();
  deliverer.reset();
  tasks.reset();
  executor.reset();
  store.reset();
}

void Process::open(const ProcessSettings& settings) {
  feed = std::make_unique<work::Feed>();
  db::StoreOptions options;
  options.directory = settings.directory;
  options.threaded = false;
  options.readers = 1;
  options.vfs = disk_.name();
  options.on_fatal = [this](const std::string& what) {
    dead_ = true;
    if (leaving_) return;
    if (!disk_.power_is_cut()) violated("I8", "the store failed on a sound disk: " + what);
    fibers_.halt();
    throw Killed{};
  };
  options.after_batch = [this] { fibers_.touch(); };
  options.announced = [this](std::int64_t id) { fresh_.push(id); };
  store = std::make_unique<db::Store>(std::move(options), clock_);
  for (const char* name : {kFlow, kNarrow}) {
    flow::NativeWorkflow workflow;
    workflow.name = name;
    workflow.version = "1";
    workflow.max_running = name == kNarrow ? kNarrowRunning : 0;
    workflow.run = settings.code;
    workflow.compensations[kUndo] = {settings.undo};
    registry.add(std::move(workflow));
  }
  for (int i = 1; i <= kMostOps; ++i) registry.add_task(task_name(i), settings.task);
  work::ExecutorOptions executor_options;
  executor_options.workers = settings.workers;
  executor_options.owner = "local:process-" + std::to_string(settings.generation);
  executor_options.shutdown_grace = 0;
  executor_options.pace = this;
  executor_options.pass_unknown = true;
  executor = std::make_unique<work::Executor>(*store, chance_.random(), registry, executor_options);
  executor->set_overdue_bell([this](BootMs at) {
    if (at < sweep_at_) sweep_rung_ = true;
  });
  const auto find = [this](const std::string& name) -> std::variant<work::Startable, Problem> {
    const auto version = store->read([&](db::ReadTx& tx) { return kernel::find_version(tx, name, "1"); });
    if (!version) return problem("workflow_unknown", "no workflow " + name);
    return work::Startable{store->read([&](db::ReadTx& tx) { return kernel::read_version(tx, *version)->workflow; }),
                           *version};
  };
  executor->set_find_workflow(find);
  executor->register_workflows();
  store->write([](db::Tx& tx) {
    const auto workflow = kernel::ensure_workflow(tx, kProgram);
    (void)kernel::ensure_version(tx, workflow, "1", kernel::WorkflowKind::program, "{}", tx.now());
  });
  executor->set_program_driver(settings.programs);
  sweep = std::make_unique<work::Sweep>(*store, *executor);
  tasks = std::make_unique<work::TaskPool>(*store, chance_.random(), registry, *executor);
  tasks->set_pace(this);
  tasks->adopt();
  executor->set_task_bell([this](StepId task) { tasks->offer(task); });
  sweep->add("processes", [programs = settings.programs](TimeMs now) { return programs->sweep(now); });
  sweep->add_look([programs = settings.programs](TimeMs) { return programs->look(); });
  sweep->add("tasks", [this](TimeMs now) { return tasks->sweep_leases(now); });
  sweep->add("undispatched", [this](TimeMs now) { return tasks->sweep_undispatched(now); });
  wire_.receive = settings.receive;
  deliverer = std::make_unique<work::Deliverer>(*store, chance_.random(), wire_, fresh_, work::DelivererOptions{});
  deliverer->make_untried_due();
  sweep->add("outbox", [this](TimeMs now) { return deliverer->sweep(now); });
  sweep->add_look([this](TimeMs now) { return deliverer->look(now); });
  commands = std::make_unique<work::Commands>(*store, chance_.random(), *executor, *sweep, *feed, find);
}

void Process::die() {
  dead_ = true;
  fibers_.halt();
}

void Process::before_write() {
  if (dead_) throw Killed{};
  if (!fibers_.inside()) return;
  peril();
  if (chance_.one_in(3)) fibers_.yield();
  if (dead_) throw Killed{};
}

void Process::peril() {
  if (peril_ > 0 && chance_.one_in(peril_)) {
    die();
    throw Killed{};
  }
}

int Process::due_runs() {
  return store->read([&](db::ReadTx& tx) {
    db::Query q(
        tx,
        "SELECT count(*) FROM (SELECT 1 FROM runs WHERE status = 'queued' AND paused_at IS NULL AND run_at <= ? "
        "LIMIT 3)");
    return static_cast<int>(q.bind(store->now()).one().integer(0));
  });
}

// What the dispatcher's thread does in one round. True: something was claimed.
bool Process::dispatch() {
  store->clock().follow_wall();
  const auto due = store->read([&](db::ReadTx& tx) { return kernel::next_due(tx); });
  const TimeMs now = store->now();
  const BootMs boot = clock_.boot_ms();
  look_at_ = due ? boot + std::max<DurationMs>(*due - now, limits::kDueAgainMs) : boot + limits::kCheckMs;
  if (due && *due > now) look_at_ = boot + (*due - now);
  if (const auto again = store->clock().look_again_at()) look_at_ = std::min(look_at_, std::max(*again, boot + 1));
  if (!due || *due > now) return false;
  sweep_rung_ = true;
  held_ = store->clock().held();
  if (held_) {
    look_at_ = boot + kHeldLookMs;
    return false;
  }
  const int able = std::min(due_runs(), workers_ - busy_);
  for (int i = 0; i < able; ++i) {
    ++busy_;
    fibers_.spawn(
        [this] {
          try {
            if (!executor->run_one()) ++fruitless_;
          } catch (const StorageFull&) {  // C4: no claims while the disk is full
            look_at_ = clock_.boot_ms() + limits::kDiskProbeMs;
          }
        },
        [this] { --busy_; });
  }
  return able > 0;
}

bool Process::sweep_if_called() {
  if (sweeping_ || (!sweep_rung_ && clock_.boot_ms() < sweep_at_)) return false;
  sweep_rung_ = false;
  sweeping_ = true;
  fibers_.spawn(
      [this] {
        const auto report = sweep->pass();
        if (!report.first_error.empty() && !dead_ && !full_)
          violated("I8", "a sweep on a sound disk failed: " + report.first_error);
        sweep_at_ = clock_.boot_ms() + sweep->until_next().value_or(limits::kCheckMs);
      },
      [this] { sweeping_ = false; });
  return true;
}

bool Process::deliver() {
  if (delivering_ >= 2) return false;
  ++delivering_;
  fibers_.spawn(
      [this] {
        while (!dead_ && deliverer->run_one()) {
        }
      },
      [this] { --delivering_; });
  return true;
}

bool Process::do_tasks() {
  if (tasking_ >= kTaskWorkers) return false;
  ++tasking_;
  fibers_.spawn(
      [this] {
        try {
          while (!dead_ && tasks->run_one()) {
          }
        } catch (const StorageFull&) {  // its lease lapses
        }
      },
      [this] { --tasking_; });
  return true;
}

bool Process::settle() {
  fibers_.set_now(clock_.boot_ms());
  int claimed = 0, passed = 0;
  for (int round = 0; !dead_; ++round) {
    if (round > 2'000)
      violated("I8", "the agent does not come to rest: " + std::to_string(claimed) + " claims, " +
                         std::to_string(passed) + " passes");
    // A ring is a commit that was not a claim in vain.
    const std::uint64_t commits = store->health().commits - fruitless_;
    bool claims = false;
    if (commits != looked_ || clock_.boot_ms() >= look_at_) {
      looked_ = commits;
      claims = dispatch();
    }
    const bool swept = sweep_if_called();
    claimed += claims ? 1 : 0;
    passed += swept ? 1 : 0;
    if (swept || !fresh_.empty() || deliverer->in_flight() > 0) (void)deliver();
    const auto offer = tasks->next_offer();
    if (offer && *offer <= clock_.boot_ms()) (void)do_tasks();
    fibers_.settle();
    fibers_.rethrow();
    if (!dead_ && !claims && !swept && fresh_.empty() && store->health().commits - fruitless_ == looked_) return true;
  }
  return false;
}

BootMs Process::next_look() {
  BootMs at = std::min(look_at_, sweep_at_);
  if (const auto wake = fibers_.next_wake()) at = std::min(at, *wake);
  if (const auto offer = tasks->next_offer(); offer && tasking_ < kTaskWorkers) at = std::min(at, *offer);
  return at;
}

}  // namespace bide::sim
