// The guard with real processes: nothing of an attempt is left, whoever dies first [K7, N111].
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include <catch2/catch.hpp>

#include "agent/work/guard.h"
#include "tests/program/process_support.h"
#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::work {
namespace {

using std::chrono::milliseconds;
using test::eventually;
using test::running_with;

struct Attempt {
  test::TempDir dir;
  std::string tag = test::unique_tag();
  SystemSpawner spawner;
  std::unique_ptr<GuardedProcess> guard;

  explicit Attempt(const std::string& script) : Attempt(std::vector<std::string>{"/bin/sh", "-c", script}) {}
  explicit Attempt(std::vector<std::string> argv) {
    for (auto& argument : argv) {
      for (auto at = argument.find("TAG"); at != std::string::npos; at = argument.find("TAG"))
        argument.replace(at, 3, tag);
    }
    GuardRequest request;
    request.guard_executable = BIDE_EXECUTABLE;
    request.argv = std::move(argv);
    request.environment = test::attempt_environment(dir.str("agent.sock"));
    request.cwd = dir.str();
    request.log_path = dir.str("log");
    auto outcome = GuardedProcess::start(spawner, request);
    REQUIRE(std::holds_alternative<std::unique_ptr<GuardedProcess>>(outcome));
    guard = std::move(std::get<std::unique_ptr<GuardedProcess>>(outcome));
  }
  ~Attempt() {  // nothing may outlive a failed test
    if (guard) guard->end();
    for (const int pid : running_with(tag)) ::kill(pid, SIGKILL);
  }
  void wait_for_marked(std::size_t count) {
    eventually([&] { return running_with(tag).size() == count; },
               [&] { return std::to_string(running_with(tag).size()) + " marked processes, log: " + log(); });
  }
  void wait_until_over() {
    eventually([&] { return guard->poll_reports().over(); }, "the guard says that all are gone");
  }
  [[nodiscard]] std::string log() const { return test::read_file(dir / "log"); }
};

// Three ways out of a tree: a group of its own, a daemon that forked twice, and a daemon that also washed its
// environment. The fourth is the plain child.
const std::string kEscapes =
    "sleep 300.TAG & "
    "setsid sleep 301.TAG & "
    "( ( setsid sleep 302.TAG </dev/null >/dev/null 2>&1 & ) & ) & "
    "( ( env -i setsid /bin/sleep 303.TAG </dev/null >/dev/null 2>&1 & ) & ) & ";

TEST_CASE("A program starts only after go, in the folder and with exactly the environment given") {
  Attempt attempt("pwd; umask; env | sort; exit 3");
  CHECK_FALSE(attempt.guard->wait_report(milliseconds(100)));
  CHECK(attempt.log().empty());
  CHECK(is_alive(attempt.guard->key()));
  attempt.guard->go();
  eventually([&] { return attempt.guard->poll_reports().exit.has_value(); }, "an exit is reported");
  CHECK(*attempt.guard->report().exit == ExitStatus{false, 3});
  CHECK(attempt.guard->report().program);
  attempt.guard->end();
  attempt.wait_until_over();
  CHECK(attempt.guard->report().gone);
  const std::string log = attempt.log();
  CHECK(log.starts_with(attempt.dir.str() + "\n0022\nBIDE_AGENT="));
  CHECK(log.find("BIDE_ATTEMPT=bat_7_1_secret\n") != std::string::npos);
  CHECK(log.find("USER=") == std::string::npos);
}

TEST_CASE("A program holds no descriptor of the agent, no blocked signal and a session of its own") {
  Attempt attempt(
      "ls /proc/self/fd | tr '\\n' ' '; grep -E 'Sig(Blk|Ign)' /proc/self/status; "
      "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo leader");
  attempt.guard->go();
  eventually([&] { return attempt.guard->poll_reports().exit.has_value(); }, "an exit is reported");
  const std::string log = attempt.log();
  CHECK(log.starts_with("0 1 2 3 "));  // 3 is the folder that ls reads
  CHECK(log.find("SigBlk:\t0000000000000000") != std::string::npos);
  INFO(log);
  // glibc's posix_spawn leaves its own two (32 and 33) ignored.
  CHECK((log.find("SigIgn:\t0000000180000000") != std::string::npos ||
         log.find("SigIgn:\t0000000000000000") != std::string::npos));
  CHECK(log.find("leader") != std::string::npos);
}

TEST_CASE("What cannot be started is an errno, not an exit") {
  const auto [path, error] =
      GENERATE(table<std::string, int>({{"/nonexistent/program", ENOENT}, {"/etc/passwd", EACCES}}));
  Attempt attempt(std::vector<std::string>{path});
  attempt.guard->go();
  eventually([&] { return attempt.guard->poll_reports().start_error.has_value(); }, "the error is reported");
  CHECK(*attempt.guard->report().start_error == error);
  CHECK_FALSE(attempt.guard->report().exit);
  attempt.guard->end();
  attempt.wait_until_over();
  CHECK(attempt.guard->report().gone);
}

// The pid of the process of that name which the script wrote down.
ProcessKey told_by(const Attempt& attempt, const std::string& file) {
  eventually([&] { return !test::read_file(attempt.dir / file).empty(); }, "the pid is written");
  const auto found = read_process(std::stoi(test::read_file(attempt.dir / file)));
  REQUIRE(found);
  return found->key;
}

TEST_CASE("[K7] a holder that is spared outlives the tree with all below it, one that is not any more does not") {
  Attempt attempt(
      "setsid sh -c 'echo $$ >holder.tmp; mv holder.tmp holder; sleep 310.TAG & sleep 311.TAG; true' & "
      "setsid sh -c 'echo $$ >other.tmp; mv other.tmp other; sleep 312.TAG; true' & " +
      kEscapes + "sleep 313.TAG");
  attempt.guard->go();
  const ProcessKey holder = told_by(attempt, "holder");
  const ProcessKey other = told_by(attempt, "other");
  attempt.guard->spare(holder);
  attempt.guard->spare(other);
  attempt.guard->spare_not(other);
  CHECK(attempt.guard->scope().spared == std::vector<ProcessKey>{holder});
  attempt.wait_for_marked(8);
  SECTION("told to end") {
    attempt.guard->end();
    attempt.wait_until_over();
    CHECK(attempt.guard->report().gone);
  }
  SECTION("the agent is gone") { attempt.guard.reset(); }
  attempt.wait_for_marked(2);
  CHECK(is_alive(holder));
  CHECK_FALSE(is_alive(other));
  while (!kill_with_root({holder, {}})) {
  }
}

TEST_CASE("A guard that cannot be spawned is a value [E8]") {
  SystemSpawner spawner;
  auto outcome = GuardedProcess::start(spawner, {.guard_executable = "/nonexistent/bide", .argv = {"/bin/true"}});
  REQUIRE(std::holds_alternative<SpawnFailed>(outcome));
  CHECK(std::get<SpawnFailed>(outcome).error == ENOENT);
  CHECK(std::get<SpawnFailed>(outcome).text == "cannot start /nonexistent/bide: No such file or directory");
}

TEST_CASE("An exit by a signal is reported as one") {
  Attempt attempt("kill -SEGV $$");
  attempt.guard->go();
  eventually([&] { return attempt.guard->poll_reports().exit.has_value(); }, "an exit is reported");
  CHECK(*attempt.guard->report().exit == ExitStatus{true, SIGSEGV});
}

TEST_CASE("[N111] end leaves nothing: groups, sessions and daemons of a program are gone when the guard says so") {
  Attempt attempt(kEscapes + "exec sleep 304.TAG");
  attempt.guard->go();
  attempt.wait_for_marked(5);
  attempt.guard->end();
  attempt.wait_until_over();
  CHECK(attempt.guard->report().gone);
  CHECK(running_with(attempt.tag).empty());
  CHECK_FALSE(is_alive(attempt.guard->key()));
}

TEST_CASE("[N111] what a program left behind goes on after its exit, and is ended when the agent says so") {
  Attempt attempt(kEscapes + "exit 0");
  attempt.guard->go();
  eventually([&] { return attempt.guard->poll_reports().exit.has_value(); }, "an exit is reported");
  attempt.wait_for_marked(4);
  attempt.guard->end();
  attempt.wait_until_over();
  CHECK(running_with(attempt.tag).empty());
}

TEST_CASE("[N106] no trap of a program runs at its end, nor a handler in what it started") {
  Attempt attempt(
      "trap 'touch trapped' EXIT TERM HUP INT; timeout 300 sh -c \"trap 'touch trapped' TERM HUP EXIT; "
      "sleep 300.TAG\"; touch trapped");
  attempt.guard->go();
  attempt.wait_for_marked(1);
  attempt.guard->end();
  attempt.wait_until_over();
  CHECK(running_with(attempt.tag).empty());
  CHECK_FALSE(std::filesystem::exists(attempt.dir / "trapped"));
}

TEST_CASE("A process that keeps starting others does not get away") {
  Attempt attempt("f() { while :; do sleep 300.TAG & setsid sleep 300.TAG & sleep 0.01; done; }; f & f & wait");
  attempt.guard->go();
  eventually([&] { return running_with(attempt.tag).size() > 20; }, "twenty have started");
  attempt.guard->end();
  attempt.wait_until_over();
  CHECK(running_with(attempt.tag).empty());
}

// The agent as a process of its own: a shell that holds the guard's pipe, started by a go byte.
struct ForeignAgent {
  test::TempDir dir;
  std::string tag = test::unique_tag();
  std::unique_ptr<test::Process> agent;

  explicit ForeignAgent(std::string script) {
    for (auto at = script.find("TAG"); at != std::string::npos; at = script.find("TAG")) script.replace(at, 3, tag);
    test::write_file(dir / "program", script);
    REQUIRE(::mkfifo(dir.str("tell").c_str(), 0600) == 0);
    test::Command command;
    command.argv = {"sh", "-c",
                    std::string("setsid ") + BIDE_EXECUTABLE +
                        " --guard sh ./program 3<tell 4>reports & exec 3>tell; "
                        "printf g >&3; sleep 300"};
    command.cwd = dir.str();
    command.env = {{"BIDE_AGENT", dir.str("sock")}, {"BIDE_RUN", "7"}, {"BIDE_ATTEMPT", "bat_7_1_secret"}};
    agent = std::make_unique<test::Process>(command);
  }
  ~ForeignAgent() {
    for (const int pid : guards()) ::kill(pid, SIGCONT);
    for (const int pid : running_with(tag)) ::kill(pid, SIGKILL);
  }
  // The guard's folder is ours; its command line is the same in every test.
  [[nodiscard]] std::vector<int> guards() const {
    std::vector<int> found;
    for (const int pid : running_with("--guard", "bide")) {
      std::error_code ignored;
      if (std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/cwd", ignored) == dir.path())
        found.push_back(pid);
    }
    return found;
  }
  // The shell forks for its sleep: what holds the pipe is both.
  void kill_agent() {
    const auto below = descendants(agent->pid());
    agent->kill();
    for (const auto& process : below) {
      if (process.name == "sleep" && process.parent == agent->pid()) ::kill(process.key.pid, SIGKILL);
    }
  }
};

TEST_CASE(
    "[N111] the agent is killed with SIGKILL: everything below its guard is gone, daemons too, and then the guard") {
  ForeignAgent run(kEscapes + "exec sleep 304.TAG");
  eventually([&] { return running_with(run.tag).size() == 5; }, "the tree stands");
  REQUIRE(run.guards().size() == 1);
  run.kill_agent();
  eventually([&] { return running_with(run.tag).empty(); }, "no process of the attempt is left");
  eventually([&] { return run.guards().empty(); }, "the guard has left");
}

TEST_CASE("The agent dies before it has said go: the program never runs") {
  test::TempDir dir;
  SystemSpawner spawner;
  GuardRequest request{.guard_executable = BIDE_EXECUTABLE,
                       .argv = {"/bin/sh", "-c", "touch ran"},
                       .environment = test::attempt_environment(dir.str("sock")),
                       .cwd = dir.str(),
                       .log_path = dir.str("log")};
  auto guard = std::move(std::get<0>(GuardedProcess::start(spawner, request)));
  guard->end();
  eventually([&] { return guard->poll_reports().over(); }, "the guard leaves");
  CHECK(guard->report().gone);
  CHECK_FALSE(guard->report().program);
  CHECK_FALSE(std::filesystem::exists(dir / "ran"));
}

TEST_CASE("[N111] a guard that was stopped when its agent died: the next agent ends it with all below it [W7]") {
  ForeignAgent run(kEscapes + "exec sleep 304.TAG");
  eventually([&] { return running_with(run.tag).size() == 5; }, "the tree stands");
  const auto guards = run.guards();
  REQUIRE(guards.size() == 1);
  const auto guard = read_process(guards[0]);
  REQUIRE(guard);
  ::kill(guards[0], SIGSTOP);
  run.kill_agent();
  CHECK_FALSE(test::holds_within(milliseconds(300), [&] { return running_with(run.tag).empty(); }));
  const TreeScope scope{guard->key, AttemptMark{run.dir.str("sock"), 7, 0}};
  eventually([&] { return end_leftovers(scope); }, "nothing is left");
  CHECK(running_with(run.tag).empty());
  CHECK(run.guards().empty());
}

TEST_CASE("[N111] a guard that is killed is lost, and what it guarded is found by what it carries") {
  Attempt attempt("sleep 300.TAG & setsid sleep 301.TAG & ( ( setsid sleep 302.TAG & ) & ) & exec sleep 303.TAG");
  attempt.guard->go();
  attempt.wait_for_marked(4);
  ::kill(attempt.guard->key().pid, SIGKILL);
  attempt.wait_until_over();
  CHECK(attempt.guard->report().lost);
  CHECK_FALSE(attempt.guard->report().gone);
  CHECK(running_with(attempt.tag).size() == 4);
  eventually([&] { return end_leftovers(attempt.guard->scope()); }, "nothing is left");
  CHECK(running_with(attempt.tag).empty());
}

TEST_CASE("A stopped guard still ends its tree when the agent says so") {
  Attempt attempt("exec sleep 300.TAG");
  attempt.guard->go();
  attempt.wait_for_marked(1);
  ::kill(attempt.guard->key().pid, SIGSTOP);
  attempt.guard->end();
  attempt.wait_until_over();
  CHECK(attempt.guard->report().gone);
  CHECK(running_with(attempt.tag).empty());
}

TEST_CASE("Signals to a guard do nothing, and its program is not in its group") {
  Attempt attempt("exec sleep 300.TAG");
  attempt.guard->go();
  attempt.wait_for_marked(1);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGTSTP, SIGPIPE}) {
    ::kill(-attempt.guard->key().pid, signal);
  }
  (void)attempt.guard->wait_report(milliseconds(200));
  CHECK_FALSE(attempt.guard->poll_reports().exit);
  CHECK(running_with(attempt.tag).size() == 1);
  CHECK(is_alive(attempt.guard->key()));
}

}  // namespace
}  // namespace bide::work
