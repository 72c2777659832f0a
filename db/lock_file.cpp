#include "db/lock_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "agent/base/errors.h"

namespace bide::db {
namespace {

std::string path_of(const std::string& directory) { return directory + "/bide.lock"; }

long read_pid(int fd) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  long pid = 0;
  for (ssize_t i = 0; i < got && text[static_cast<std::size_t>(i)] >= '0' && text[static_cast<std::size_t>(i)] <= '9';
       ++i) {
    pid = pid * 10 + (text[static_cast<std::size_t>(i)] - '0');
  }
  return pid;
}

constexpr int kStaleMs = 600;  // C5: a second agent is refused within 1 s
constexpr int kLookMs = 20;

}  // namespace

LockFile::LockFile(const std::string& directory)
    : fd_(::open(path_of(directory).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (!fd_.valid()) throw ConfigFault(path_of(directory) + ": " + std::strerror(errno));
  // An open file description's lock, not a process's: a second Store in this process is refused too, and closing
  // some other descriptor of the file drops nothing.
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  // The lock of an agent that was killed goes with its last descriptor: a child that had not come to its exec yet keeps
  // it for some moments more, long ones on a loaded machine.
  int taken = ::fcntl(fd_.get(), F_OFD_SETLK, &lock);
  for (int waited = 0; taken != 0 && (errno == EAGAIN || errno == EACCES) && waited < kStaleMs; waited += kLookMs) {
    (void)::poll(nullptr, 0, kLookMs);
    taken = ::fcntl(fd_.get(), F_OFD_SETLK, &lock);
  }
  if (taken != 0) {
    if (errno != EAGAIN && errno != EACCES) throw ConfigFault(path_of(directory) + ": " + std::strerror(errno));
    const long pid = read_pid(fd_.get());
    throw ConfigFault(directory + " is in use by another agent" +
                      (pid > 0 ? ": pid " + std::to_string(pid) : std::string(", which is just starting")));
  }
  // Of fixed width, so that rewriting it needs no space on a full disk. A failure is harmless: the lock is what counts.
  std::array<char, 22> text{};
  std::snprintf(text.data(), text.size(), "%-20ld\n", static_cast<long>(::getpid()));
  [[maybe_unused]] const ssize_t wrote = ::pwrite(fd_.get(), text.data(), text.size() - 1, 0);
}

long lock_holder_pid(const std::string& directory) {
  const Fd fd(::open(path_of(directory).c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() ? read_pid(fd.get()) : 0;
}

}  // namespace bide::db
