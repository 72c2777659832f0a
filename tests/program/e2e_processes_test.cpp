// What becomes of a program's processes, and of its run when the box lacks something, on a whole agent [K7, E8, X1].
#include <sys/resource.h>
#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

namespace {

// Three ways to leave one's tree. Each attempt first looks whether any of the attempt before is alive.
const char* const kEscapes =
    "for p in $(cat $OUT/pids 2>/dev/null || true); do\n"
    "  [ -d /proc/$p ] && echo $p >> $OUT/overlap\ndone\n"
    "rm -f $OUT/pids\necho attempt >> $OUT/attempts\n"
    "setsid sh -c 'echo $$ >> \"$1\"/pids; exec sleep 300.TAG' s $OUT &\n"
    "sh -c 'setsid sh -c \"echo \\$\\$ >> $1/pids; exec sleep 301.TAG\" & exit 0' s $OUT\n"
    "env -i PATH=$PATH setsid sh -c 'trap \"\" TERM INT HUP; echo $$ >> \"$1\"/pids; sleep 302.TAG; sleep 303.TAG' s "
    "$OUT &\n"
    "until [ $(wc -l < $OUT/pids) -eq 3 ]; do sleep 0.02; done\n";

}  // namespace

TEST_CASE("[N111] e2e: timeout, setsid and a background of waits: suspended as a whole, nothing is left [K7]") {
  Box box;
  box.program(
      "waits",
      "( export BIDE_BRANCH=eu; setsid -w timeout 600 bide wait approval EU --name eu; echo eu >> $OUT/done ) &\n"
      "timeout 600 bide wait approval US --name us\necho us >> $OUT/done\nwait\nbide result done:=true\n");
  const std::string run = box.start("waits");
  box.suspended(run);
  box.restart();
  box.suspended(run);
  CHECK(box.lines("done") == 0);
  const Json inbox = box.json({"inbox"});
  REQUIRE(inbox["items"].size() == 2);
  for (const Json& wait : inbox["items"]) {
    CHECK(box.bide({"approve", std::to_string(wait["id"].get<int>())}).exit.code == 0);
  }
  box.comes_to(run, "completed");
}

TEST_CASE("[N111] e2e: daemons hold the run and are named, and are gone after a cancel [K7, X1]") {
  Box box;
  box.program("daemons", std::string(kEscapes) + "timeout 600 bide wait approval 'Go?'\necho after >> $OUT/after\n");
  const std::string run = box.start("daemons");
  box.wait_of(run);
  eventually(
      [&] {
        return box.bide({"explain", run}).out.find("sleep") != std::string::npos;
      },
      [&] {
        return "explain names who holds it: " + box.bide({"explain", run}).out;
      });
  CHECK(box.status(run) == "running");
  CHECK(box.left().size() >= 4);
  CHECK(box.bide({"cancel", run}).exit.code == 0);
  box.comes_to(run, "cancelled");
  box.nothing_left();
  CHECK(box.lines("after") == 0);
}

TEST_CASE("[N111] e2e: the agent dies or stops: nothing is left, and no attempt starts before that [K7]") {
  Box box;
  box.program("daemons", std::string(kEscapes) + "timeout 600 bide wait approval 'Go?'\nbide result done:=true\n");
  const std::string run = box.start("daemons");
  const auto attempts = [&](int count) {
    eventually([&] { return box.lines("attempts") == count && box.lines("pids") == 3; },
               [&] { return std::to_string(count) + " attempts, seen " + box.text("attempts"); });
  };
  attempts(1);
  box.restart();  // at once: the dead agent's guard is still at work
  attempts(2);
  box.stop_agent();
  box.nothing_left();
  box.serve();
  attempts(3);
  CHECK(box.text("overlap").empty());
  box.decide(run, "approve");
  box.comes_to(run, "completed");
  box.nothing_left();
}

TEST_CASE("[N90] e2e: cancel of a run whose step runs: its command gets TERM, the program nothing [V2, X1]") {
  Box box;
  box.program("runs",
              "trap 'echo cleaned >> $OUT/cleaned' EXIT TERM INT\n"
              "bide step long -- sh -c 'trap \"echo term >> $1/term; exit 0\" TERM; echo x >> \"$1\"/began; "
              "while :; do sleep 0.05; done' long $OUT || true\n"
              "echo after >> $OUT/after\n");
  box.program("stubborn",
              "bide step long -- sh -c 'trap \"\" TERM; echo x >> \"$1\"/stubborn; while :; do sleep 0.05; done' long "
              "$OUT || true\n"
              "echo after >> $OUT/after\n");
  const std::string stubborn = box.start("stubborn");
  const std::string run = box.start("runs");
  eventually([&] { return box.lines("began") == 1 && box.lines("stubborn") == 1; }, "both steps run");
  CHECK(box.bide({"cancel", stubborn}).exit.code == 0);
  CHECK(box.bide({"cancel", run}).exit.code == 0);
  CHECK(box.bide({"cancel", run}).exit.code != 1);  // told again, or already cancelled
  const auto begin = std::chrono::steady_clock::now();
  box.comes_to(run, "cancelled");
  CHECK(std::chrono::steady_clock::now() - begin < 9s);  // not the grace of those that ignore it
  CHECK(box.lines("term") == 1);
  box.comes_to(stubborn, "cancelled");
  box.nothing_left();
  CHECK(box.lines("cleaned") == 0);
  CHECK(box.lines("after") == 0);
  CHECK(box.bide({"cancel", run}).exit.code == 4);
}

TEST_CASE("[N81] e2e: a program whose file is gone goes on from its pinned tree, a new start is 404") {
  Box box;
  write_file(box.flows() + "/job/lib.sh", "colour=blue\n");
  box.program("job/main", ". \"$(dirname \"$0\")/lib.sh\"\nbide wait approval 'Go?'\nbide result colour=$colour\n");
  const std::string run = box.start("job");
  box.suspended(run);
  std::filesystem::remove_all(box.flows() + "/job");
  box.program("jobs", "true\n");
  const Finished gone = box.bide({"run", "job"});
  CHECK(gone.exit.code == 3);
  CHECK(gone.err.find("workflow_unknown") != std::string::npos);
  CHECK(gone.err.find("jobs") != std::string::npos);  // the nearest one
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"colour", "blue"}});
}

TEST_CASE("[N129] e2e: a workspace that cannot be written: queued with a reason, and it runs when it can be [E8]") {
  Box box;
  box.program("small", "bide step one -- sh -c 'echo x >> \"$1\"' one $OUT/one\nbide result done:=true\n");
  write_file(box.data() + "/workspaces", "in the way");
  const std::string run = box.start("small");
  eventually([&] { return box.show(run)["reason"] == "workspace_failed"; }, [&] { return box.show(run).dump(1); });
  CHECK(box.status(run) == "queued");
  CHECK(box.bide({"explain", run}).out.find("workspace") != std::string::npos);
  CHECK(box.lines("one") == 0);
  std::filesystem::remove(box.data() + "/workspaces");
  box.comes_to(run, "completed");
  CHECK(box.lines("one") == 1);
}

TEST_CASE("[N129] e2e: a spawn that fails: queued with a reason, and it runs when it can be [E8]") {
  const TempDir bin;
  std::filesystem::copy_file(BIDE_EXECUTABLE, bin / "bide");
  std::filesystem::copy_file(BIDE_AGENT_EXECUTABLE, bin / "bide-agent");
  Box box(bin.str("bide"));
  box.program("small", "bide step one -- sh -c 'echo x >> \"$1\"' one $OUT/one\nbide result done:=true\n");
  // The command line of this test is the other executable: the front is what spawns look for.
  std::filesystem::rename(bin / "bide", bin / "away");
  const auto ask = [&](std::vector<std::string> words) {
    words.insert(words.begin(), bin.str("bide-agent"));
    return run({.argv = std::move(words), .env = {{"BIDE_AGENT", box.socket()}}});
  };
  const Finished started = ask({"run", "small"});
  INFO(started.err);
  REQUIRE(started.exit.code == 0);
  const std::string run = started.out.substr(0, started.out.size() - 1);
  Json seen;
  eventually(
      [&] {
        seen = Json::parse(ask({"show", run, "--json"}).out);
        return seen["reason"] == "spawn_failed";
      },
      [&] { return seen.dump(1); });
  CHECK(seen["status"] == "queued");
  CHECK(box.lines("one") == 0);
  std::filesystem::rename(bin / "away", bin / "bide");
  box.comes_to(run, "completed");
  CHECK(box.lines("one") == 1);
}

// The agent gets no new descriptor for as long as this lives; those that it has stay.
class WithoutDescriptors {
 public:
  explicit WithoutDescriptors(pid_t agent) : agent_(agent) {
    REQUIRE(::prlimit(agent_, RLIMIT_NOFILE, nullptr, &before_) == 0);
    // Its first four are in use for as long as it lives. (poll refuses to look at more than the limit: not zero.)
    for (int fd = 0; fd < kFirst; ++fd) {
      REQUIRE(std::filesystem::is_symlink("/proc/" + std::to_string(agent_) + "/fd/" + std::to_string(fd)));
    }
    const rlimit none{kFirst, before_.rlim_max};
    REQUIRE(::prlimit(agent_, RLIMIT_NOFILE, &none, nullptr) == 0);
  }
  ~WithoutDescriptors() { ::prlimit(agent_, RLIMIT_NOFILE, &before_, nullptr); }
  WithoutDescriptors(const WithoutDescriptors&) = delete;
  WithoutDescriptors& operator=(const WithoutDescriptors&) = delete;

 private:
  static constexpr int kFirst = 4;
  const pid_t agent_;
  rlimit before_{};
};

TEST_CASE("[N129] e2e: no descriptors left: queued with a reason, what runs goes on, and all ends well [E8]") {
  Box box;
  box.program("small", "bide step one -- sh -c 'echo x >> \"$1\"' one $OUT/one\nbide result done:=true\n");
  // A step that executes beside a wait: the tree is looked at again and again.
  box.program("long",
              "( until [ -e $OUT/two ]; do sleep 0.02; done; BIDE_BRANCH=b bide wait approval 'Go?' ) &\n"
              "bide step two -- sh -c 'echo x >> \"$1\"/two; until [ -e \"$1\"/go ]; do sleep 0.02; done' two $OUT\n"
              "wait\nbide result done:=true\n");
  box.program("soon",
              "bide sleep 6s\nbide step one -- sh -c 'echo x >> \"$1\"' one $OUT/soon\nbide result done:=true\n");
  const std::string runs = box.start("long");
  eventually([&] { return box.lines("two") == 1; }, "a step executes");
  (void)box.wait_of(runs);
  const auto row = [&](const std::string& run, const std::string& column) {
    const Json rows = box.sql("SELECT " + column + " AS it FROM runs WHERE id = " + run);
    return rows[0][0];
  };
  // Suspended by its first attempt, and not yet claimed again; nothing of it is left: without descriptors nobody could
  // see that, and it would not be claimed [K7].
  const auto asleep = [&](const std::string& run) {
    const Json rows = box.sql(
        "SELECT status = 'queued' AND epoch = 1 AND NOT EXISTS (SELECT 1 FROM processes WHERE run_id = runs.id AND "
        "status <> 'stopped') AS it FROM runs WHERE id = " +
        run);
    return rows[0][0] == 1;
  };
  const auto reasons = [&](const std::string& run) {
    return box.sql("SELECT count(*) AS n FROM events WHERE kind = 'run.handed_back' AND run_id = " + run +
                   " AND payload LIKE '%\"reason\":\"_%'")[0][0];
  };
  std::vector<std::string> sleepers;
  {
    std::optional<WithoutDescriptors> none;
    // It sleeps when they are taken away. On a slow machine it may have woken by then, or even ended: another one.
    eventually(
        [&] {
          none.reset();
          sleepers.push_back(box.start("soon"));
          if (!holds_within(20s * kSlower, [&] { return asleep(sleepers.back()); })) return false;
          none.emplace(box.agent().pid());
          return asleep(sleepers.back());
        },
        "one sleeps", 60s);
    const std::string& soon = sleepers.back();
    // It wakes by itself, and cannot be started: queued, with a reason, and tried again after a while.
    eventually([&] { return reasons(soon) >= 1; }, [&] { return box.sql("SELECT * FROM events").dump(1); });
    CHECK(row(soon, "status") == "queued");
    CHECK(row(soon, "reason").is_string());
    CHECK(row(runs, "status") == "running");
    // The step that runs is looked at meanwhile, and is not taken for killed.
    CHECK_FALSE(holds_within(2s, [&] { return row(runs, "status") != "running"; }));
    CHECK(row(runs, "error").is_null());
    box.touch("go");
  }
  box.decide(runs, "approve");
  CHECK(box.comes_to(runs, "completed")["result"] == Json{{"done", true}});
  for (const std::string& soon : sleepers) CHECK(box.comes_to(soon, "completed")["result"] == Json{{"done", true}});
  box.comes_to(box.start("small"), "completed");
  CHECK(box.lines("one") == 1);
  CHECK(box.lines("two") == 1);
  CHECK(box.lines("soon") == static_cast<int>(sleepers.size()));
  CHECK(box.agent().running());
}

}  // namespace bide::test
