#include "agent/work/program_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "agent/base/fd.h"
#include "agent/base/hash.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::work {
namespace {

// Clocks of file systems tick every 4 ms or so: what was changed this recently may change again under the same time.
constexpr std::int64_t kTooFreshNs = 100'000'000;
constexpr std::size_t kCachedHashes = 16 * limits::kTreeFiles;  // guess; then it begins anew
constexpr int kDeepestFolder = 32;

struct Refused {
  Problem why;
};
// Something changed between two looks: look again.
struct Changed {};

[[noreturn]] void refuse(const char* code, std::string detail, std::string hint = {}) {
  throw Refused{problem(code, std::move(detail), std::move(hint))};
}

std::string stem_of(const std::string& file) {
  const auto dot = file.find('.');
  return dot == 0 ? "" : file.substr(0, dot);
}

// A part of a tree that is pinned cannot be read: it is gone, or is none (looked at again), or the tree is not taken
// without it: no right, no descriptor left.
[[noreturn]] void unreadable(const std::string& path) {
  if (errno == ENOENT || errno == ENOTDIR) throw Changed{};
  refuse("workflow_refused", path + " cannot be read: " + std::strerror(errno),
         "see that the user of the agent can read it, and start it again");
}

// nullopt: it cannot be read, and errno says why.
std::optional<std::vector<std::string>> list_of(const std::string& dir) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(dir.c_str()), ::closedir);
  if (open == nullptr) return std::nullopt;
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return std::nullopt;
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> entries_of(const std::string& dir) {
  auto names = list_of(dir);
  if (!names) unreadable(dir);
  return std::move(*names);
}

bool is_folder(const struct stat& found) { return S_ISDIR(found.st_mode); }
bool is_executable(const struct stat& found) { return S_ISREG(found.st_mode) && (found.st_mode & 0111) != 0; }

std::optional<struct stat> stat_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return found;
}

// What others could change would run as us.
void check_safe(const std::string& path, const struct stat& found) {
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    refuse("workflow_refused", path + " belongs to user " + std::to_string(found.st_uid) + ", who could change it",
           "chown it to the user of the agent");
  }
  if ((found.st_mode & 022) != 0) refuse("workflow_refused", path + " can be written by others", "chmod go-w " + path);
}

// The executable among `names` that is `stem` or `stem.ext`; two are one too many.
std::optional<std::string> executable_in(const std::string& dir, const std::vector<std::string>& names,
                                         const std::string& stem) {
  std::optional<std::string> entry;
  for (const auto& name : names) {
    if (stem_of(name) != stem || name == stem + ".toml") continue;
    const auto found = stat_of(dir + "/" + name);
    if (!found || !is_executable(*found)) continue;
    if (entry) refuse("workflow_refused", dir + " has both " + *entry + " and " + name + ": which is meant?");
    entry = name;
  }
  return entry;
}

std::string read_whole(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) unreadable(path);
  std::string text;
  char buffer[64 * 1024];
  ssize_t n = 0;
  while ((n = ::read(fd.get(), buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) unreadable(path);
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > limits::kTreeBytes) throw Changed{};
  }
  return text;
}

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) != nullptr ? resolved : "";
}

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

}  // namespace

// A file as it was seen in a pass over the tree.
struct ProgramFiles::Seen {
  std::string path;  // below the root
  std::string full;
  int mode = 0;
  Identity identity;
  bool operator==(const Seen&) const = default;
};

// One pass over the files of a workflow: names, modes and identities, no bytes.
struct ProgramFiles::Scan {
  std::string root;
  std::string entry;
  std::string manifest;  // path in the tree, or empty
  std::vector<Seen> files;
  std::int64_t bytes = 0;

  Scan(const std::string& dir, const std::string& name) {
    const auto folder = stat_of(dir);
    if (folder) check_safe(dir, *folder);
    const auto names = folder ? entries_of(dir) : std::vector<std::string>();  // none yet: nothing is there
    const auto alone = executable_in(dir, names, name);
    const auto own_folder = stat_of(dir + "/" + name);
    const bool in_folder = own_folder && is_folder(*own_folder);
    if (alone && in_folder)
      refuse("workflow_refused", dir + " has both " + *alone + " and the folder " + name + ": which is meant?");
    if (in_folder) {
      root = dir + "/" + name;
      boundary_ = real_path(root);
      if (boundary_ != real_path(dir) + "/" + name) refuse("workflow_refused", root + " is a link: copy it", "");
      const auto main = executable_in(root, entries_of(root), "main");
      if (!main) refuse("workflow_unknown", root + " has no executable main", "chmod +x " + root + "/main.*");
      entry = *main;
      walk("", 0);
      take_manifest(dir, name);
    } else if (alone) {
      root = dir;
      boundary_ = real_path(dir);
      entry = *alone;
      add(entry, dir + "/" + entry);
      take_manifest(dir, name);
    } else {
      missing(dir, names, name);
    }
    std::sort(files.begin(), files.end(), [](const Seen& a, const Seen& b) { return a.path < b.path; });
  }

 private:
  [[noreturn]] void missing(const std::string& dir, const std::vector<std::string>& names, const std::string& name) {
    for (const auto& file : names) {
      if (stem_of(file) == name && file != name + ".toml") {
        refuse("workflow_unknown", dir + "/" + file + " is not executable", "chmod +x " + dir + "/" + file);
      }
    }
    refuse("workflow_unknown", "there is no workflow " + name + " in " + dir);
  }

  void walk(const std::string& below, int depth) {
    const std::string dir = below.empty() ? root : root + "/" + below;
    const auto found = stat_of(dir);
    if (!found) throw Changed{};
    check_safe(dir, *found);
    if (depth > kDeepestFolder)
      refuse("workflow_too_large", dir + " lies more than " + std::to_string(kDeepestFolder) + " folders deep");
    for (const auto& name : entries_of(dir)) {
      const std::string path = below.empty() ? name : below + "/" + name;
      struct stat entry_stat {};
      if (::lstat((root + "/" + path).c_str(), &entry_stat) != 0) throw Changed{};
      if (S_ISLNK(entry_stat.st_mode)) {
        check_link(root + "/" + path);
        add(path, root + "/" + path);
      } else if (is_folder(entry_stat)) {
        walk(path, depth + 1);
      } else if (S_ISREG(entry_stat.st_mode)) {
        add(path, root + "/" + path);
      }
    }
  }

  // A link is as good as the file that it names, if that is one of the tree.
  void check_link(const std::string& path) const {
    const std::string target = real_path(path);
    const auto found = stat_of(path);
    if (!found || !S_ISREG(found->st_mode) || !target.starts_with(boundary_ + "/")) {
      refuse("workflow_refused", path + " is a link that does not name a file of this workflow: copy what it names");
    }
  }

  void add(const std::string& path, const std::string& full) {
    const auto found = stat_of(full);
    if (!found || !S_ISREG(found->st_mode)) throw Changed{};
    if (!real_path(full).starts_with(boundary_ + "/"))
      refuse("workflow_refused", full + " is a link out of the workflows: copy it");
    check_safe(full, *found);
    bytes += found->st_size;
    files.push_back(
        {path,
         full,
         (found->st_mode & 0111) != 0 ? 0555 : 0444,
         {found->st_dev, found->st_ino, found->st_size, nanoseconds(found->st_mtim), nanoseconds(found->st_ctim)}});
    if (files.size() > limits::kTreeFiles || bytes > static_cast<std::int64_t>(limits::kTreeBytes)) {
      refuse("workflow_too_large", root + " is larger than " + std::to_string(limits::kTreeFiles) + " files or " +
                                       std::to_string(limits::kTreeBytes) + " bytes (" + std::to_string(files.size()) +
                                       " files, " + std::to_string(bytes) + " bytes so far)");
    }
  }

  void take_manifest(const std::string& dir, const std::string& name) {
    const std::string file = name + ".toml";
    const bool inside = std::any_of(files.begin(), files.end(), [&](const Seen& seen) { return seen.path == file; });
    const bool beside = stat_of(dir + "/" + file).has_value();
    if (inside && beside) refuse("workflow_refused", file + " is both in " + root + " and beside it: which is meant?");
    if (beside) {
      if (root != dir) boundary_ = real_path(dir);
      add(file, dir + "/" + file);
    }
    if (inside || beside) manifest = file;
  }

  std::string boundary_;  // real path that no file may lie outside of
};

std::vector<std::string> ProgramFiles::names() const {
  std::set<std::string> found;
  for (const auto& entry : list_of(dir_).value_or(std::vector<std::string>())) {
    const auto info = stat_of(dir_ + "/" + entry);
    if (!info || entry[0] == '.') continue;
    if (is_executable(*info) && !entry.ends_with(".toml")) found.insert(stem_of(entry));
    if (!is_folder(*info)) continue;
    const auto inner = list_of(dir_ + "/" + entry).value_or(std::vector<std::string>());
    const bool has_main = std::any_of(inner.begin(), inner.end(), [&](const std::string& name) {
      const auto main = stat_of(dir_ + "/" + entry + "/" + name);
      return stem_of(name) == "main" && main && is_executable(*main);
    });
    if (has_main) found.insert(entry);
  }
  return {found.begin(), found.end()};
}

std::string ProgramFiles::hash_of(const std::string& path, const Identity& identity) {
  const std::int64_t now_ns = clock_.wall_ms() * 1'000'000;
  const bool fresh = std::max(identity.mtime_ns, identity.ctime_ns) > now_ns - kTooFreshNs;
  if (!fresh) {
    Lock lock(mutex_);
    if (const auto known = hashes_.find(identity); known != hashes_.end()) return known->second;
  }
  std::string hash = sha256(read_whole(path));
  if (!fresh) {
    Lock lock(mutex_);
    if (hashes_.size() >= kCachedHashes) hashes_.clear();
    hashes_[identity] = hash;
  }
  return hash;
}

std::variant<ProgramTree, Problem> ProgramFiles::read_once(const std::string& name) {
  const Scan scan(dir_, name);
  ProgramTree tree{name, "", scan.entry, scan.root, {}, {}};
  std::string listing;
  for (const auto& seen : scan.files) {
    kernel::ProgramFile file{seen.path, seen.mode, hash_of(seen.full, seen.identity)};
    listing += file.path;
    listing += '\0';
    listing += seen.mode == 0555 ? 'x' : '-';
    listing += file.sha256;
    tree.files.push_back(std::move(file));
    if (seen.path != scan.manifest) continue;
    auto parsed = parse_manifest(read_whole(seen.full), scan.manifest);
    if (auto* wrong = std::get_if<Problem>(&parsed)) return std::move(*wrong);
    tree.manifest = std::move(std::get<Manifest>(parsed));
  }
  tree.version = to_hex(sha256(listing));
  if (Scan(dir_, name).files != scan.files) throw Changed{};
  return tree;
}

std::variant<ProgramTree, Problem> ProgramFiles::read(const std::string& name) {
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos || name.find('.') != std::string::npos) {
    return problem("workflow_unknown", "\"" + name + "\" is no name of a workflow");
  }
  try {
    for (int look = 0; look < limits::kTreeReadTries; ++look) {
      try {
        return read_once(name);
      } catch (const Changed&) {
      }
    }
    return problem(
        "workflow_changing",
        "the files of " + name + " changed while they were read, " + std::to_string(limits::kTreeReadTries) + " times",
        "start it again");
  } catch (Refused& refused) {
    if (refused.why.code == "workflow_unknown" && refused.why.hint.empty()) {
      const std::string near = nearest(name, names());
      refused.why.hint = near.empty() ? "" : "did you mean " + near + "?";
    }
    return std::move(refused.why);
  }
}

std::variant<std::string, Problem> ProgramFiles::bytes(const ProgramTree& tree, const kernel::ProgramFile& file) const {
  // A manifest beside a folder is the one file that lies above its root.
  std::string path = tree.root + "/" + file.path;
  if (!stat_of(path)) path = dir_ + "/" + file.path;
  try {
    std::string text = read_whole(path);
    if (sha256(text) == file.sha256) return text;
  } catch (const Changed&) {
  } catch (Refused& refused) {
    return std::move(refused.why);
  }
  return problem("workflow_changing", path + " changed while it was read", "start it again");
}

}  // namespace bide::work
