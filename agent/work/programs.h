// Programs: what `start` finds in the workflows' folder, pinned into the file; and a pinned version laid out to run.
//
// Threads: any. Failures: Problems for what a caller can cure; std::runtime_error when a version cannot be laid out
// [E8]. Ownership: Store, ProgramFiles and ProgramDriver outlive it.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "agent/base/mutex.h"
#include "agent/work/commands.h"
#include "agent/work/program_driver.h"
#include "agent/work/program_files.h"
#include "db/store.h"

namespace bide::work {

class Programs {
 public:
  Programs(db::Store& store, ProgramFiles& files, std::string versions_dir);
  void set_driver(ProgramDriver* driver) { driver_ = driver; }

  // Reads the tree, stores what of it is new (bytes first, 1 MiB a transaction), and names the version to start.
  [[nodiscard]] std::variant<Startable, Problem> find(const std::string& name);
  // K1: max_running is that of the newest version: what lies in the folder now, else what was pinned last. Told to the
  // driver. Live runs of versions that it accepts go on in it [K1]. True: a limit has changed, or a run was moved. A
  // sweep duty, and once before the first claim.
  bool learn_limits();
  // The pinned version as a read-only folder under DIR/versions/.
  [[nodiscard]] ProgramHome lay_out(const kernel::VersionRow& version);

  // For retention, asked on the writer: a version with this text was found within limits::kFoundMs, and a start may be
  // about to use it; a tree is being stored, whose bytes no version has yet.
  [[nodiscard]] bool found_lately(const std::string& version) const;
  [[nodiscard]] bool storing() const;

 private:
  class Finding;
  [[nodiscard]] bool move_accepted(const ProgramTree& tree);
  [[nodiscard]] std::optional<Problem> store_bytes(const ProgramTree& tree);

  db::Store& store_;
  ProgramFiles& files_;
  const std::string versions_dir_;
  ProgramDriver* driver_ = nullptr;

  mutable Mutex mutex_;
  int finding_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, BootMs> found_ GUARDED_BY(mutex_);  // by the version's text
};

}  // namespace bide::work
