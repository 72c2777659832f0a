// bide-sim: plays seeds. See README.md.
//   bide-sim                          the short lane: 1 000 seeds of 24 virtual hours
//   bide-sim --seeds 10000            more of them
//   bide-sim --seed 17 [--acts 240]   one, told act by act; --keep DIR leaves its bide.db there
//   bide-sim --planted all            each planted bug until it is caught (a build with BIDE_PLANTED_BUGS); or one by
//   name bide-sim --twice 100              each seed twice: the files must be the same
#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/planted.h"
#include "tests/sim/world.h"
#include "tests/support/temp_dir.h"

namespace bide::sim {
namespace {

struct Arguments {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1'000;
  int hours = 24;
  int threads = 2;
  std::int64_t acts = -1;
  std::string keep_in;
  std::string planted;
  bool one = false;
  bool twice = false;
};

// A migrated file without a run, made once: each seed begins with a copy of it.
std::string empty_file(const std::string& directory) {
  test::VfsShim disk("sim-template");
  test::FakeClock clock;
  db::StoreOptions options;
  options.directory = directory;
  options.threaded = false;
  options.vfs = disk.name();
  { const db::Store store(std::move(options), clock); }
  return disk.content(directory + "/bide.db");
}

class Lane {
 public:
  Lane(const Arguments& arguments, const std::string& directory)
      : arguments_(arguments), directory_(directory), empty_(empty_file(directory_ + "/t")) {}

  Report play(std::uint64_t seed, std::int64_t acts, int thread, bool tell) const {
    WorldOptions options;
    options.seed = seed;
    options.hours = arguments_.hours;
    options.acts = acts;
    options.directory = directory_ + "/" + std::to_string(thread);
    options.disk_name = "sim-" + std::to_string(thread);
    options.empty_file = empty_;
    options.tell = tell;
    if (tell) options.keep_in = arguments_.keep_in;
    return World(std::move(options)).run();
  }

  bool run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < arguments_.threads; ++t) threads.emplace_back([this, t] { work(t); });
    for (auto& thread : threads) thread.join();
    return failed_.load() == 0;
  }

  [[nodiscard]] std::uint64_t played() const { return played_.load(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::int64_t acts() const { return acts_; }

 private:
  void work(int thread) {
    for (;;) {
      const std::uint64_t n = next_.fetch_add(1);
      if (n >= arguments_.seeds || failed_.load() > 0) return;
      const std::uint64_t seed = arguments_.first + n;
      Report report = play(seed, arguments_.acts, thread, false);
      if (!report.violation && arguments_.twice) {
        const Report second = play(seed, arguments_.acts, thread, false);
        if (second.digest != report.digest || second.acts != report.acts)
          report.violation = Violation{"I11", "the same seed gave another file"};
      }
      played_.fetch_add(1);
      const std::lock_guard lock(mutex_);
      acts_ += report.acts;
      for (const auto& [name, count] : report.counts.by_name) counts_.add(name, count);
      if (report.violation) tell_failure(seed, report, thread);
    }
  }

  // The shortest life that fails: faults and operators end after fewer acts.
  void tell_failure(std::uint64_t seed, Report report, int thread) {
    failed_.fetch_add(1);
    std::int64_t acts = report.acts;
    for (std::int64_t step = acts / 2; step > 0 && report.violation->invariant != "I11";) {
      const Report shorter = acts > step ? play(seed, acts - step, thread, false) : Report{};
      if (shorter.violation) {
        acts -= step;
        report.violation = shorter.violation;
      } else {
        step /= 2;
      }
    }
    std::fprintf(stderr, "VIOLATION %s: %s\n  again: bide-sim --seed %llu --acts %lld\n",
                 report.violation->invariant.c_str(), report.violation->what.c_str(),
                 static_cast<unsigned long long>(seed), static_cast<long long>(acts));
  }

  const Arguments arguments_;
  const std::string directory_;
  const std::string empty_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> played_{0};
  std::atomic<int> failed_{0};
  std::mutex mutex_;
  Counts counts_;
  std::int64_t acts_ = 0;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&]() -> long long { return i + 1 < argc ? std::atoll(argv[++i]) : 0; };
    if (option == "--seed") {
      arguments.first = static_cast<std::uint64_t>(value());
      arguments.one = true;
    } else if (option == "--first") {
      arguments.first = static_cast<std::uint64_t>(value());
    } else if (option == "--seeds") {
      arguments.seeds = static_cast<std::uint64_t>(value());
    } else if (option == "--hours") {
      arguments.hours = static_cast<int>(value());
    } else if (option == "--threads") {
      arguments.threads = static_cast<int>(value());
    } else if (option == "--keep") {
      arguments.keep_in = i + 1 < argc ? argv[++i] : ".";
    } else if (option == "--planted") {
      arguments.planted = i + 1 < argc ? argv[++i] : "all";
    } else if (option == "--acts") {
      arguments.acts = value();
    } else if (option == "--twice") {
      arguments.twice = true;
      arguments.seeds = static_cast<std::uint64_t>(value());
    } else {
      std::fprintf(stderr, "unknown: %s\n", argv[i]);
      std::exit(2);
    }
  }
  return arguments;
}

// BIDE_PLANTED() of each bug, until a check sees it. What is not caught within kPlantedSeeds is told, and fails.
#if defined(BIDE_PLANTED_BUGS)
constexpr std::uint64_t kPlantedSeeds = 200;  // the rarest need a worker that dies in the middle of a task

int play_planted(const Arguments& arguments, const Lane& lane) {
  struct Bug {
    const char* name;
    const char* rule;
    const char* what;
  };
#define BIDE_PLANTED_ROW(name, rule, what) Bug{#name, rule, what},
  static constexpr Bug kBugs[] = {BIDE_PLANTED_LIST(BIDE_PLANTED_ROW)};
#undef BIDE_PLANTED_ROW
  int missed = 0;
  for (const Bug& bug : kBugs) {
    if (arguments.planted != "all" && arguments.planted != bug.name) continue;
    (void)plant(bug.name);
    Report caught;
    std::uint64_t seed = arguments.first;
    for (; seed < arguments.first + kPlantedSeeds; ++seed) {
      caught = lane.play(seed, arguments.acts, 0, false);
      if (caught.violation) break;
    }
    if (caught.violation) {
      std::printf("%-26s %-4s seed %-4llu %-4s %s\n", bug.name, bug.rule, static_cast<unsigned long long>(seed),
                  caught.violation->invariant.c_str(), caught.violation->what.c_str());
    } else {
      std::printf("%-26s %-4s NOT CAUGHT: %s\n", bug.name, bug.rule, bug.what);
      ++missed;
    }
    std::fflush(stdout);
    (void)plant("none");
  }
  return missed == 0 ? 0 : 1;
}
#else
int play_planted(const Arguments&, const Lane&) {
  std::printf("this build has no planted bugs: cmake --preset planted\n");
  return 2;
}
#endif

// I12: what must have happened, in a hundred seeds. Less says that something is not exercised any more.
constexpr std::uint64_t kFloorSeeds = 200;
constexpr std::pair<const char*, std::int64_t> kFloors[] = {
    {"effects", 700},
    {"executions again", 250},
    {"crashes", 200},
    {"full disks", 20},
    {"clock steps", 20},
    {"shutdowns", 20},
    {"cancels", 30},
    {"retries", 30},
    {"pauses", 20},
    {"calls", 200},
    {"tasks", 200},
    {"compensations", 40},
    {"deliveries", 100},
    {"deliveries again", 10},
    {"doubts that ran", 15},
    {"doubts that did not run", 3},
    {"probes", 10},
    {"races won by either", 40},
    {"races won by late", 40},
    {"races won by signal", 20},
    {"signals read", 80},
    {"commands again", 20},
    {"told again", 60},
    {"branches", 200},
    {"states", 60},
    {"held executions", 100},
    {"hand-ins", 60},
    {"hand-ins to a later agent", 5},
    {"programs suspended", 60},
    {"holders killed", 2},
    {"forks", 10},
    {"copied results", 5},
    {"event run.continued", 10},
    {"event step.lapsed", 1},
    {"event run.abandoned", 40},
    {"runs completed", 300},
    {"runs failed", 60},
    {"runs cancelled", 40},
    {"waits approval expired", 30},
};

bool reached_floors(const Counts& counts, std::uint64_t seeds) {
  bool all = true;
  for (const auto& [name, floor] : kFloors) {
    const auto found = counts.by_name.find(name);
    const std::int64_t count = found == counts.by_name.end() ? 0 : found->second;
    if (count * 100 >= floor * static_cast<std::int64_t>(seeds)) continue;
    std::fprintf(stderr, "FLOOR [I12] %s: %lld in %llu seeds, at least %lld in 100\n", name,
                 static_cast<long long>(count), static_cast<unsigned long long>(seeds), static_cast<long long>(floor));
    all = false;
  }
  return all;
}

int main_of(int argc, char** argv) {
  // Disks and stacks come and go with each seed: the system would be given their pages back, and asked for them again.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const Arguments arguments = parse(argc, argv);
  // A crash is no error here: what the agent logs of it says nothing that the ledger does not.
  log::set_level(arguments.one ? log::Level::warn : log::Level::off);
  const test::TempDir directory;
  Lane lane(arguments, directory.str());
  SystemClock clock;
  const BootMs begin = clock.boot_ms();
  if (!arguments.planted.empty()) return play_planted(arguments, lane);
  if (arguments.one) {
    const Report report = lane.play(arguments.first, arguments.acts, 0, true);
    for (const auto& [name, count] : report.counts.by_name)
      std::printf("%10lld  %s\n", static_cast<long long>(count), name.c_str());
    std::printf("%lld acts, digest %s\n", static_cast<long long>(report.acts), report.digest.c_str());
    if (!report.violation) return 0;
    std::printf("VIOLATION %s: %s\n", report.violation->invariant.c_str(), report.violation->what.c_str());
    return 1;
  }
  bool good = lane.run();
  const double seconds = static_cast<double>(clock.boot_ms() - begin) / 1000.0;
  for (const auto& [name, count] : lane.counts().by_name)
    std::printf("%10lld  %s\n", static_cast<long long>(count), name.c_str());
  if (good && arguments.seeds >= kFloorSeeds) good = reached_floors(lane.counts(), arguments.seeds);
  std::printf("%llu seeds of %d h, %lld acts, %.1f s, %.0f seeds a minute\n",
              static_cast<unsigned long long>(lane.played()), arguments.hours, static_cast<long long>(lane.acts()),
              seconds, static_cast<double>(lane.played()) * 60.0 / std::max(seconds, 0.001));
  return good ? 0 : 1;
}

}  // namespace
}  // namespace bide::sim

int main(int argc, char** argv) { return bide::sim::main_of(argc, argv); }
