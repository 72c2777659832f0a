// Program workflows as files: which there are, what a version is made of, and a version laid out to run from.
//
// A workflow is NAME or NAME.ext (executable), or a folder NAME/ with an executable main or main.ext; NAME.toml stands
// beside it or in it. All regular files of it are the version, by hash. What others could change is refused by name.
// Threads: ProgramFiles is thread-safe (its cache has a lock); the rest are plain functions.
// Failures are Problems: workflow_unknown, workflow_refused, workflow_changing, workflow_too_large, manifest_invalid;
// a layout that cannot be written is a fault of ours [E8], as text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/errors.h"
#include "agent/base/mutex.h"
#include "agent/kernel/workflows.h"
#include "agent/work/manifest.h"

namespace bide::work {

// A version as it was found in the workflows' folder.
struct ProgramTree {
  std::string name;
  std::string version;                     // hexadecimal SHA-256 over paths, modes and bytes
  std::string entry;                       // the executable, as a path in the tree
  std::string root;                        // the folder in which the files lie now; paths are below it
  std::vector<kernel::ProgramFile> files;  // by path; mode is 0444 or 0555
  Manifest manifest;
};

class ProgramFiles {
 public:
  ProgramFiles(std::string workflows_dir, Clock& clock) : dir_(std::move(workflows_dir)), clock_(clock) {}

  // Names of all that could be started, sorted. A name that is there twice is in it once.
  [[nodiscard]] std::vector<std::string> names() const;
  // Reads (or knows from its cache) the tree of a workflow.
  [[nodiscard]] std::variant<ProgramTree, Problem> read(const std::string& name);
  // The bytes of a file of a tree that was read; workflow_changing if they are not those any more.
  [[nodiscard]] std::variant<std::string, Problem> bytes(const ProgramTree& tree,
                                                         const kernel::ProgramFile& file) const;

 private:
  // What tells that a file has not changed since it was hashed.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = 0;
    std::int64_t mtime_ns = 0;
    std::int64_t ctime_ns = 0;
    auto operator<=>(const Identity&) const = default;
  };
  struct Seen;
  struct Scan;
  friend struct Scan;

  [[nodiscard]] std::variant<ProgramTree, Problem> read_once(const std::string& name);
  [[nodiscard]] std::string hash_of(const std::string& path, const Identity& identity);

  const std::string dir_;
  Clock& clock_;
  Mutex mutex_;
  std::map<Identity, std::string> hashes_ GUARDED_BY(mutex_);
};

struct LayoutFailed {
  std::string text;
};
// Makes VERSIONS_DIR/VERSION/ with the files, read-only, in one rename; there already: nothing is done. Yields its
// path.
[[nodiscard]] std::variant<std::string, LayoutFailed> lay_out(
    const std::string& versions_dir, const std::string& version, const std::vector<kernel::ProgramFile>& files,
    const std::function<std::string(const kernel::ProgramFile&)>& bytes_of);

}  // namespace bide::work
