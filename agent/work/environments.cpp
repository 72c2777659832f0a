#include "agent/work/environments.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "agent/base/limits.h"
#include "agent/base/log.h"
#include "agent/base/thread_name.h"
#include "agent/work/folders.h"

namespace bide::work {
namespace {

// All of it, as long as it takes: this is not the sweep's thread.
void remove_whole(const std::string& path) {
  for (bool gone = false; !gone;) {
    int entries = limits::kRetentionEntries;
    gone = remove_some(path, entries);
  }
}

void rename_to(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT)
    throw FolderFault("cannot rename " + from + ": " + std::strerror(errno));
}

bool exists(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

Problem invalid(const std::string& pointer, const std::string& detail) {
  Problem bad = problem("invalid", pointer + " " + detail);
  bad.errors.push_back({pointer, detail});
  return bad;
}

std::optional<Problem> refused(const EnvironmentAsk& ask) {
  if (!kernel::is_environment_name(ask.name)) {
    return invalid("/name", "is 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit");
  }
  struct stat info = {};
  if (ask.seed && (ask.seed->empty() || ask.seed->front() != '/' || ::stat(ask.seed->c_str(), &info) != 0 ||
                   !S_ISDIR(info.st_mode))) {
    return invalid("/seed", "is the whole path of a folder");
  }
  if (ask.delete_after && *ask.delete_after < limits::kLeastDeleteAfterMs)
    return invalid("/delete_after", "is a minute or more");
  return std::nullopt;
}

}  // namespace

Environments::Environments(db::Store& store, std::function<void()> ready)
    : store_(store), directory_(store.directory() + "/environments"), ready_(std::move(ready)) {}

Environments::~Environments() { stop(); }

kernel::AddEnvironment Environments::add(const EnvironmentAsk& ask, const kernel::Principal& by) {
  if (auto bad = refused(ask)) return *bad;
  const kernel::NewEnvironment wanted{ask.name, directory_ + "/" + ask.name, ask.owner, ask.seed, ask.delete_after};
  auto outcome = store_.write([&](db::Tx& tx) { return kernel::add_environment(tx, wanted, by.name, tx.now()); });
  if (std::holds_alternative<kernel::EnvironmentRow>(outcome)) ask_for(ask.name);
  return outcome;
}

std::optional<Problem> Environments::remove(const std::string& name, const kernel::Principal& by) {
  // In the transaction: an attempt that begins in it later finds it gone.
  auto refusal = store_.write([&](db::Tx& tx) -> std::optional<Problem> {
    if (!kernel::read_environment(tx, name))
      return problem("environment_not_found", "There is no environment " + name + ".", "bide environment list");
    if (in_use(name)) {
      return problem("environment_in_use", "An attempt works in " + name + " just now.", "bide runs --status running");
    }
    (void)kernel::begin_deleting(tx, name, "removed by " + by.name, tx.now());
    return std::nullopt;
  });
  if (!refusal) ask_for(name);
  return refusal;
}

void Environments::ask_for(const std::string& name) {
  {
    Lock lock(mutex_);
    if (std::find(todo_.begin(), todo_.end(), name) == todo_.end()) todo_.push_back(name);
  }
  work_there_.notify_all();
}

bool Environments::in_use(const std::string& name) const {
  Lock lock(mutex_);
  return uses_.contains(name);
}

std::variant<Environments::Use, std::string> Environments::use(const std::string& name) {
  {
    Lock lock(mutex_);
    ++uses_[name];  // before it is looked for: a removal that comes in between sees it, or is seen
  }
  Use use(*this, name, directory_ + "/" + name);
  std::optional<kernel::EnvironmentRow> row;
  const bool ready = store_.write([&](db::Tx& tx) {
    row = kernel::read_environment(tx, name);
    return kernel::use_environment(tx, name, tx.now());
  });
  if (ready) return use;
  return std::string(row && row->status == "seeding" ? "environment_seeding" : "environment_missing");
}

Environments::Use::~Use() {
  if (all_ != nullptr) all_->end_use(name_);
}

void Environments::end_use(const std::string& name) {
  try {  // it was in use until now
    (void)store_.write([&](db::Tx& tx) { return kernel::use_environment(tx, name, tx.now()); });
  } catch (const std::exception& e) {
    log::warn("environment.use_not_noted", {{"environment", name}, {"error", e.what()}});
  }
  Lock lock(mutex_);
  const auto it = uses_.find(name);
  if (it != uses_.end() && --it->second == 0) uses_.erase(it);
}

std::int64_t Environments::sweep(TimeMs now) {
  if (store_.clock().held()) return 0;
  std::int64_t done = 0;
  for (const std::string& name : store_.read([&](db::ReadTx& tx) { return kernel::unused_environments(tx, now); })) {
    if (in_use(name)) continue;
    const bool begun = store_.write([&](db::Tx& tx) {
      const auto still = kernel::unused_environments(tx, tx.now());
      if (in_use(name) || std::find(still.begin(), still.end(), name) == still.end()) return false;
      return kernel::begin_deleting(tx, name, "unused, or the run that owned it has ended", tx.now());
    });
    if (!begun) continue;
    ask_for(name);
    ++done;
  }
  const auto stalled = store_.read([&](db::ReadTx& tx) {
    return kernel::stalled_changes(tx, now - limits::kEnvironmentStalledMs, limits::kEnvironments);
  });
  for (const kernel::EnvironmentRow& row : stalled) {
    {
      Lock lock(mutex_);
      if (doing_ == row.name || std::find(todo_.begin(), todo_.end(), row.name) != todo_.end()) continue;
    }
    ask_for(row.name);
    ++done;
  }
  return done;
}

std::optional<DurationMs> Environments::look(TimeMs now) {
  const auto due = store_.read([](db::ReadTx& tx) { return kernel::next_environment_due(tx); });
  if (!due) return std::nullopt;
  // What is due and could not be begun (in use, under way) is looked at again when it may have changed.
  return *due > now ? *due - now : limits::kEnvironmentStalledMs;
}

bool Environments::run_one() {
  std::string name;
  {
    Lock lock(mutex_);
    if (todo_.empty()) return false;
    name = todo_.front();
    todo_.pop_front();
    doing_ = name;
  }
  struct Done {
    Environments& all;
    ~Done() {
      Lock lock(all.mutex_);
      all.doing_.clear();
    }
  } const done{*this};
  try {
    const auto row = store_.read([&](db::ReadTx& tx) { return kernel::read_environment(tx, name); });
    if (!row || row->status == "ready") return true;
    if (!store_.write([&](db::Tx& tx) { return kernel::take_up(tx, *row, tx.now()); })) return true;
    row->status == "seeding" ? seed(*row) : remove_folder(*row);
  } catch (const FolderFault& e) {
    log::warn("environment.failed", {{"environment", name}, {"error", e.what()}});
    store_.write([&](db::Tx& tx) { kernel::note_environment_error(tx, name, e.what()); });
  }
  return true;
}

// Beside its place first. A folder that stands in its place was swapped in by somebody who died before he could say so.
void Environments::seed(const kernel::EnvironmentRow& row) {
  std::error_code made;
  std::filesystem::create_directories(directory_, made);
  const std::string copy = directory_ + "/.seed-" + row.name;
  remove_whole(copy);
  if (!exists(row.path)) {
    const auto goes_on = [this] {
      if (on_copied) on_copied();
      return !stopping_.load();
    };
    if (row.seed) {
      if (!copy_folder(*row.seed, copy, goes_on)) return;
    } else if (::mkdir(copy.c_str(), 0700) != 0) {
      throw FolderFault("cannot make " + copy + ": " + std::strerror(errno));
    }
    if (::chmod(copy.c_str(), 0700) != 0) throw FolderFault("cannot finish " + copy + ": " + std::strerror(errno));
    rename_to(copy, row.path);
  }
  const bool ready = store_.write([&](db::Tx& tx) {
    if (!kernel::environment_ready(tx, row.name, tx.now())) return false;
    (void)kernel::wake_for_environment(tx, tx.now());
    if (ready_) tx.after_commit(ready_);
    return true;
  });
  log::info("environment.ready", {{"environment", row.name}, {"told", ready ? 1 : 0}});
}

void Environments::remove_folder(const kernel::EnvironmentRow& row) {
  const std::string going = directory_ + "/.going-" + row.name;
  remove_whole(going);
  rename_to(row.path, going);
  remove_whole(directory_ + "/.seed-" + row.name);
  remove_whole(going);
  store_.write([&](db::Tx& tx) { return kernel::environment_deleted(tx, row.name, tx.now()); });
  log::info("environment.deleted", {{"environment", row.name}});
}

void Environments::start() {
  thread_ = std::jthread([this](std::stop_token stop) NO_THREAD_SAFETY_ANALYSIS {
    name_thread("bide-environ");
    while (!stop.stop_requested()) {
      {
        std::unique_lock lock(mutex_);
        work_there_.wait(lock, [&]() REQUIRES(mutex_) { return !todo_.empty() || stop.stop_requested(); });
      }
      try {
        if (!stop.stop_requested()) (void)run_one();
      } catch (const std::exception& e) {  // the store's: the row stays, and is taken up again
        log::warn("environment.failed", {{"error", e.what()}});
      }
    }
  });
}

void Environments::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  {
    Lock lock(mutex_);  // whoever has looked and does not sleep yet would miss the bell
    thread_.request_stop();
  }
  work_there_.notify_all();
  thread_.join();
}

}  // namespace bide::work
