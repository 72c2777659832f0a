// Preloaded under a real agent: its process is killed before the n-th write, sync, rename, unlink, connect, send or
// spawn. The numbers lie in a file that the test shares with it: {at, count}; at 0: nothing is counted.
// Only a process of the executable bide-agent is meant; what it starts gets an environment without us.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Shared {
  std::atomic<std::uint64_t> at;
  std::atomic<std::uint64_t> count;
};

Shared* open_shared() {
  const char* path = std::getenv("BIDE_KILL_AT");
  char exe[4096] = {};
  if (path == nullptr || ::readlink("/proc/self/exe", exe, sizeof exe - 1) < 0) return nullptr;
  if (std::strstr(exe, "/bide-agent") == nullptr) return nullptr;
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
}

void point() {
  static Shared* const shared = open_shared();
  if (shared == nullptr || shared->at.load() == 0) return;
  if (shared->count.fetch_add(1) + 1 != shared->at.load()) return;
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// Bells and logs are no points: a file is.
bool is_file(int fd) {
  struct stat found {};
  return fd > 2 && ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* from, size_t size) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  if (is_file(fd)) point();
  return next(fd, from, size);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto next = real<ssize_t (*)(int, const iovec*, int)>("writev");
  if (is_file(fd)) point();
  return next(fd, parts, count);
}
ssize_t pwrite64(int fd, const void* from, size_t size, off64_t at) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  point();
  return next(fd, from, size, at);
}
ssize_t pwrite(int fd, const void* from, size_t size, off_t at) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  point();
  return next(fd, from, size, at);
}
int fsync(int fd) {
  static const auto next = real<int (*)(int)>("fsync");
  point();
  return next(fd);
}
int fdatasync(int fd) {
  static const auto next = real<int (*)(int)>("fdatasync");
  point();
  return next(fd);
}
int rename(const char* from, const char* to) noexcept {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  point();
  return next(from, to);
}
int unlink(const char* path) noexcept {
  static const auto next = real<int (*)(const char*)>("unlink");
  point();
  return next(path);
}
int connect(int fd, const sockaddr* to, socklen_t size) {
  static const auto next = real<int (*)(int, const sockaddr*, socklen_t)>("connect");
  point();
  return next(fd, to, size);
}
ssize_t send(int fd, const void* from, size_t size, int flags) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t, int)>("send");
  point();
  return next(fd, from, size, flags);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto next = real<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  point();
  return next(fd, message, flags);
}
int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const argv[], char* const environment[]) {
  static const auto next = real<int (*)(pid_t*, const char*, const posix_spawn_file_actions_t*,
                                        const posix_spawnattr_t*, char* const[], char* const[])>("posix_spawnp");
  point();
  return next(pid, file, actions, attributes, argv, environment);
}

}  // extern "C"
