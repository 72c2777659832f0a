// Runs that are programs: their driver, their verbs, and the processes outside of the agent.
#include "tests/sim/programs.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/process_tree.h"
#include "agent/flow/retry_delay.h"
#include "agent/kernel/steps.h"
#include "tests/sim/world.h"

namespace bide::sim {
namespace {

constexpr DurationMs kLingerMs = 1'000;
constexpr DurationMs kLookMs = 600'000;  // whatever changes touches the fibers; this is only to be sure

std::string of_run(const std::string& what, RunId run) { return what + " of run " + std::to_string(run.value); }

}  // namespace

// -- The world's side: commands go on, end, and are handed in.

std::optional<TimeMs> World::holders_next() const {
  std::optional<TimeMs> next;
  for (const auto& [nonce, holder] : holders_) {
    std::optional<TimeMs> at;
    if (holder.phase == Holder::Phase::running) at = holder.applied ? holder.end_at : holder.apply_at;
    if (holder.phase == Holder::Phase::ended && !holder.handing) at = holder.hand_at;
    if (at) next = next ? std::min(*next, *at) : *at;
  }
  return next;
}

void World::move_holders() {
  for (auto& [nonce, holder] : holders_) {
    if (holder.phase == Holder::Phase::running) {
      Effect& effect = ledger_.effect(holder.run, *holder.op);
      const bool fails = effect.threw() < holder.op->fails;
      if (!holder.applied && holder.apply_at <= true_) {
        holder.applied = true;
        if (!fails) {
          ledger_.apply(effect, holder.execution);
          ledger_.counts.add("effects");
        }
      }
      if (holder.end_at <= true_) {
        kernel::HeldOutcome outcome;
        outcome.backoff = holder.op->backoff;
        if (fails) {
          outcome.error = R"({"code":"StepError","message":"as planned"})";
          outcome.retryable = !holder.op->final_failure;
          ledger_.counts.add("failures");
        } else {
          outcome.result = result_of(effect);
        }
        ledger_.end(effect, holder.execution, fails ? Ending::threw : Ending::returned, true_);
        holder.file = outcome;
        holder.phase = Holder::Phase::ended;
        holder.hand_at = true_;
      }
    }
    if (holder.phase != Holder::Phase::ended || holder.handing || holder.hand_at > true_ || process_->dead()) continue;
    holder.handing = true;
    fibers_.spawn([this, nonce = nonce] { hand_in(nonce); }, [&holder = holder] { holder.handing = false; });
  }
}

// As work::Holders: who drives the run is told, else the nonce alone decides [K2].
kernel::Taken World::take(RunId run, std::int64_t step, const std::string& nonce, const kernel::HeldOutcome& outcome) {
  if (const auto attempt = process_->executor->attempt(run)) {
    switch (attempt->hand_in(step, nonce, outcome)) {
      case flow::Attempt::HandIn::recorded: return kernel::Taken::recorded;
      case flow::Attempt::HandIn::again: return kernel::Taken::again;
      case flow::Attempt::HandIn::not_here: break;
    }
  }
  process_->interrupt();
  const std::uint64_t chance = agent_chance_.next();
  const auto delay = [&](std::int64_t failures) { return flow::retry_delay(outcome.backoff, failures, chance); };
  const auto how =
      process_->store->write([&](db::Tx& tx) { return kernel::hand_in(tx, nonce, outcome, delay, tx.now()); });
  if (how == kernel::Taken::recorded) {
    process_->executor->ring(run);
    process_->ring();
  }
  return how;
}

void World::hand_in(const std::string& nonce) {
  Holder& holder = holders_.at(nonce);
  const kernel::HeldOutcome outcome = *holder.file;
  try {
    const auto how = take(holder.run, holder.step, nonce, outcome);
    if (chance_.one_in(2)) fibers_.yield();
    process_->peril();  // its answer is lost: it is handed in again
    ledger_.counts.add(how == kernel::Taken::recorded   ? "hand-ins"
                       : how == kernel::Taken::again    ? "hand-ins again"
                       : how == kernel::Taken::stranger ? "hand-ins of strangers"
                                                        : "hand-ins late");
    if (holder.generation != generation_ && how == kernel::Taken::recorded)
      ledger_.counts.add("hand-ins to a later agent");
    holder.phase = Holder::Phase::gone;
    holder.file.reset();
  } catch (const StorageFull&) {
    holder.hand_at = true_ + 1'000;
  }
}

// SIGKILL: what its command did, it did; nobody can say so any more.
void World::kill_holder(Holder& holder) {
  if (holder.phase == Holder::Phase::running)
    ledger_.end(ledger_.effect(holder.run, *holder.op), holder.execution, Ending::gone, true_);
  holder.phase = Holder::Phase::gone;
}

void World::kill_some_holder() {
  std::vector<Holder*> running;
  for (auto& [nonce, holder] : holders_) {
    if (holder.phase == Holder::Phase::running) running.push_back(&holder);
  }
  if (running.empty()) return;
  Holder& holder = *running[chance_.below(running.size())];
  ++ledger_.runs[holder.run.value].interruptions;
  kill_holder(holder);
  fibers_.touch();
  ledger_.counts.add("holders killed");
  say("the holder of " + of_run(holder.op->name, holder.run) + " is killed");
}

// The agent is gone, and with it, soon, its programs; with the machine everything.
void World::lose_programs(bool machine) {
  for (auto& [pid, guard] : guards_) {
    if (guard.alive) guard.gone_at = machine || chance_.one_in(2) ? true_ : true_ + chance_.between(0, 50'000);
    guard.alive = false;
    if (machine) guard.gone_at = std::min(guard.gone_at, true_);
  }
  for (auto& [nonce, holder] : holders_) {
    holder.handing = false;
    if (machine || !holder.spared) {
      kill_holder(holder);  // its file stays: it was synced before it had its name
    } else if (holder.phase == Holder::Phase::ready) {
      holder.file = kernel::HeldOutcome{};  // it was never let go, and says so
      holder.file->error = R"({"code":"NotBegun","message":"The command was not begun."})";
      holder.file->begun = false;
      holder.phase = Holder::Phase::ended;
      holder.hand_at = true_;
    }
  }
}

bool World::holders_are_gone() const {
  return std::none_of(holders_.begin(), holders_.end(), [](const auto& one) { return one.second.alive(); });
}

// Somebody lives who can say how it ended, or said so in a file: nobody is to be asked.
bool World::could_tell(RunId run, const Op& op) const {
  return std::any_of(holders_.begin(), holders_.end(), [&](const auto& one) {
    const Holder& holder = one.second;
    const bool began = holder.apply_at > 0;  // of one that was never let go nobody may know
    return holder.run == run && holder.op->index == op.index && began && (holder.alive() || holder.file);
  });
}

// -- The driver.

flow::AttemptOptions ProgramDouble::options(const kernel::VersionRow&) const {
  flow::AttemptOptions options;
  options.style = flow::Style::program;
  options.secret = "secret";
  options.outcomes = "outcomes";
  return options;
}

// One attempt, as its driver sees it.
struct ProgramDouble::Attempting {
  World& world;
  flow::Attempt& attempt;
  std::optional<BootMs> told_at = std::nullopt;
  std::optional<BootMs> idle_since = std::nullopt;
  DurationMs next_look = kLookMs;

  [[nodiscard]] bool lives(const flow::Attempt::OpenCall& call) const {
    const auto found = world.holders_.find(call.nonce);
    return found != world.holders_.end() && found->second.alive();
  }

  // Takes what dead holders left. False: one that this attempt began is gone without an outcome.
  bool look() {
    for (const auto& call : attempt.open_calls()) {
      if (!call.executing || call.holder.pid == 0 || lives(call)) continue;
      if (!attempt.executes(call.step, call.nonce)) continue;
      const bool taken = world.look_at_dead(attempt.run().id, call.step, call.nonce);
      if (taken) {
        attempt.ring();
      } else if (!call.adopted) {
        return false;
      } else {
        attempt.holder_gone(call.step, call.nonce);
      }
    }
    return true;
  }

  [[nodiscard]] int alive() const {
    const auto calls = attempt.open_calls();
    return static_cast<int>(std::count_if(calls.begin(), calls.end(), [&](const auto& call) {
      return call.executing && (call.holder.pid == 0 || lives(call));
    }));
  }

  void terminate() {
    for (const auto& call : attempt.open_calls()) {
      if (!call.executing || call.holder.pid == 0) continue;
      attempt.will_signal(call.step);
      const auto found = world.holders_.find(call.nonce);
      if (found == world.holders_.end() || found->second.phase != Holder::Phase::running) continue;
      if (world.chance_.one_in(2)) continue;  // it takes no notice
      Holder& holder = found->second;
      world.ledger_.end(world.ledger_.effect(holder.run, *holder.op), holder.execution, Ending::gone, world.true_);
      holder.file = kernel::HeldOutcome{};
      holder.file->error = R"({"code":"Signalled","message":"ended by a signal"})";
      holder.file->unknown = true;
      holder.phase = Holder::Phase::ended;
      holder.hand_at = world.true_;
    }
  }

  void end() {
    for (const auto& call : attempt.open_calls()) {
      if (call.executing && call.holder.pid != 0) world.end_holder(call.nonce);
    }
  }

  // V2. True: nothing of it executes any more.
  bool cancelled(DurationMs grace) {
    if (alive() == 0) return true;
    const BootMs now = world.clock_.boot_ms();
    if (!told_at) {
      told_at = now;
      terminate();
    }
    next_look = std::max<DurationMs>(1, *told_at + grace - now);
    if (now - *told_at < grace) return false;
    end();
    return true;
  }

  bool wants_suspension() {
    const auto calls = attempt.open_calls();
    const bool waits = !calls.empty() && std::all_of(calls.begin(), calls.end(),
                                                     [](const auto& call) { return call.waiting && !call.executing; });
    const BootMs now = world.clock_.boot_ms();
    if (!waits) {
      idle_since.reset();
      return false;
    }
    if (!idle_since) idle_since = now;
    next_look = std::max<DurationMs>(1, *idle_since + kLingerMs - now);
    return now - *idle_since >= kLingerMs;
  }
};

void ProgramDouble::let_finish(flow::Attempt& attempt) {
  Attempting one{world_, attempt};
  for (;;) {
    attempt.refresh();
    const auto why = attempt.closing();
    if (why == flow::Closing::shutdown || why == flow::Closing::lease_lost) return;
    one.next_look = kLookMs;
    (void)one.look();
    if (one.alive() == 0) return;
    if (attempt.cancel_requested() && one.cancelled(limits::kCancelGraceMs)) return;
    world_.fibers_.wait(one.next_look);
  }
}

void ProgramDouble::drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow&) {
  World& world = world_;
  const RunId run = attempt->run().id;
  const World::Driven driven(world.driven_, run, *world.process_);
  world.check_alone(run);
  const int pid = ++world.last_pid_;
  world.guards_[pid] = Guard{run};
  kernel::ProcessRow row;
  row.nonce = "guard-" + std::to_string(pid);
  row.pid = pid;
  row.pid_start = 1;
  row.boot_id = boot_id();
  struct Watched {  // however it ends: what is left is the sweep's
    ProgramDouble& driver;
    RunId run;
    int pid;
    ProcessId row = {};
    ~Watched() {
      Guard& guard = driver.world_.guards_[pid];
      if (guard.alive) guard.gone_at = driver.world_.true_;
      guard.alive = false;
      driver.mine_.erase(row);
      driver.driven_.erase(run);
      driver.left_ = true;
    }
  } watched{*this, run, pid};
  watched.row = world.process_->store->write([&](db::Tx& tx) {
    const ProcessId id = kernel::add_process(tx, attempt->fence(), row, tx.now());
    if (id.valid()) mine_[id] = true;
    if (id.valid()) driven_[run] = attempt->fence().epoch;
    return id;
  });
  if (!watched.row.valid()) attempt->close(flow::Closing::lease_lost);
  attempt->set_held_bell([&world](const ProcessKey& key) {
    for (auto& [nonce, holder] : world.holders_) holder.spared = holder.spared || holder.pid == key.pid;
  });
  struct Program {
    bool ended = false;
    std::optional<int> exit;
  };
  const auto program = std::make_shared<Program>();
  if (watched.row.valid()) {
    world.fibers_.spawn(
        [&world, attempt, program] {
          try {
            program->exit = world.program(*attempt);
          } catch (const ProgramClosed&) {
          }
        },
        [program] { program->ended = true; });
  } else {
    program->ended = true;
  }
  Attempting one{world, *attempt};
  bool crashed = false;
  for (;;) {
    attempt->refresh();
    one.next_look = kLookMs;
    if (!one.look()) {
      crashed = true;
      break;
    }
    const flow::Closing why = attempt->closing();
    if (why == flow::Closing::suspended || why == flow::Closing::lease_lost || why == flow::Closing::finished) break;
    if (why != flow::Closing::open) {
      if (one.alive() == 0 || why == flow::Closing::shutdown) break;
    } else if (attempt->cancel_requested()) {
      if (one.cancelled(limits::kCancelGraceMs)) break;
    } else if (program->ended) {
      if (one.alive() == 0) break;
    } else if (one.wants_suspension()) {
      if (attempt->try_suspend({})) {
        world.ledger_.counts.add("programs suspended");
        break;
      }
      one.idle_since.reset();
    }
    world.fibers_.wait(one.next_look);
  }
  world.conclude(*attempt, program->exit, crashed);
  while (!program->ended) world.fibers_.wait(kLookMs);
  if (!watched.row.valid()) return;
  world.process_->store->write([&](db::Tx& tx) {
    std::optional<int> code = program->exit;
    kernel::mark_stopped(tx, watched.row, code, tx.now());
  });
  world.process_->ring();
}

// The tree is gone: what becomes of the run.
void World::conclude(flow::Attempt& attempt, std::optional<int> exit, bool crashed) {
  attempt.refresh();
  switch (attempt.closing()) {
    case flow::Closing::suspended:
    case flow::Closing::lease_lost:
    case flow::Closing::finished: return;
    case flow::Closing::paused:
    case flow::Closing::shutdown:
    case flow::Closing::fault: attempt.hand_back(process_->store->now(), "", flow::Closing::finished); return;
    case flow::Closing::ending:
    case flow::Closing::cancelled: (void)attempt.finish({}); return;
    case flow::Closing::open: break;
  }
  if (attempt.cancel_requested()) {
    (void)attempt.finish({});
  } else if (crashed || !exit) {
    attempt.crash();
  } else if (*exit != 0) {
    (void)attempt.finish({std::nullopt, R"({"code":"program_failed","message":"the plan ends so"})"});
  } else {
    (void)attempt.finish({attempt.result().value_or("null"), std::nullopt});
  }
}

// K7: of the attempts before this one nothing is left but holders of steps that are `started` by them.
void World::check_alone(RunId run) {
  for (const auto& [pid, guard] : guards_) {
    if (guard.run == run && (guard.alive || guard.gone_at > true_))
      violated("I2",
               "an attempt of run " + std::to_string(run.value) + " begins beside an earlier one's processes [K7]");
  }
  for (const auto& [nonce, holder] : holders_) {
    if (holder.run != run || holder.phase != Holder::Phase::running) continue;
    process_->store->read([&, nonce = nonce](db::ReadTx& tx) {
      db::Query q(tx, "SELECT 1 FROM steps WHERE run_id = ? AND nonce = ? AND status = 'started'");
      if (!q.bind(run, nonce).next())
        violated("I2", "an attempt of run " + std::to_string(run.value) + " begins beside a holder of nothing [K7]");
    });
  }
}

// -- Rows that nobody drives [W7].

// A holder that is dead: its file is handed in. False: it left none.
bool World::look_at_dead(RunId run, std::int64_t step, const std::string& nonce) {
  const auto found = holders_.find(nonce);
  std::optional<kernel::HeldOutcome> outcome;
  if (found != holders_.end() && found->second.file && !found->second.file->unknown) outcome = found->second.file;
  if (outcome) {
    (void)take(run, step, nonce, *outcome);
    ledger_.counts.add("files taken");
  }
  process_->store->write([&](db::Tx& tx) { kernel::stop_holder(tx, nonce, tx.now()); });
  if (found != holders_.end()) found->second.file.reset();
  process_->executor->ring(run);
  process_->ring();
  return outcome.has_value();
}

void World::end_holder(const std::string& nonce) {
  const auto found = holders_.find(nonce);
  if (found != holders_.end()) {
    kill_holder(found->second);
    found->second.file.reset();
  }
  process_->store->write([&](db::Tx& tx) { kernel::stop_holder(tx, nonce, tx.now()); });
  process_->ring();
}

std::int64_t ProgramDouble::sweep(TimeMs) {
  World& world = world_;
  const auto rows = world.process_->store->read(
      [](db::ReadTx& tx) { return kernel::live_processes(tx, ProcessId(), limits::kSweepBudget); });
  left_ = false;
  std::int64_t done = 0;
  for (const kernel::ProcessRow& row : rows) {
    const auto driven = driven_.find(row.run);
    const bool looked_after = row.step && driven != driven_.end() && (row.holds || driven->second == row.epoch);
    if (mine_.contains(row.id) || looked_after) continue;
    if (!row.step) {
      const Guard& guard = world.guards_[static_cast<int>(row.pid)];
      if (guard.alive || guard.gone_at > world.true_) {
        left_ = true;
        continue;
      }
      world.process_->store->write([&](db::Tx& tx) { kernel::mark_stopped(tx, row.id, std::nullopt, tx.now()); });
    } else if (!row.holds) {
      world.end_holder(row.nonce);
    } else if (const auto found = world.holders_.find(row.nonce);
               found != world.holders_.end() && found->second.alive()) {
      left_ = true;
      continue;
    } else {
      const std::int64_t step =
          world.process_->store->read([&](db::ReadTx& tx) { return kernel::read_step(tx, *row.step)->seq; });
      (void)world.look_at_dead(row.run, step, row.nonce);
    }
    ++done;
  }
  if (done > 0) world.process_->ring();
  if (!rows.empty()) {
    const TimeMs now = world.process_->store->now();
    const bool late = world.process_->store->read([&](db::ReadTx& tx) { return kernel::previous_alive_due(tx, now); });
    if (late) world.process_->store->write([](db::Tx& tx) { kernel::mark_previous_alive(tx, tx.now()); });
  }
  return done;
}

std::optional<DurationMs> ProgramDouble::look() const {
  if (!left_) return std::nullopt;
  // What lives may die at any time, and its row tells nobody.
  return limits::kSweepIntervalMs;
}

}  // namespace bide::sim
