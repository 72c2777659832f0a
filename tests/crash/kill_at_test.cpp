// F01 for programs: the agent is killed before its n-th write, sync, rename, unlink, connect, send or spawn, for every
// n that there is (see tests/preload/kill_at.cpp). What became of the run is a function of its journal alone.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef BIDE_KILL_AT_LIBRARY  // not under a sanitizer, which must be loaded first
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <limits>
#include <map>

#include "agent/base/fd.h"
#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

// The numbers that the preloaded library looks at.
class KillAt {
 public:
  explicit KillAt(const std::string& path) {
    write_file(path, std::string(sizeof(Shared), '\0'));
    const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) throw std::runtime_error("mmap");
    shared_ = static_cast<Shared*>(at);
  }
  ~KillAt() { ::munmap(shared_, sizeof(Shared)); }
  KillAt(const KillAt&) = delete;
  KillAt& operator=(const KillAt&) = delete;
  void arm(std::uint64_t at) {
    shared_->count.store(0);
    shared_->at.store(at);
  }
  void disarm() { shared_->at.store(0); }
  [[nodiscard]] std::uint64_t count() const { return shared_->count.load(); }

 private:
  struct Shared {
    std::atomic<std::uint64_t> at;
    std::atomic<std::uint64_t> count;
  };
  Shared* shared_ = nullptr;
};

enum class Verdict { no_run, no_intent, in_doubt, settled };

struct KilledBox {
  KilledBox() : numbers(box.folder() + "/kill-at") {
    box.program("flow",
                "bide step a --effect pure -- true\n"
                "bide step b -- sh -c 'effect b; sleep 0.2'\n"
                "bide step c --effect pure -- effect c\n"
                "bide result done:=true\n");
    box.kill_agent();
    serve();
  }
  void serve() {
    numbers.disarm();
    box.serve({{"LD_PRELOAD", BIDE_KILL_AT_LIBRARY}, {"BIDE_KILL_AT", box.folder() + "/kill-at"}});
  }
  // Points in the life of a run that nobody kills.
  std::uint64_t points() {
    numbers.arm(std::numeric_limits<std::uint64_t>::max());
    const std::int64_t run = box.start("flow");
    box.until_status(run, "completed");
    return numbers.count();
  }
  // As the file of the dead agent has it.
  Verdict of_journal(const std::string& run) const {
    if (run.empty()) return Verdict::no_run;
    const std::string step = box.sql("SELECT status FROM steps WHERE name = 'b' AND run_id = " + run);
    if (step.empty()) return Verdict::no_intent;
    // Not as the holder has it, which may end while we look: a slow machine would find no doubt at all.
    return step == "completed" ? Verdict::settled : Verdict::in_doubt;
  }
  Verdict killed_at(std::uint64_t n);

  CrashBox box;
  KillAt numbers;
};

Verdict KilledBox::killed_at(std::uint64_t n) {
  INFO("point " << n);
  const std::string before = box.sql("SELECT coalesce(max(id), 0) FROM runs");
  numbers.arm(n);
  const int status = box.ask("POST", "/v1/runs", {{"workflow", "flow"}}).first;
  const std::string run = [&] {
    const bool dead = holds_within(30s, [&] {
      return !box.agent().running() ||
             box.sql("SELECT count(*) FROM runs WHERE finished_at IS NOT NULL AND id > " + before) == "1";
    });
    CHECK(dead);
    box.kill_agent();  // a last point may not be reached any more: the run is over
    return box.sql("SELECT max(id) FROM runs WHERE id > " + before);
  }();
  if (status == 201) CHECK_FALSE(run.empty());  // what was acknowledged is there
  const Verdict verdict = of_journal(run);
  serve();
  if (verdict == Verdict::no_run) return verdict;
  const std::int64_t id = std::stoll(run);
  // A holder that lives tells the outcome. Only one of which the guard was not told yet ends with its attempt: then it
  // was not let go either, and nothing has happened.
  std::vector<Json> asked;
  eventually([&] { return !(asked = box.pending(id, "reconcile")).empty() || box.status(id) == "completed"; },
             [&] { return "neither asked nor completed: " + box.show(id).dump(); }, 60s);
  if (!asked.empty()) {
    CHECK(verdict == Verdict::in_doubt);
    CHECK(box.effects("b " + run) == 0);
    CHECK(box.effects("c " + run) == 0);
    box.answer(asked[0]["id"], {{"answer", "run"}});
  }
  box.until_status(id, "completed");
  CHECK(box.effects("b " + run) == 1);
  CHECK(box.sql("PRAGMA integrity_check") == "ok");
  return verdict;
}

void kill_at_every(std::uint64_t stride) {
  KilledBox t;
  const std::uint64_t last = t.points();
  REQUIRE(last > 20);
  std::map<Verdict, int> seen;
  for (std::uint64_t n = 1; n <= last; n += stride) ++seen[t.killed_at(n)];
  INFO("of " << last << ": " << seen[Verdict::no_run] << " before the run, " << seen[Verdict::no_intent]
             << " before the intent, " << seen[Verdict::in_doubt] << " in doubt, " << seen[Verdict::settled]
             << " settled");
  CHECK(seen[Verdict::no_intent] + seen[Verdict::in_doubt] + seen[Verdict::settled] >= 3);
  if (stride == 1) CHECK(seen[Verdict::in_doubt] >= 1);
  if (stride == 1) CHECK(seen[Verdict::settled] >= 1);
}

TEST_CASE("[F01] a program whose agent is killed at some of the points: the journal alone says what is asked") {
  kill_at_every(11);
}
TEST_CASE("[F01] a program whose agent is killed at every point there is", "[.long]") { kill_at_every(1); }

}  // namespace
}  // namespace bide::test
#endif
