#include "agent/verb/guard.h"

#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/guard_protocol.h"
#include "agent/base/process_tree.h"
#include "agent/base/spawn.h"
#include "agent/base/text.h"

extern char** environ;

namespace bide::verb {
namespace {

namespace protocol = guard_protocol;

constexpr int kFirstLookMs = 2;      // between two passes over what is being ended: SIGKILL takes about 1 ms
constexpr int kSlowestLookMs = 200;  // … and what is still there is not ours to kill: look now and then
constexpr DurationMs kAliveEveryMs = 1'000;

class Guard {
 public:
  explicit Guard(char** argv) {
    if (*argv != nullptr && std::string_view(*argv).starts_with(protocol::kRunAsFlag)) {
      become(std::string_view(*argv++).substr(protocol::kRunAsFlag.size()));
    }
    for (; *argv != nullptr; ++argv) request_.argv.emplace_back(*argv);
    for (char** entry = environ; *entry != nullptr; ++entry) request_.environment.emplace_back(*entry);
  }

  int run() {
    prepare();
    const bool told_to_go = hear_until_end();
    if (told_to_go) end_everything();
    report("gone");
    return 0;
  }

 private:
  void become(std::string_view ids);
  [[nodiscard]] int unreachable() const;
  void prepare();
  bool hear_until_end();
  void hear_line(char byte);
  void start_program();
  void reap();
  void end_everything();
  void report(const std::string& line);
  void drain_signals();

  SpawnRequest request_;
  SystemClock clock_;
  Fd child_ended_;
  int program_ = 0;
  bool started_ = false;
  bool as_user_ = false;
  int not_become_ = 0;  // errno
  std::string line_;    // of which the end is not heard yet
  std::vector<ProcessKey> spared_;
};

// "UID:GID:GROUP,GROUP": real, effective and saved ones alike, so there is no way back.
void Guard::become(std::string_view ids) {
  std::vector<gid_t> numbers;
  for (std::size_t at = 0; at < ids.size();) {
    const auto end = std::min(ids.find_first_of(":,", at), ids.size());
    numbers.push_back(static_cast<gid_t>(parse_number(ids.substr(at, end - at)).value_or(0)));
    at = end + 1;
  }
  as_user_ = true;
  not_become_ = EINVAL;
  if (numbers.size() < 2 || numbers[0] == 0) return;
  const uid_t uid = numbers[0];
  const gid_t gid = numbers[1];
  const bool became = ::setgroups(numbers.size() - 2, numbers.data() + 2) == 0 && ::setresgid(gid, gid, gid) == 0 &&
                      ::setresuid(uid, uid, uid) == 0;
  not_become_ = became ? 0 : errno;
  if (became && ::setuid(0) == 0) not_become_ = EPERM;
}

// What stands in the way of a program that runs as another user; 0: nothing. A verb could not say so: it would only
// wait for its agent.
int Guard::unreachable() const {
  if (not_become_ != 0 || !as_user_) return not_become_;
  const char* temporary = std::getenv("TMPDIR");
  if (temporary != nullptr && ::mkdir(temporary, 0700) != 0 && errno != EEXIST) return errno;
  const char* agent = std::getenv("BIDE_AGENT");
  return agent != nullptr && ::access(agent, R_OK | W_OK) != 0 ? errno : 0;
}

void Guard::prepare() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::umask(022);
  // A script's `kill 0`, a terminal or a shutdown must not take the guard before what it guards.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  child_ended_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!request_.argv.empty()) request_.program = request_.argv[0];
  request_.group = ProcessGroup::own_session;
  request_.descriptors = {{0, 0}, {1, 1}, {2, 2}};
}

// True: there may be something to end.
bool Guard::hear_until_end() {
  for (;;) {
    pollfd fds[] = {{protocol::kHearFd, POLLIN, 0}, {child_ended_.get(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) reap();
    if (fds[0].revents == 0) continue;
    char byte = protocol::kEnd;
    const ssize_t n = ::read(protocol::kHearFd, &byte, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return started_;
    if (!line_.empty() || byte == protocol::kSpare || byte == protocol::kSpareNot) {
      hear_line(byte);
    } else if (byte == protocol::kEnd) {
      return started_;
    } else if (byte == protocol::kGo && !started_) {
      start_program();
    }
  }
}

// "+ PID START\n": a holder to spare; '-': to spare no longer.
void Guard::hear_line(char byte) {
  if (byte != '\n') {
    line_ += byte;
    return;
  }
  const std::string line = std::exchange(line_, "");
  const auto at = std::min(line.find(' ', 2), line.size());
  const auto pid = parse_number(line.substr(std::min<std::size_t>(2, line.size()), at - 2));
  const auto start = parse_number(line.substr(std::min(at + 1, line.size())));
  if (!pid || !start) return;
  const ProcessKey holder{static_cast<int>(*pid), static_cast<std::uint64_t>(*start)};
  std::erase(spared_, holder);
  if (line[0] == protocol::kSpare) spared_.push_back(holder);
}

void Guard::start_program() {
  if (const int error = unreachable(); error != 0) return report("error " + std::to_string(error));
  auto outcome = spawn_process(request_);
  if (const auto* failure = std::get_if<SpawnFailed>(&outcome)) {
    report("error " + std::to_string(failure->error));
    return;
  }
  const auto& spawned = std::get<Spawned>(outcome);
  started_ = true;
  program_ = spawned.key.pid;
  report("started " + std::to_string(spawned.key.pid) + " " + std::to_string(spawned.key.start));
}

void Guard::drain_signals() {
  signalfd_siginfo info;
  while (::read(child_ended_.get(), &info, sizeof info) > 0) {
  }
}

void Guard::reap() {
  drain_signals();
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != program_) continue;
    program_ = 0;
    if (WIFSIGNALED(status)) {
      report("signal " + std::to_string(WTERMSIG(status)));
    } else {
      report("exit " + std::to_string(WEXITSTATUS(status)));
    }
  }
}

AttemptMark own_mark() {
  const char* agent = std::getenv("BIDE_AGENT");
  const char* attempt = std::getenv("BIDE_ATTEMPT");
  return agent == nullptr || attempt == nullptr ? AttemptMark{} : attempt_mark(agent, attempt);
}

void Guard::end_everything() {
  const auto self = read_process(::getpid());
  const TreeScope scope{self ? self->key : ProcessKey{static_cast<int>(::getpid()), 0}, own_mark(), spared_};
  int wait_ms = kFirstLookMs;
  BootMs said_at = clock_.boot_ms();
  for (;;) {
    reap();
    const auto found = kill_pass(scope);
    if (found.empty()) break;
    if (clock_.boot_ms() - said_at >= kAliveEveryMs) {
      said_at = clock_.boot_ms();
      report("alive " + std::to_string(found.back().key.pid) + " " + found.back().name);
    }
    pollfd ended{child_ended_.get(), POLLIN, 0};
    ::poll(&ended, 1, wait_ms);
    wait_ms = std::min(wait_ms * 2, kSlowestLookMs);
  }
  reap();
}

// The agent may be gone, and what it does not read is lost: neither may hold us up.
void Guard::report(const std::string& line) {
  const std::string text = line + "\n";
  while (::write(protocol::kReportFd, text.data(), text.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace

int run_guard(char** argv) { return Guard(argv).run(); }

}  // namespace bide::verb
