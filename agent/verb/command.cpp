#include "agent/verb/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "agent/base/limits.h"

namespace bide::verb {
namespace {

struct Pipe {
  Fd read;
  Fd write;
  Pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    read.reset(ends[0]);
    write.reset(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
};

class Running {
 public:
  Running(const CommandRequest& request, Clock& clock) : request_(request), clock_(clock) {}

  CommandResult run() {
    if (!start()) return std::move(result_);
    const BootMs deadline = request_.timeout_ms > 0 ? clock_.boot_ms() + request_.timeout_ms : 0;
    while (!ended_) {
      const DurationMs left = deadline == 0 ? -1 : std::max<DurationMs>(deadline - clock_.boot_ms(), 0);
      if (left == 0) return end_by_timeout();
      turn(left);
    }
    const BootMs drain_until = clock_.boot_ms() + limits::kDrainMs;
    while (out_.read.valid() || err_.read.valid()) {
      const DurationMs left = drain_until - clock_.boot_ms();
      if (left <= 0) break;
      turn(left);
    }
    return std::move(result_);
  }

 private:
  bool start();
  void turn(DurationMs longest);
  CommandResult end_by_timeout();
  void take(Fd& from, bool is_out);
  void keep_out(std::string_view text);
  void lose_out(std::string why);
  void keep_err(std::string_view text);
  void reap();

  const CommandRequest& request_;
  Clock& clock_;
  Pipe out_;
  Pipe err_;
  Spawned child_;
  bool ended_ = false;
  std::int64_t out_bytes_ = 0;
  CommandResult result_;
};

bool Running::start() {
  SpawnRequest spawn;
  spawn.program = request_.argv.at(0);
  spawn.argv = request_.argv;
  spawn.environment = request_.environment;
  spawn.descriptors = {{out_.write.get(), 1}, {err_.write.get(), 2}};
  if (request_.own_stdin) spawn.descriptors.emplace_back(STDIN_FILENO, STDIN_FILENO);
  auto outcome = spawn_process(spawn);
  if (auto* failure = std::get_if<SpawnFailed>(&outcome)) {
    result_.not_started = std::move(*failure);
    return false;
  }
  child_ = std::move(std::get<Spawned>(outcome));
  out_.write.reset();
  err_.write.reset();
  return true;
}

// Reads what is there, or notes the exit, after waiting for either.
void Running::turn(DurationMs longest) {
  pollfd fds[] = {
      {out_.read.get(), POLLIN, 0}, {err_.read.get(), POLLIN, 0}, {ended_ ? -1 : child_.pidfd.get(), POLLIN, 0}};
  const int wait = longest < 0 ? -1 : static_cast<int>(std::min<DurationMs>(longest, 1'000'000));
  if (::poll(fds, 3, wait) <= 0) return;
  if (fds[0].revents != 0) take(out_.read, true);
  if (fds[1].revents != 0) take(err_.read, false);
  if (fds[2].revents != 0) reap();
}

void Running::take(Fd& from, bool is_out) {
  char buffer[64 * 1024];
  const ssize_t n = ::read(from.get(), buffer, sizeof buffer);
  if (n > 0) {
    const std::string_view text(buffer, static_cast<std::size_t>(n));
    if (is_out) {
      keep_out(text);
    } else {
      keep_err(text);
    }
  } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
    from.reset();
  }
}

void Running::keep_out(std::string_view text) {
  if (result_.out_too_large) return;  // read and dropped: the command must not block or die of it
  out_bytes_ += static_cast<std::int64_t>(text.size());
  if (out_bytes_ > request_.most_out) return lose_out("");
  if (result_.spill.begun()) {
    if (!result_.spill.write(text)) lose_out(std::strerror(errno));
    return;
  }
  result_.out.append(text);
  if (result_.out.size() <= limits::kDocumentBytes) return;
  if (request_.spill_path.empty()) return lose_out("");
  if (!result_.spill.begin(request_.spill_path) || !result_.spill.write(result_.out))
    return lose_out(std::strerror(errno));
  result_.out.resize(std::min(result_.out.size(), limits::kKeptOfTooLarge + request_.longest_secret));
}

void Running::lose_out(std::string why) {
  result_.out_too_large = true;
  result_.why_lost = std::move(why);
  result_.spill.drop();
  result_.out.resize(std::min(result_.out.size(), limits::kKeptOfTooLarge + request_.longest_secret));
}

void Running::keep_err(std::string_view text) {
  result_.err_end.append(text);
  const std::size_t most = limits::kKeptOfTooLarge + request_.longest_secret;
  if (result_.err_end.size() > most) result_.err_end.erase(0, result_.err_end.size() - most);
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody reads the log: no matter of the command
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void Running::reap() {
  int status = 0;
  if (::waitpid(child_.key.pid, &status, WNOHANG) != child_.key.pid) return;
  ended_ = true;
  result_.exit = WIFSIGNALED(status) ? ExitStatus{true, WTERMSIG(status)} : ExitStatus{false, WEXITSTATUS(status)};
}

// All below us is the command's: what left its group or forked twice came back to us, the subreaper.
CommandResult Running::end_by_timeout() {
  const auto self = read_process(::getpid());
  const TreeScope scope{self ? self->key : ProcessKey{}, {}};
  ::kill(-child_.key.pid, SIGKILL);
  for (int wait = limits::kEndLookMs; !kill_pass(scope).empty() || !ended_;
       wait = std::min(wait * 2, limits::kEndLookMostMs)) {
    turn(wait);
    reap();
  }
  result_.timed_out = true;
  return std::move(result_);
}

}  // namespace

CommandResult run_command(const CommandRequest& request, Clock& clock) { return Running(request, clock).run(); }

}  // namespace bide::verb
