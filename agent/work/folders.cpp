#include "agent/work/folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "agent/base/fd.h"
#include "agent/base/limits.h"

namespace bide::work {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw FolderFault(std::string(what) + " " + path + ": " + std::strerror(errno));
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

// The folder `name` in `parent`; a link is not followed. `ours`: it is made readable if it is not.
Dir open_folder(int parent, const char* name, const std::string& path, bool ours) {
  int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && ours && ::fchmodat(parent, name, 0700, 0) == 0)
    fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) fail("cannot open", path);
  DIR* dir = ::fdopendir(fd);
  if (dir == nullptr) {
    ::close(fd);
    fail("cannot read", path);
  }
  return Dir(dir);
}

// Removing one tree. Folders of more than limits::kDeepestFolder levels are not opened in one another: the one below
// is moved to the top, and its turn comes there. Else a tree that is deep enough costs all descriptors, or the stack.
class Removal {
 public:
  Removal(const std::string& path, int& entries) : path_(path), entries_(entries) {}
  // True: nothing is left.
  bool run() { return remove_entry(AT_FDCWD, path_.c_str(), path_, 0); }

 private:
  bool remove_entry(int parent, const char* name, const std::string& path, int depth);
  bool remove_folder(int parent, const char* name, const std::string& path, int depth);
  bool empty_folder(Dir& dir, const std::string& path, int depth);
  void move_to_top(int parent, const char* name, const std::string& path);

  const std::string& path_;
  int& entries_;
  int top_ = -1;
  int moved_ = 0;
};

bool Removal::remove_entry(int parent, const char* name, const std::string& path, int depth) {
  if (::unlinkat(parent, name, 0) == 0) {
    --entries_;
    return true;
  }
  if (errno == ENOENT) return true;
  if (errno != EISDIR && errno != EPERM && errno != EACCES) fail("cannot remove", path);
  struct stat info = {};
  if (::fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
  if (!S_ISDIR(info.st_mode)) {
    errno = EACCES;
    fail("cannot remove", path);
  }
  return remove_folder(parent, name, path, depth);
}

bool Removal::remove_folder(int parent, const char* name, const std::string& path, int depth) {
  if (depth == limits::kDeepestFolder) {
    move_to_top(parent, name, path);
    return true;
  }
  Dir dir = open_folder(parent, name, path, true);
  if (depth == 0) top_ = ::dirfd(dir.get());
  for (;;) {
    if (!empty_folder(dir, path, depth)) return false;
    if (::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) break;
    if (errno != ENOTEMPTY && errno != EEXIST) fail("cannot remove", path);
    if (depth > 0 || moved_ == 0) fail("cannot remove", path);
    moved_ = 0;
    ::rewinddir(dir.get());
  }
  --entries_;
  return true;
}

void Removal::move_to_top(int parent, const char* name, const std::string& path) {
  // Its entry .. is written anew. Root may do that as it is, and must not follow a link that was put there meanwhile.
  if (::geteuid() != 0) (void)::fchmodat(parent, name, 0700, 0);
  for (;;) {
    const std::string there = ".deep-" + std::to_string(++moved_);
    if (::renameat(parent, name, top_, there.c_str()) == 0) return;
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) fail("cannot remove", path);
  }
}

bool Removal::empty_folder(Dir& dir, const std::string& path, int depth) {
  const int fd = ::dirfd(dir.get());
  struct stat info = {};
  if (::fstat(fd, &info) == 0 && (info.st_mode & 0300) != 0300) (void)::fchmod(fd, 0700);
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (entries_ <= 0) return false;
    if (!remove_entry(fd, name.c_str(), path + "/" + name, depth + 1)) return false;
  }
  return true;
}

void copy_bytes(int from, int to, const std::string& path) {
  char buffer[64 << 10];
  for (;;) {
    const ssize_t got = ::read(from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read", path);
    if (got == 0) return;
    for (ssize_t done = 0; done < got;) {
      const ssize_t n = ::write(to, buffer + done, static_cast<std::size_t>(got - done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("cannot write the copy of", path);
      done += n;
    }
  }
}

void copy_file(int from, int to, const char* name, const struct stat& info, const std::string& path) {
  const Fd in(::openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!in.valid()) fail("cannot open", path);
  const Fd out(::openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.valid()) fail("cannot make the copy of", path);
  copy_bytes(in.get(), out.get(), path);
  const struct timespec times[2] = {info.st_atim, info.st_mtim};
  if (::fchmod(out.get(), info.st_mode & 07777) != 0 || ::futimens(out.get(), times) != 0)
    fail("cannot finish the copy of", path);
}

void copy_link(int from, int to, const char* name, const std::string& path) {
  char target[PATH_MAX + 1];
  const ssize_t length = ::readlinkat(from, name, target, PATH_MAX);
  if (length < 0) fail("cannot read", path);
  target[length] = '\0';
  if (::symlinkat(target, to, name) != 0) fail("cannot make the copy of", path);
}

bool copy_entries(Dir& from, int to, const std::string& path, const std::function<bool()>& goes_on, int depth) {
  if (depth > limits::kDeepestFolder)
    throw FolderFault(path + " is deeper than " + std::to_string(limits::kDeepestFolder) + " folders");
  const int source = ::dirfd(from.get());
  while (const dirent* entry = ::readdir(from.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (!goes_on()) return false;
    const std::string at = path + "/" + name;
    struct stat info = {};
    if (::fstatat(source, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) fail("cannot look at", at);
    if (S_ISREG(info.st_mode)) {
      copy_file(source, to, name.c_str(), info, at);
    } else if (S_ISLNK(info.st_mode)) {
      copy_link(source, to, name.c_str(), at);
    } else if (S_ISDIR(info.st_mode)) {
      if (::mkdirat(to, name.c_str(), 0700) != 0) fail("cannot make the copy of", at);
      const Fd inner(::openat(to, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      Dir dir = open_folder(source, name.c_str(), at, false);
      if (!inner.valid()) fail("cannot open the copy of", at);
      if (!copy_entries(dir, inner.get(), at, goes_on, depth + 1)) return false;
      if (::fchmod(inner.get(), info.st_mode & 07777) != 0) fail("cannot finish the copy of", at);
    } else {
      throw FolderFault(at + " is no file, folder or link");
    }
  }
  return true;
}

}  // namespace

bool copy_folder(const std::string& from, const std::string& to, const std::function<bool()>& goes_on) {
  const Fd source(::open(from.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!source.valid()) fail("cannot open", from);
  Dir dir(::fdopendir(::dup(source.get())));
  if (dir == nullptr) fail("cannot read", from);
  if (::mkdir(to.c_str(), 0700) != 0) fail("cannot make", to);
  const Fd place(::open(to.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.valid()) fail("cannot open", to);
  if (!copy_entries(dir, place.get(), from, goes_on, 0)) return false;
  if (::syncfs(place.get()) != 0) fail("cannot finish", to);
  return true;
}

bool remove_some(const std::string& path, int& entries) {
  if (entries <= 0) return false;
  return Removal(path, entries).run();
}

}  // namespace bide::work
