// Process trees and the decision to suspend, with real processes.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "agent/work/guard.h"
#include "agent/work/process_watch.h"
#include "tests/program/process_support.h"
#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::work {
namespace {

using test::eventually;
using test::running_with;

struct Tree {
  test::TempDir dir;
  std::string tag = test::unique_tag();
  SystemSpawner spawner;
  std::unique_ptr<GuardedProcess> guard;

  explicit Tree(std::string script, std::size_t marked) {
    for (auto at = script.find("TAG"); at != std::string::npos; at = script.find("TAG")) script.replace(at, 3, tag);
    GuardRequest request{.guard_executable = BIDE_EXECUTABLE,
                         .argv = {"/bin/sh", "-c", script},
                         .environment = test::attempt_environment(dir.str("sock")),
                         .cwd = dir.str(),
                         .log_path = dir.str("log")};
    guard = std::move(std::get<0>(GuardedProcess::start(spawner, request)));
    guard->go();
    eventually([&] { return running_with("." + tag).size() == marked; }, "the tree stands");
  }
  ~Tree() {
    guard->end();
    eventually([&] { return guard->poll_reports().over(); }, "the tree has ended");
  }
  [[nodiscard]] int sleeper(const std::string& number) const {
    const auto found = running_with(number + "." + tag);
    return found.empty() ? 0 : found.front();
  }
};

TEST_CASE("A process is known by its number and its start") {
  const auto self = read_process(::getpid());
  REQUIRE(self);
  CHECK(self->parent == ::getppid());
  CHECK(self->key.start > 0);
  CHECK(is_alive(self->key));
  CHECK_FALSE(is_alive({self->key.pid, self->key.start + 1}));
  CHECK_FALSE(signal_process({self->key.pid, self->key.start + 1}, SIGKILL));  // the proof is that we go on
  CHECK_FALSE(read_process(0x3fffffff));
  CHECK(boot_id().size() == 36);
}

TEST_CASE("[K6] a process that ends is seen to end before anybody can see that its descriptors are closed") {
  const auto self = read_process(::getpid()).value().key;
  CHECK_FALSE(is_ending(self));
  CHECK(is_ending({self.pid, self.start + 1}));
  CHECK(is_ending({0x3fffffff, 1}));
  for (int round = 0; round < 200; ++round) {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const Fd reads(ends[0]);
    Fd writes(ends[1]);
    SpawnRequest request{.program = "/bin/sleep", .argv = {"sleep", "1000"}, .environment = {}, .cwd = {}};
    request.descriptors = {{writes.get(), 0}};
    const auto spawned = std::move(std::get<Spawned>(spawn_process(request)));
    writes.reset();
    const bool lived = !is_ending(spawned.key);
    ::kill(spawned.key.pid, SIGKILL);
    char byte = 0;
    const ssize_t end = ::read(reads.get(), &byte, 1);
    const bool ending = is_ending(spawned.key);
    ::waitpid(spawned.key.pid, nullptr, 0);
    REQUIRE(lived);
    REQUIRE(end == 0);
    REQUIRE(ending);
    REQUIRE(is_ending(spawned.key));
  }
}

TEST_CASE("[K6] a process whose first thread has ended goes on until its last one does") {
  const test::TempDir dir;
  test::Process process({.argv = {"python3", "-c",
                                  "import ctypes, os, platform, sys, threading, time\n"
                                  "def goes_on():\n"
                                  "    while open('/proc/self/stat').read().split(') ')[1][0] != 'Z':\n"
                                  "        time.sleep(0.01)\n"
                                  "    open(sys.argv[1], 'w').close()\n"
                                  "    time.sleep(1000)\n"
                                  "threading.Thread(target=goes_on).start()\n"
                                  "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)\n",
                                  dir.str("ended")}});
  const ProcessKey key = read_process(process.pid()).value().key;
  eventually([&] { return std::filesystem::exists(dir / "ended"); }, [&] { return process.err(); });
  CHECK(read_process(key.pid)->exiting);
  CHECK_FALSE(is_ending(key));
  process.kill();
  CHECK(is_ending(key));
}

TEST_CASE("Descendants come parents first, leaves have nobody below them, and both ways of looking agree") {
  Tree tree("sh -c 'sleep 1000.TAG & sleep 1001.TAG & wait' & setsid sleep 1002.TAG & wait", 3);
  const auto below = descendants(tree.guard->key().pid);
  CHECK(below.size() == 5);
  CHECK(below.front().key == tree.guard->poll_reports().program);
  std::set<int> seen{tree.guard->key().pid};
  for (const auto& process : below) {
    CHECK(seen.contains(process.parent));
    seen.insert(process.key.pid);
  }
  CHECK(leaves(below).size() == 3);
  CHECK(members(tree.guard->scope()).size() == 5);
}

TEST_CASE("A mark tells runs, epochs and agents apart") {
  Tree tree("exec sleep 1000.TAG", 1);
  const std::string agent = tree.dir.str("sock");
  const auto found = [](AttemptMark mark) { return members({{}, std::move(mark)}).size(); };
  CHECK(found({agent, 7, 1}) == 2);  // with its guard
  CHECK(found({agent, 7, 0}) == 2);
  CHECK(found({agent, 7, 2}) == 0);
  CHECK(found({agent, 70, 0}) == 0);
  CHECK(found({agent + "x", 7, 1}) == 0);
  CHECK(found({agent, 0, 0}) == 0);
  CHECK(attempt_mark(agent, "bat_7_12_s_s").epoch == 12);
  CHECK(attempt_mark(agent, "bat_7").run == 0);
  CHECK(attempt_mark(agent, "tok_7_1_s").run == 0);
}

TEST_CASE("[A7] a process of an attempt is known as one, whatever it did to its session and environment") {
  Tree tree("sleep 1000.TAG & setsid sleep 1001.TAG & ( ( env -i setsid /bin/sleep 1002.TAG & ) & ) & wait", 3);
  for (const char* number : {"1000", "1001", "1002"}) {
    eventually([&] { return tree.sleeper(number) != 0; }, "it sleeps");
    INFO(number);
    const auto of = attempt_of(read_process(tree.sleeper(number)).value().key, tree.dir.str("sock"));
    REQUIRE(of);
    CHECK(of->token == "bat_7_1_secret");
    CHECK(of->agent == tree.dir.str("sock"));
  }
  const ProcessKey washed = read_process(tree.sleeper("1002")).value().key;
  CHECK(attempt_of(washed, tree.dir.str("sock"))->carrier == tree.guard->key());
  CHECK_FALSE(attempt_of(washed, tree.dir.str("other")));
  CHECK_FALSE(attempt_of(read_process(::getpid()).value().key, tree.dir.str("sock")));
  CHECK_FALSE(attempt_of(read_process(1).value().key, tree.dir.str("sock")));
  CHECK(environment_of(tree.sleeper("1000"), "BIDE_RUN") == "7");
  CHECK_FALSE(environment_of(tree.sleeper("1002"), "BIDE_RUN"));
}

// A shell that waits in vfork for a child stopped before its exec is in state D: that was seen here, on a busy machine.
// One that is in D for the disk goes on.
bool stands(const std::vector<ProcessInfo>& tree) {
  return std::all_of(tree.begin(), tree.end(), [&](const ProcessInfo& one) {
    return one.stopped() || (one.state == 'D' && std::any_of(tree.begin(), tree.end(), [&](const ProcessInfo& child) {
                               return child.parent == one.key.pid && child.stopped();
                             }));
  });
}

// A freeze that is given up says so: who has no turn at a processor for 0.1 s is not stopped yet.
TEST_CASE("A frozen tree stands still, again and again, and goes on after a thaw") {
  Tree tree("sleep 1000.TAG & i=0; while :; do i=$((i+1)); echo $i >count; /bin/true; done", 1);
  std::vector<ProcessInfo> frozen;
  const auto freezes = [&] {
    frozen = freeze(tree.guard->scope());
    if (stands(frozen)) return true;
    thaw(frozen);
    return false;
  };
  for (int round = 0; round < 50; ++round) {
    eventually(freezes, "all of it is stopped");
    const auto seen = members(tree.guard->scope());
    for (const auto& process : seen) UNSCOPED_INFO(process.name << " in state " << process.state);
    REQUIRE(stands(seen));
    thaw(frozen);
  }
  const auto count = [&] { return test::read_file(tree.dir / "count"); };
  eventually([&] { return count().size() > 1; }, "it counts");
  eventually(freezes, "all of it is stopped");
  CHECK(frozen.size() >= 2);
  CHECK(stands(members(tree.guard->scope())));
  const auto then = count();
  CHECK_FALSE(test::holds_within(std::chrono::milliseconds(200), [&] { return count() != then; }));
  thaw(frozen);
  eventually([&] { return count() != then; }, "it goes on");
}

// The watch asks for the time only as a number: the linger needs no waiting in a test.
TEST_CASE("An attempt is suspended when every leaf has waited for the linger") {
  Tree tree("sleep 1000.TAG & sh -c 'sleep 1001.TAG; true' & wait", 2);
  ProcessWatch watch(tree.guard->scope());
  const int a = tree.sleeper("1000");
  const int b = tree.sleeper("1001");
  using Verdict = ProcessWatch::Verdict;
  BootMs now = 1'000'000;
  CHECK(watch.look({a}, now) == Verdict::held);
  REQUIRE(watch.holders().size() == 1);
  CHECK(watch.held_by() == "held by pid " + std::to_string(b) + " sleep");
  CHECK(watch.look({a}, now += 10 * limits::kLingerMs) == Verdict::held);
  CHECK(watch.look({a, b}, now += 10) == Verdict::lingering);
  CHECK(watch.ready_at() > now);
  CHECK(watch.look({a, b}, now = watch.ready_at()) == Verdict::ready);
  CHECK(watch.held_by().empty());

  SECTION("looked at again while stopped, it stays stopped until it is ended") {
    CHECK(watch.stop_and_look([&] { return std::set<int>{a, b}; }));
    eventually([&] { return read_process(a)->stopped() && read_process(b)->stopped(); }, "all are stopped");
    watch.thaw();
    eventually([&] { return !read_process(a)->stopped(); }, "it goes on");
  }
  SECTION("an answer that went out meanwhile lets it go on, and the linger begins anew") {
    CHECK_FALSE(watch.stop_and_look([&] { return std::set<int>{a}; }));
    eventually([&] { return !read_process(a)->stopped() && !read_process(b)->stopped(); }, "it goes on");
    CHECK(watch.look({a, b}, now += 1) == Verdict::lingering);
  }
  SECTION("a verb that ends meanwhile begins the linger anew") {
    ::kill(b, SIGKILL);
    eventually([&] { return descendants(tree.guard->key().pid).size() == 2; }, "sh -c has ended too");
    CHECK(watch.look({a, b}, now) == Verdict::lingering);
  }
}

TEST_CASE("A program that uses the processor while a verb waits is not suspended") {
  Tree tree("sleep 1000.TAG & while :; do :; done", 1);
  ProcessWatch watch(tree.guard->scope());
  const int a = tree.sleeper("1000");
  BootMs now = 1'000'000;
  (void)watch.look({a}, now);
  const auto program = tree.guard->poll_reports().program;
  REQUIRE(program);
  const auto before = read_process(program->pid)->cpu_ticks;
  eventually([&] { return read_process(program->pid)->cpu_ticks > before + 1; }, "it has worked");
  CHECK(watch.look({a}, now += 10 * limits::kLingerMs) == ProcessWatch::Verdict::held);
  REQUIRE(watch.holders().size() == 1);
  CHECK(watch.holders().front().key == *program);
}

TEST_CASE("A reader of a pipe waits with its writer, and only with one that waits") {
  using Verdict = ProcessWatch::Verdict;
  BootMs now = 1'000'000;
  SECTION("a row of readers") {
    Tree tree("sleep 1000.TAG | cat | cat", 1);
    eventually([&] { return descendants(tree.guard->key().pid).size() == 4; }, "both readers are there");
    ProcessWatch watch(tree.guard->scope());
    const int a = tree.sleeper("1000");
    (void)watch.look({a}, now);
    eventually([&] { return watch.look({a}, now) == Verdict::lingering; }, [&] { return watch.held_by(); });
    CHECK(watch.look({a}, now = watch.ready_at()) == Verdict::ready);
    CHECK(watch.look({}, now) == Verdict::held);  // the writer does not wait any more
    CHECK(watch.holders().size() == 3);
  }
  SECTION("a reader of another pipe") {
    Tree tree("sleep 1000.TAG & sleep 1001.TAG | cat", 2);
    eventually([&] { return descendants(tree.guard->key().pid).size() == 4; }, "the reader is there");
    ProcessWatch watch(tree.guard->scope());
    CHECK(watch.look({tree.sleeper("1000")}, now) == Verdict::held);
    CHECK(watch.look({tree.sleeper("1000")}, now += 10 * limits::kLingerMs) == Verdict::held);
    CHECK(watch.holders().size() == 2);
  }
}

TEST_CASE("An attempt without a process is empty, not quiet") {
  ProcessWatch watch(TreeScope{{0x3fffffff, 1}, {}});
  CHECK(watch.look({}, 5) == ProcessWatch::Verdict::empty);
  CHECK_FALSE(watch.stop_and_look([] { return std::set<int>{}; }));
}

}  // namespace
}  // namespace bide::work
