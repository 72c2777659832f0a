#include "agent/work/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "agent/base/descriptors.h"
#include "agent/base/guard_protocol.h"
#include "agent/base/text.h"

namespace bide::work {
namespace {

namespace protocol = guard_protocol;

// Sockets, for the sake of MSG_NOSIGNAL: speaking to a guard that is gone must not depend on who ignores SIGPIPE.
struct Pair {
  Fd ours;
  Fd theirs;
  int error = 0;
};

Pair make_pair() {
  int ends[2] = {-1, -1};
  Pair made;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) made.error = errno;
  made.ours.reset(ends[0]);
  made.theirs.reset(ends[1]);
  return made;
}

}  // namespace

AttemptMark mark_of(const std::vector<std::string>& environment) {
  static constexpr std::string_view kAgent = "BIDE_AGENT=";
  static constexpr std::string_view kAttempt = "BIDE_ATTEMPT=";
  std::string_view agent;
  std::string_view token;
  for (const std::string_view variable : environment) {
    if (variable.starts_with(kAgent)) agent = variable.substr(kAgent.size());
    if (variable.starts_with(kAttempt)) token = variable.substr(kAttempt.size());
  }
  return attempt_mark(agent, token);
}

std::variant<std::unique_ptr<GuardedProcess>, SpawnFailed> GuardedProcess::start(Spawner& spawner,
                                                                                 const GuardRequest& request) {
  Pair tell = make_pair();
  Pair report = make_pair();
  if (tell.error != 0 || report.error != 0) {
    return SpawnFailed{tell.error != 0 ? tell.error : report.error, "no descriptors left for a guard's pipes"};
  }
  SpawnRequest spawn;
  spawn.program = request.guard_executable;
  spawn.argv = {request.guard_executable, protocol::kMode};
  if (!request.run_as.empty()) spawn.argv.push_back(std::string(protocol::kRunAsFlag) + request.run_as);
  spawn.argv.insert(spawn.argv.end(), request.argv.begin(), request.argv.end());
  spawn.environment = request.environment;
  spawn.cwd = request.cwd;
  spawn.group = ProcessGroup::own_session;
  spawn.stdout_path = request.log_path;
  spawn.stderr_path = request.stderr_path.empty() ? request.log_path : request.stderr_path;
  spawn.descriptors = {{tell.theirs.get(), protocol::kHearFd}, {report.theirs.get(), protocol::kReportFd}};
  auto outcome = spawner.spawn(spawn);
  if (auto* failure = std::get_if<SpawnFailed>(&outcome)) return std::move(*failure);
  restore_descriptor_limit(std::get<Spawned>(outcome).key.pid);  // it waits for go(), and the program inherits it
  ::fcntl(report.ours.get(), F_SETFL, O_NONBLOCK);
  return std::unique_ptr<GuardedProcess>(new GuardedProcess(std::move(std::get<Spawned>(outcome)),
                                                            mark_of(request.environment), std::move(tell.ours),
                                                            std::move(report.ours)));
}

GuardedProcess::GuardedProcess(Spawned spawned, AttemptMark mark, Fd tells, Fd hears)
    : spawned_(std::move(spawned)), mark_(std::move(mark)), hears_(std::move(hears)), tells_(std::move(tells)) {}

GuardedProcess::~GuardedProcess() {
  // The guard ends all below it now and then itself. Who waits for it is whoever looks after `processes` (W7).
  end();
  reap_guard();
}

// A guard that is gone is told by the other pipe's end. One that does not read (it was stopped) has much room: nobody
// waits for it.
void GuardedProcess::tell(std::string_view text) {
  while (tells_.valid() && ::send(tells_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
         errno == EINTR) {
  }
}

void GuardedProcess::go() {
  Lock lock(mutex_);
  tell(std::string_view(&protocol::kGo, 1));
}

namespace {
std::string line_of(char what, const ProcessKey& holder) {
  return std::string(1, what) + " " + std::to_string(holder.pid) + " " + std::to_string(holder.start) + "\n";
}
}  // namespace

void GuardedProcess::spare(const ProcessKey& holder) {
  Lock lock(mutex_);
  spared_.push_back(holder);
  tell(line_of(protocol::kSpare, holder));
}

void GuardedProcess::spare_not(const ProcessKey& holder) {
  Lock lock(mutex_);
  if (std::erase(spared_, holder) > 0) tell(line_of(protocol::kSpareNot, holder));
}

TreeScope GuardedProcess::scope() const {
  Lock lock(mutex_);
  return TreeScope{spawned_.key, mark_, spared_};
}

void GuardedProcess::end() {
  {
    Lock lock(mutex_);
    tells_.reset();
  }
  signal_process(spawned_.key, SIGCONT);
}

void GuardedProcess::take_line(const std::string& line) {
  const auto space = line.find(' ');
  const std::string word = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  const auto first = static_cast<int>(parse_number(rest.substr(0, rest.find(' '))).value_or(0));
  if (word == "started") {
    const auto at = rest.find(' ');
    const auto start = at == std::string::npos ? 0 : parse_number(rest.substr(at + 1)).value_or(0);
    report_.program = ProcessKey{first, static_cast<std::uint64_t>(start)};
  } else if (word == "error") {
    report_.start_error = first;
  } else if (word == "exit" || word == "signal") {
    report_.exit = ExitStatus{word == "signal", first};
  } else if (word == "alive") {
    report_.alive = rest;
  } else if (word == "gone") {
    report_.gone = true;
  }
}

const GuardReport& GuardedProcess::poll_reports() {
  if (report_.over()) return report_;
  char buffer[512];
  ssize_t n = 0;
  while ((n = ::read(hears_.get(), buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) unread_.append(buffer, static_cast<std::size_t>(n));
  }
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
    take_line(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
  if (n == 0 && !report_.gone) report_.lost = true;
  if (report_.over()) reap_guard();
  return report_;
}

bool GuardedProcess::wait_report(std::chrono::milliseconds longest) {
  if (report_.over()) return false;
  pollfd readable{hears_.get(), POLLIN, 0};
  if (::poll(&readable, 1, static_cast<int>(longest.count())) <= 0) return false;
  poll_reports();
  return true;
}

// The guard exits right after "gone": no zombie may stay for as long as the agent lives.
void GuardedProcess::reap_guard() {
  if (reaped_ || spawned_.key.pid <= 0) return;
  const int options = report_.over() ? 0 : WNOHANG;
  pid_t got = 0;
  while ((got = ::waitpid(spawned_.key.pid, nullptr, options)) < 0 && errno == EINTR) {
  }
  reaped_ = got != 0;
}

bool end_leftovers(const TreeScope& scope, std::string* alive) {
  const bool none = kill_with_root(scope);
  if (!none && alive != nullptr) {
    const auto left = members(scope);
    *alive = left.empty() ? std::to_string(scope.root.pid) + " guard"
                          : std::to_string(left.back().key.pid) + " " + left.back().name;
  }
  return none;
}

}  // namespace bide::work
