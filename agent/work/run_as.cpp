#include "agent/work/run_as.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "agent/base/fd.h"
#include "agent/base/file_access.h"
#include "agent/base/log.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntryBytes = 1 << 20;  // of a user in the password database
constexpr int kMostGroups = 65'536;               // NGROUPS_MAX

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::runtime_error("cannot " + what + " " + path + ": " + std::strerror(errno));
}

std::vector<gid_t> groups_of(const std::string& name, gid_t gid) {
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  while (::getgrouplist(name.c_str(), gid, groups.data(), &count) < 0 && count <= kMostGroups) {
    groups.resize(static_cast<std::size_t>(count));
  }
  groups.resize(static_cast<std::size_t>(count));
  return groups;
}

std::optional<RunAsUser> user_named(const std::string& name) {
  std::string buffer(4096, '\0');
  passwd entry{};
  passwd* found = nullptr;
  while (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == ERANGE &&
         buffer.size() < kMostEntryBytes) {
    buffer.resize(buffer.size() * 2);
  }
  if (found == nullptr) return std::nullopt;
  return RunAsUser{entry.pw_name, entry.pw_uid, entry.pw_gid, groups_of(name, entry.pw_gid), entry.pw_dir};
}

// It has no ACL yet: what its mode gives to group and others is taken from them first.
void close(const std::string& path, mode_t mode) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || found.st_uid != ::geteuid() || !users_allowed(path).empty()) return;
  if ((S_ISDIR(found.st_mode) || S_ISREG(found.st_mode)) && (found.st_mode & 077) != 0 &&
      ::fchmodat(AT_FDCWD, path.c_str(), mode, 0) != 0) {
    fail("close", path);
  }
}

void close_all_in(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path();
    if (it->is_symlink(error)) continue;
    close(path, it->is_directory(error) ? 0700 : 0600);
  }
}

// Whoever may write into the folder removes and renames only what is its own.
void keep_to_owners(const std::string& folder) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) fail("look at", folder);
  if ((found.st_mode & S_ISVTX) == 0 && ::chmod(folder.c_str(), (found.st_mode & 0777) | S_ISVTX) != 0)
    fail("protect", folder);
}

void give(const Fd& fd, const std::string& path, const RunAsUser& user, mode_t mode) {
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0) fail("open", path);
  if (found.st_uid == user.uid) return;
  if (::fchmod(fd.get(), mode) != 0 || ::fchown(fd.get(), user.uid, user.gid) != 0) fail("give away", path);
}

}  // namespace

std::string RunAsUser::ids() const {
  std::string text = std::to_string(uid) + ":" + std::to_string(gid) + ":";
  for (const gid_t group : groups) text += (text.back() == ':' ? "" : ",") + std::to_string(group);
  return text;
}

std::variant<RunAsUser, std::string> find_run_as(const std::string& name) {
  const std::string said = "run_as = \"" + name + "\"";
  if (::geteuid() != 0) {
    return said + " needs an agent that runs as root, and this one runs as uid " + std::to_string(::geteuid()) +
           ": start it as the system's service, or take run_as out of the manifest";
  }
  auto user = user_named(name);
  if (!user) return said + ": there is no such user on this machine (getent passwd " + name + ")";
  if (user->uid == 0) return said + " is the agent's own user, and no wall: name another, or take it out";
  return std::move(*user);
}

void RunAs::close_to_others() {
  if (closed_) return;
  close_all_in(directory_);
  for (const char* folder : {"/workspaces", "/logs", "/outcomes", "/attempt-secrets", "/outputs"}) {
    close_all_in(directory_ + folder);
  }
  closed_ = true;
}

void RunAs::open_ways(const RunAsUser& user) {
  Lock lock(mutex_);
  close_to_others();
  const auto folder = [&](const std::string& name, unsigned may) {
    const std::string path = directory_ + name;
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail("make", path);
    close(path, 0700);
    allow_user(path, user.uid, may);
  };
  folder("/workspaces", kMayEnter);
  folder("/versions", kMayEnter);
  folder("/attempt-secrets", kMayEnter);
  folder("/outputs", kMayEnter | kMayRead);  // it is synced after a new file
  folder("/outcomes", kMayEnter | kMayWrite);
  keep_to_owners(directory_ + "/outcomes");
  allow_user(directory_, user.uid, kMayEnter);
  allow_user(fs::path(socket_).parent_path(), user.uid, kMayEnter);
  allow_user(socket_, user.uid, kMayRead | kMayWrite);
}

void RunAs::open_door() {
  Lock lock(mutex_);
  try {
    for (const uid_t uid : users_allowed(directory_)) {
      allow_user(directory_, uid, kMayEnter);
      allow_user(fs::path(socket_).parent_path(), uid, kMayEnter);
      allow_user(socket_, uid, kMayRead | kMayWrite);
    }
  } catch (const std::runtime_error& e) {  // their next attempt asks again, and says what is wrong
    log::warn("program.door_closed", {{"error", e.what()}});
  }
}

void RunAs::own_folder(const std::string& path, const RunAsUser& user) const {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail("make", path);
  give(Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)), path, user, 0700);
}

void RunAs::own_file(const std::string& path, const RunAsUser& user) const {
  give(Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600)), path, user, 0600);
}

void RunAs::lend(const std::string& folder, const RunAsUser& user) const {
  for (const auto& entry : fs::directory_iterator(folder)) own_file(entry.path(), user);
  allow_user(folder, user.uid, kMayEnter | kMayRead);
}

}  // namespace bide::work
