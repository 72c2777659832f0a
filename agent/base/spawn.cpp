#include "agent/base/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace bide {
namespace {

// Sources are moved up here first, so that none is overwritten while the child's numbers are filled in.
constexpr int kOutOfTheWay = 64;

struct Actions {
  posix_spawn_file_actions_t raw;
  int error = 0;
  Actions() { error = ::posix_spawn_file_actions_init(&raw); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&raw); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  void note(int result) {
    if (error == 0) error = result;
  }
};

struct Attributes {
  posix_spawnattr_t raw;
  Attributes() { ::posix_spawnattr_init(&raw); }
  ~Attributes() { ::posix_spawnattr_destroy(&raw); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

void set_attributes(Attributes& attributes, ProcessGroup group) {
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes.raw, &none);
  ::posix_spawnattr_setsigdefault(&attributes.raw, &all);
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (group == ProcessGroup::own_session) {
    flags |= POSIX_SPAWN_SETSID;
  } else {
    flags |= POSIX_SPAWN_SETPGROUP;
    ::posix_spawnattr_setpgroup(&attributes.raw, 0);
  }
  ::posix_spawnattr_setflags(&attributes.raw, flags);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

bool names(const SpawnRequest& request, int number) {
  return std::any_of(request.descriptors.begin(), request.descriptors.end(),
                     [number](const auto& pair) { return pair.second == number; });
}

// Fills in the child's descriptors. `moved` keeps the copies open until the spawn is done.
void set_files(Actions& actions, const SpawnRequest& request, std::vector<Fd>& moved) {
  int highest = 2;
  const auto open_as = [&](int number, const std::string& path, int flags) {
    if (!path.empty() && !names(request, number)) {
      actions.note(::posix_spawn_file_actions_addopen(&actions.raw, number, path.c_str(), flags, 0600));
    }
  };
  for (const auto& [ours, theirs] : request.descriptors) {
    moved.emplace_back(::fcntl(ours, F_DUPFD_CLOEXEC, kOutOfTheWay));
    if (!moved.back().valid()) return actions.note(errno);
    actions.note(::posix_spawn_file_actions_adddup2(&actions.raw, moved.back().get(), theirs));
    highest = std::max(highest, theirs);
  }
  open_as(0, request.stdin_path, O_RDONLY);
  open_as(1, request.stdout_path, O_WRONLY | O_CREAT | O_APPEND);
  open_as(2, request.stderr_path, O_WRONLY | O_CREAT | O_APPEND);
  actions.note(::posix_spawn_file_actions_addclosefrom_np(&actions.raw, highest + 1));
  if (!request.cwd.empty()) actions.note(::posix_spawn_file_actions_addchdir_np(&actions.raw, request.cwd.c_str()));
}

// Descriptors that its identity will need are taken before it is started: a process that runs and cannot be named or
// waited for would be worse than none.
int take_two(std::vector<Fd>& taken) {
  for (int i = 0; i < 2; ++i) {
    taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!taken.back().valid()) return errno;
  }
  return 0;
}

SpawnFailed failed(const SpawnRequest& request, int error) {
  return SpawnFailed{error, "cannot start " + request.program + ": " + std::strerror(error)};
}

// Another thread took the descriptors meanwhile. A guard has exec'ed nothing yet.
SpawnFailed give_up(const SpawnRequest& request, pid_t pid, int error) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return failed(request, error);
}

}  // namespace

std::variant<Spawned, SpawnFailed> spawn_process(const SpawnRequest& request) {
  Actions actions;
  Attributes attributes;
  std::vector<Fd> moved;
  set_attributes(attributes, request.group);
  set_files(actions, request, moved);
  if (actions.error != 0) return failed(request, actions.error);
  std::vector<Fd> taken;
  if (const int error = take_two(taken); error != 0) return failed(request, error);
  auto argv = pointers(request.argv);
  auto environment = pointers(request.environment);
  pid_t pid = 0;
  int error =
      ::posix_spawnp(&pid, request.program.c_str(), &actions.raw, &attributes.raw, argv.data(), environment.data());
  if (error == ENOEXEC) {  // a script without its first line: as execvp and every shell do
    auto script = argv;
    std::string shell = "/bin/sh";
    std::string path = request.program;
    script.insert(script.begin(), shell.data());
    script[1] = path.data();
    error = ::posix_spawn(&pid, shell.c_str(), &actions.raw, &attributes.raw, script.data(), environment.data());
  }
  if (error != 0) return failed(request, error);
  taken.clear();
  moved.clear();
  Spawned spawned;
  // It is our child and not reaped yet: the pid cannot have another owner.
  spawned.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!spawned.pidfd.valid()) return give_up(request, pid, errno);
  try {
    const auto info = read_process(pid);
    spawned.key = {pid, info ? info->key.start : 0};
  } catch (const CannotLook&) {
    return give_up(request, pid, EMFILE);
  }
  return spawned;
}

std::string describe(const ExitStatus& status) {
  if (!status.signalled) return "exited with " + std::to_string(status.code);
  const char* name = ::strsignal(status.code);
  return "was ended by signal " + std::to_string(status.code) + " (" + (name != nullptr ? name : "?") + ")";
}

}  // namespace bide
