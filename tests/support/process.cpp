#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "agent/base/fd.h"

namespace bide::test {
namespace {

std::vector<std::string> environment(const Command& command) {
  std::vector<std::string> all;
  const auto is_set = [&](const std::string& entry) {
    for (const auto& [name, value] : command.env) {
      if (entry.compare(0, name.size() + 1, name + "=") == 0) return true;
    }
    return false;
  };
  if (!command.clear_env) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!is_set(*entry)) all.emplace_back(*entry);
    }
  }
  for (const auto& [name, value] : command.env) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

Process::Process(const Command& command) : own_group_(command.own_group) {
  std::vector<std::string> argv = command.argv;
  std::vector<std::string> env = environment(command);
  write_file(dir_ / "in", command.input);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, dir_.str("in").c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, dir_.str("out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, dir_.str("err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (!command.cwd.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, command.cwd.c_str());
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);

  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  const int group = own_group_ ? POSIX_SPAWN_SETPGROUP : 0;
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
  const int error =
      ::posix_spawnp(&pid_, argv.at(0).c_str(), &actions, &attributes, pointers(argv).data(), pointers(env).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + argv.at(0) + ": " + ::strerror(error));
}

Process::~Process() { kill(); }

void Process::signal(int number) {
  if (running()) ::kill(pid_, number);  // not reaped yet, so the pid is still this process
}

std::optional<Exit> Process::wait(std::chrono::milliseconds deadline) {
  if (exit_) return exit_;
  const Fd pidfd(open_pidfd(pid_));
  pollfd wanted{pidfd.get(), POLLIN, 0};
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const int ready = ::poll(&wanted, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (ready > 0) break;
    if (ready == 0) return std::nullopt;
  }
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("somebody else reaped a process of the test");
  exit_ = WIFEXITED(status) ? Exit{WEXITSTATUS(status), 0} : Exit{-1, WTERMSIG(status)};
  return exit_;
}

void Process::kill() {
  if (pid_ <= 0) return;
  if (own_group_) {
    ::kill(-pid_, SIGKILL);  // also when the leader is gone: what it left behind
  } else {
    signal(SIGKILL);
  }
  if (exit_) return;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  exit_ = WIFEXITED(status) ? Exit{WEXITSTATUS(status), 0} : Exit{-1, WTERMSIG(status)};
}

Finished run(const Command& command, std::chrono::milliseconds deadline) {
  Process process(command);
  const auto exit = process.wait(deadline);
  if (!exit) {
    throw std::runtime_error(command.argv.at(0) + " did not end in time; stdout: " + process.out() +
                             "; stderr: " + process.err());
  }
  return {*exit, process.out(), process.err()};
}

}  // namespace bide::test
