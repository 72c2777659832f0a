#include "agent/work/replay_check.h"

#include <algorithm>
#include <filesystem>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/kernel/import.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

constexpr DurationMs kLookMs = 50;
constexpr std::uintmax_t kCopyMost = 1U << 30;  // of a workspace: more is not copied to be looked at

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  if (what.empty()) return text;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

// The workspace's path stands in what was asked for and what was given: there it is the copy's.
void move_paths(RecordedRun& run, const std::string& copy) {
  for (kernel::StepRow& step : run.journal) {
    step.request = replaced(std::move(step.request), run.workspace, copy);
    step.request_hash = sha256(json::canonical(step.request));
    step.position = replaced(std::move(step.position), percent_encode(run.workspace), percent_encode(copy));
    if (step.result) step.result = replaced(std::move(*step.result), run.workspace, copy);
    if (step.error) step.error = replaced(std::move(*step.error), run.workspace, copy);
  }
}

void copy_workspace(const std::string& from, const std::string& to) {
  fs::create_directories(to);
  if (from.empty() || !fs::exists(from)) return;
  std::uintmax_t size = 0;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (entry.is_regular_file() && !entry.is_symlink()) size += entry.file_size();
    if (size > kCopyMost) throw CannotRehearse("the workspace " + from + " is too large to be copied (over 1 GiB)");
  }
  for (fs::recursive_directory_iterator it(from), end; it != end; ++it) {
    const fs::path place = fs::path(to) / it->path().lexically_relative(from);
    if (it->is_symlink()) {
      fs::copy_symlink(it->path(), place);
    } else if (it->is_directory()) {
      fs::create_directory(place, it->path());
    } else if (it->is_regular_file()) {
      fs::copy_file(it->path(), place);
    }
  }
}

ReplayVerdict verdict(const kernel::RunRow& row, const RecordedRun& run, const std::string& copy) {
  ReplayVerdict said{run.id, run.status, ReplayVerdict::Says::fails, "", ""};
  if (row.status == kernel::RunStatus::completed) {
    said.says = ReplayVerdict::Says::completes;
    return said;
  }
  const std::string error = row.error.value_or("{}");
  if (json::string_member(error, "code") == flow::Rehearsal::kGoesOn) {
    said.says = ReplayVerdict::Says::goes_on;
    said.where = json::string_member(error, "message").value_or("");
  } else {
    said.error = replaced(error, copy, run.workspace);
  }
  return said;
}

}  // namespace

std::vector<ReplayVerdict> replay_all(Commands& commands, const std::string& workflow, std::vector<RecordedRun> runs,
                                      const std::string& workspaces, DurationMs most,
                                      const std::function<bool()>& interrupted) {
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const auto found = commands.find_workflow(workflow);
  if (const auto* refused = std::get_if<Problem>(&found)) throw CannotRehearse(refused->detail);
  const auto& startable = std::get<Startable>(found);
  const auto copy_of = [&](const RecordedRun& run) { return workspaces + std::to_string(run.id.value); };
  db::Store& store = commands.store();
  for (RecordedRun& run : runs) {
    copy_workspace(run.workspace, copy_of(run));
    move_paths(run, copy_of(run));
    store.write([&](db::Tx& tx) {
      kernel::import_run(tx, {run.id, startable.workflow, startable.version, "check", run.input, "check", run.journal},
                         tx.now());
    });
    commands.executor().ring();
  }
  SystemClock clock;
  const BootMs until = clock.boot_ms() + most;
  std::vector<ReplayVerdict> said;
  for (const RecordedRun& run : runs) {
    for (;;) {
      const auto seen = commands.feed().seen();
      const auto row = store.read([&](db::ReadTx& tx) { return kernel::read_run(tx, run.id); });
      if (row && kernel::terminal(row->status)) {
        said.push_back(verdict(*row, run, copy_of(run)));
        break;
      }
      if (interrupted()) throw CannotRehearse("it was interrupted");
      if (clock.boot_ms() > until)
        throw CannotRehearse("the replay of run " + std::to_string(run.id.value) + " has not ended within " +
                             format_duration(most));
      (void)commands.feed().wait(seen, kLookMs);
    }
  }
  return said;
}

}  // namespace bide::work
