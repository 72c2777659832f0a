// Environments: named folders that runs share, below DIR/environments [W8]. One thread makes and removes them, so that
// there is one copier; the sweep's duty finds what is unused, whose owner is gone, and changes that stalled.
//
// A seed is copied beside its place and swapped in whole by a rename; a copy that was cut off starts over, 60 s after
// somebody last took it up. What is removed is renamed first. While an attempt works in one it is not removed.
//
// Threads: run_one() is what the thread does, or a test; the rest any. Failures: what cannot be copied or removed
// stands in the row (last_error), is warned of, and tried again every 60 s.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "agent/base/mutex.h"
#include "agent/kernel/environments.h"
#include "agent/kernel/principal.h"
#include "db/store.h"

namespace bide::work {

struct EnvironmentAsk {
  std::string name;
  std::optional<std::string> seed;  // an absolute path of a folder
  std::optional<DurationMs> delete_after;
  RunId owner;  // goes when this run has ended
};

class Environments {
 public:
  // `ready`: a bell, rung when runs that waited for one are due.
  Environments(db::Store& store, std::function<void()> ready);
  ~Environments();
  Environments(const Environments&) = delete;
  Environments& operator=(const Environments&) = delete;

  // Problem codes: invalid 422, environment_exists, too_many_environments, run_not_found.
  [[nodiscard]] kernel::AddEnvironment add(const EnvironmentAsk& ask, const kernel::Principal& by);
  // Problem codes: environment_not_found, environment_in_use.
  [[nodiscard]] std::optional<Problem> remove(const std::string& name, const kernel::Principal& by);

  // An attempt works in it as long as this lives.
  class Use {
   public:
    Use(Environments& all, std::string name, std::string path)
        : all_(&all), name_(std::move(name)), path_(std::move(path)) {}
    Use(Use&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)), name_(std::move(other.name_)), path_(std::move(other.path_)) {}
    Use& operator=(Use&&) = delete;
    ~Use();
    [[nodiscard]] const std::string& path() const { return path_; }

   private:
    Environments* all_;
    std::string name_;
    std::string path_;
  };
  // Or the reason why not: environment_missing, environment_seeding.
  [[nodiscard]] std::variant<Use, std::string> use(const std::string& name);

  // W8: how many changes it began or took up again.
  std::int64_t sweep(TimeMs now);
  [[nodiscard]] std::optional<DurationMs> look(TimeMs now);

  // One change, whole; false: none is there to do.
  bool run_one();
  void start();
  void stop();  // a copy that is under way is cut off

  // Called for each entry that was copied; tests.
  std::function<void()> on_copied;

 private:
  void ask_for(const std::string& name);
  [[nodiscard]] bool in_use(const std::string& name) const;
  void end_use(const std::string& name);
  void seed(const kernel::EnvironmentRow& row);
  void remove_folder(const kernel::EnvironmentRow& row);

  db::Store& store_;
  const std::string directory_;
  const std::function<void()> ready_;
  std::atomic<bool> stopping_{false};

  mutable Mutex mutex_;
  Condition work_there_;
  std::deque<std::string> todo_ GUARDED_BY(mutex_);
  std::string doing_ GUARDED_BY(mutex_);
  std::map<std::string, int> uses_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace bide::work
