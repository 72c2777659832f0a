#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>

#include "agent/base/hash.h"
#include "agent/base/limits.h"
#include "tests/support/temp_dir.h"

namespace bide::sim {
namespace {

constexpr DurationMs kSecond = 1'000;
constexpr DurationMs kMinute = 60 * kSecond;
constexpr DurationMs kHour = 60 * kMinute;
constexpr TimeMs kBegin = 1'798'761'600'000;  // 2027-01-01T00:00:00Z

}  // namespace

World::World(WorldOptions options)
    : options_(std::move(options)),
      chance_(options_.seed * 2 + 1),
      agent_chance_(options_.seed ^ 0x5eed'5eed'5eedULL),
      disk_(options_.disk_name, options_.seed),
      fibers_(chance_.random()) {
  first_violation().reset();
  disk_.put(options_.directory + "/bide.db", options_.empty_file);
  wall_base_ = kBegin;
  boot_base_ = kHour;
  end_ = options_.hours * kHour;
}

World::~World() {
  if (process_) process_->let_go();
  fibers_.kill();
  process_.reset();
}

void World::tell(const std::string& what) {
  std::fprintf(stderr, "%8lld %12.3f s  %s\n", static_cast<long long>(acts_), static_cast<double>(true_) / 1000.0,
               what.c_str());
}

Report World::run() {
  Report report;
  try {
    live();
    bring_to_an_end();
    check_end();
    fibers_.kill();    // a worker may still be at a task of a run that was cancelled
    process_.reset();  // an orderly close
    report.digest = to_hex(sha256(disk_.content(options_.directory + "/bide.db")));
  } catch (const Violation&) {
  } catch (const std::exception& e) {
    if (!first_violation()) first_violation() = Violation{"I8", std::string("thrown: ") + e.what()};
  }
  report.violation = first_violation();
  if (!options_.keep_in.empty()) {
    for (const char* name : {"bide.db", "bide.db-wal"})
      test::write_file(options_.keep_in + "/" + name, disk_.content(options_.directory + "/" + name));
  }
  report.acts = acts_;
  report.counts = ledger_.counts;
  return report;
}

void World::live() {
  operator_at_ = chance_.between(0, kMinute);
  mishap_at_ = chance_.between(kMinute, 4 * kHour);
  start_process();
  while (true_ < end_ && (options_.acts < 0 || acts_ < options_.acts)) act();
}

// The next thing that happens: something is due in the agent, somebody does something, or something goes wrong.
void World::act() {
  ++acts_;
  next_moment();
  if (full_until_ != 0 && true_ >= full_until_) free_disk();
  if (faults_ && true_ >= mishap_at_) {
    mishap();
    mishap_at_ = true_ + chance_.between(kMinute, 5 * kHour);
  }
  if (true_ >= operator_at_) {
    fibers_.spawn([this] { operate(); });
    operator_at_ = true_ + (chance_.one_in(4) ? chance_.between(0, kSecond) : chance_.between(kSecond, 100 * kMinute));
  }
  move_holders();
  if (!process_->settle()) crash();
  if (first_violation()) throw Violation{*first_violation()};
  check();
}

void World::next_moment() {
  const TimeMs agent = true_ + std::max<DurationMs>(0, process_->next_look() - clock_.boot_ms());
  TimeMs next = std::min(agent, operator_at_);
  if (const auto holders = holders_next()) next = std::min(next, *holders);
  if (faults_) next = std::min(next, mishap_at_);
  if (full_until_ != 0) next = std::min(next, full_until_);
  next = std::max(next, true_);
  true_ = next;
  clock_.set_boot(boot_base_ + true_);
  clock_.set_wall(wall_base_ + true_);
}

void World::start_process() {
  for (;;) {
    ProcessSettings settings;
    settings.directory = options_.directory;
    settings.generation = ++generation_;
    settings.code = [this](flow::Context& context) { return code(context); };
    settings.undo = [this](const flow::UndoInfo& info) { return undo(info); };
    settings.task = [this](const std::string& request, const flow::EffectInfo& info) { return task(request, info); };
    programs_ = std::make_unique<ProgramDouble>(*this);
    settings.programs = programs_.get();
    settings.receive = [this](const work::Envelope& envelope) { return receive(envelope); };
    clock_.set_boot(boot_base_ + true_);
    clock_.set_wall(wall_base_ + true_);
    fibers_.set_now(clock_.boot_ms());
    process_ = std::make_unique<Process>(settings, disk_, clock_, fibers_, agent_chance_);
    if (!process_->dead() && process_->settle()) break;
    crash();
    return;
  }
  check_whole();
}

// The process is gone: killed, or with the machine. What was not synced may be lost with the machine only.
void World::crash() {
  ledger_.counts.add("crashes");
  process_->die();
  for (const auto& [run, times] : driven_) {  // before their frames are unwound
    if (times > 0) ++ledger_.runs[run].interruptions;
  }
  process_->let_go();
  disk_.limit(0);
  full_until_ = 0;
  const bool machine = disk_.power_is_cut() || chance_.one_in(3);
  const auto loss = !machine ? test::Loss::none : chance_.one_in(2) ? test::Loss::all : test::Loss::some;
  disk_.crash(loss, chance_.next());
  fibers_.kill();
  lose_programs(machine);
  process_.reset();
  if (first_violation()) throw Violation{*first_violation()};
  ledger_.process_died();
  driven_.clear();
  say(machine ? "the machine lost its power" : "the process was killed");
  true_ += chance_.one_in(3) ? chance_.between(kSecond, 2 * kHour) : chance_.between(100, kMinute);
  if (machine) boot_base_ = chance_.between(kSecond, kMinute) - true_;
  start_process();
}

void World::mishap() {
  const auto dice = chance_.below(100);
  if (dice < 35) {
    say("the process is killed somewhere in what it does next");
    process_->set_peril(1 + chance_.below(12));
  } else if (dice < 70) {
    const std::uint64_t nth = 1 + chance_.below(60);
    say("the power goes at change " + std::to_string(nth));
    disk_.cut_power_at(nth);
  } else if (dice < 75) {
    kill_some_holder();
  } else if (dice < 80) {
    process_->die();
  } else if (dice < 88) {
    step_clock();
  } else if (dice < 94) {
    fill_disk();
  } else {
    say("shut down");
    ledger_.counts.add("shutdowns");
    for (const auto& [run, times] : driven_) {
      if (times > 0) ++ledger_.runs[run].interruptions;
    }
    process_->sweep->stop();
    try {
      process_->executor->stop();
    } catch (const Killed&) {  // the power went meanwhile
    }
    process_->die();
  }
}

void World::fill_disk() {
  const std::string reserve = options_.directory + "/bide.reserve";
  disk_.limit(0, reserve);
  disk_.limit(disk_.used() + chance_.below(96 << 10), reserve);
  full_until_ = true_ + chance_.between(kSecond, 40 * kSecond);
  process_->set_full(true);
  ledger_.counts.add("full disks");
  say("the disk is full");
}

void World::free_disk() {
  if (full_until_ == 0) return;
  disk_.limit(0);
  full_until_ = 0;
  // It finds out with the next write, a second after its last probe at most: a person looks whether it works again.
  true_ += 2 * kSecond;
  clock_.set_boot(boot_base_ + true_);
  clock_.set_wall(wall_base_ + true_);
  if (process_->dead()) return;
  try {
    process_->store->flush_riders();
  } catch (const Killed&) {
    return;
  } catch (const StorageFull&) {
    violated("I8", "the disk has room, and nothing is written");
  }
  process_->set_full(false);
  process_->ring();
  say("the disk has room again");
}

bool World::cramped() const { return full_until_ != 0 || process_->store->health().storage_full; }

void World::step_clock() {
  static constexpr DurationMs kSteps[] = {1'500, 30 * kSecond, 5 * kMinute, 3 * kHour, 40 * 24 * kHour};
  const DurationMs size = kSteps[chance_.below(5)];
  const bool back = chance_.one_in(2);
  wall_base_ += back ? -size : size;
  clock_.set_wall(wall_base_ + true_);
  ++clock_jumps_;
  ledger_.clock_stepped = true;
  process_->ring();  // the alarms see a step of the wall clock at once [C6]
  ledger_.counts.add("clock steps");
  say("the wall clock steps by " + std::to_string(back ? -size : size));
}

// Nothing goes wrong any more and people answer: all runs must come to their ends [I8].
void World::bring_to_an_end() {
  say("no more faults");
  faults_ = false;
  free_disk();
  process_->set_peril(0);
  disk_.cut_power_at(0);
  operator_at_ = INT64_MAX / 4;
  wall_base_ = process_->store->now() - true_;  // somebody sets the clock right: to where the agent is
  clock_.set_wall(wall_base_ + true_);
  process_->store->clock().accept_wall();
  process_->ring();
  for (int round = 0; round < 4'000; ++round) {
    ++acts_;
    const auto live = live_runs();
    if (live.empty() && holders_are_gone() && process_->store->read([](db::ReadTx& tx) {
          db::Query q(tx, "SELECT count(*) FROM outbox WHERE parked_at IS NULL");
          return q.one().integer(0);
        }) == 0) {
      return;
    }
    fibers_.spawn([this] {
      resume_all();
      decide(true);
      send_signal(true);
    });
    move_holders();
    if (!process_->settle()) crash();
    if (first_violation()) throw Violation{*first_violation()};
    check();
    next_moment();
  }
  const auto left = live_runs();
  if (left.empty() && !holders_are_gone()) violated("I2", "the command of a step is there, and its run has ended [W7]");
  if (left.empty()) violated("I5", "what is in the outbox is not delivered");
  violated("I8", std::to_string(left.size()) + " runs do not come to an end, the first is " +
                     std::to_string(left.front().value));
}

}  // namespace bide::sim
