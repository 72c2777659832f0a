#include "agent/cli/scratch.h"

#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "agent/base/errors.h"

namespace bide::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 80;  // a socket's path has 108 bytes
constexpr int kWorkers = 16;          // the run, its children, and some to spare

}  // namespace

Scratch::Scratch(const std::string& keep) : kept_(!keep.empty()) {
  if (kept_) {
    path_ = fs::absolute(keep).string();
    if (fs::exists(path_) && !fs::is_empty(path_)) throw ConfigFault("--keep " + keep + ": it is not empty");
    fs::create_directories(path_);
    return;
  }
  std::string pattern = (fs::temp_directory_path() / "bide-rehearsal-XXXXXX").string();
  if (pattern.size() > kLongest) pattern = "/tmp/bide-rehearsal-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    throw ConfigFault("cannot make a folder like " + pattern + ": " + std::strerror(errno));
  path_ = pattern;
}

// Versions are laid out read-only: they are made writable before they go.
Scratch::~Scratch() {
  if (kept_) return;
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(path_, ignored), end; !ignored && it != end; it.increment(ignored)) {
    std::error_code no_matter;
    if (it->is_directory(no_matter) && !it->is_symlink(no_matter))
      fs::permissions(it->path(), fs::perms::owner_all, fs::perm_options::add, no_matter);
  }
  fs::remove_all(path_, ignored);
}

void Scratch::take_in(Config& config) const {
  const std::string secrets = config.data_dir + "/secrets";
  config.data_dir = path_ + "/data";
  fs::create_directories(config.data_dir);
  fs::permissions(config.data_dir, fs::perms::owner_all);
  std::error_code failed;
  if (fs::is_directory(secrets, failed)) fs::create_symlink(secrets, config.data_dir + "/secrets");
  config.socket = path_ + "/s";
  config.listen.clear();
  config.durability = db::Durability::relaxed;  // nothing of it outlives us
  config.workers = kWorkers;
}

bool was_signalled() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  const timespec none{};
  return ::sigtimedwait(&set, nullptr, &none) > 0;
}

}  // namespace bide::cli
