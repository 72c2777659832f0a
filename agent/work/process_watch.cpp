#include "agent/work/process_watch.h"

#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "agent/base/limits.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

// "pipe:[INODE]" of a descriptor; empty: none, or no pipe.
std::string pipe_at(int pid, unsigned long fd) {
  std::error_code error;
  const std::string link = fs::read_symlink("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd), error);
  return !error && link.starts_with("pipe:") ? link : "";
}

// The pipe that a process of one thread sleeps in read(2) on (also when it was stopped there); empty: none, it does
// something else, or may not be looked at.
std::string pipe_being_read(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::error_code error;
  fs::directory_iterator threads(folder + "/task", error);
  if (error || std::distance(begin(threads), end(threads)) != 1) return "";
  std::ifstream in(folder + "/syscall");  // proc(5): number and arguments, or "running"
  long call = -1;
  unsigned long fd = 0;
  if (!(in >> call >> std::hex >> fd) || call != SYS_read) return "";
  return pipe_at(pid, fd);
}

// programs.md: a leaf that reads a pipe whose writer (descriptor 1 or 2) waits, or is such a reader, waits with it.
std::set<int> with_readers(const std::vector<ProcessInfo>& leaves, const std::set<int>& waiting) {
  std::set<int> still;
  for (const auto& leaf : leaves) {
    if (waiting.contains(leaf.key.pid)) still.insert(leaf.key.pid);
  }
  const auto written_by_one = [&](const std::string& pipe) {
    return std::any_of(still.begin(), still.end(),
                       [&](int pid) { return pipe_at(pid, 1) == pipe || pipe_at(pid, 2) == pipe; });
  };
  for (bool more = true; more;) {
    more = false;
    for (const auto& leaf : leaves) {
      if (still.contains(leaf.key.pid)) continue;
      const std::string pipe = pipe_being_read(leaf.key.pid);
      if (!pipe.empty() && written_by_one(pipe)) more = still.insert(leaf.key.pid).second;
    }
  }
  return still;
}

}  // namespace

// True: every leaf waits (or reads what one that waits writes), and since the look before nobody came, went or used the
// processor.
bool ProcessWatch::same_and_waiting(const std::vector<ProcessInfo>& tree, const std::set<int>& waiting) {
  holders_.clear();
  const std::vector<ProcessInfo> ends = leaves(tree);
  const std::set<int> still = with_readers(ends, waiting);
  for (const auto& leaf : ends) {
    if (!still.contains(leaf.key.pid)) holders_.push_back(leaf);
  }
  bool same = tree.size() == tree_.size();
  for (const auto& process : tree) {
    const auto before =
        std::find_if(tree_.begin(), tree_.end(), [&](const auto& seen) { return seen.key == process.key; });
    if (before == tree_.end()) {
      same = false;
    } else if (before->cpu_ticks != process.cpu_ticks) {
      same = false;
      const bool named =
          std::any_of(holders_.begin(), holders_.end(), [&](const auto& h) { return h.key == process.key; });
      if (!named) holders_.push_back(process);
    }
  }
  return same && holders_.empty();
}

ProcessWatch::Verdict ProcessWatch::look(const std::set<int>& waiting, BootMs now) {
  auto tree = descendants(scope_.root.pid);
  const bool quiet = same_and_waiting(tree, waiting);
  tree_ = std::move(tree);
  if (!quiet) ready_at_ = now + limits::kLingerMs;
  if (tree_.empty()) return Verdict::empty;
  if (!holders_.empty()) return Verdict::held;
  return now >= ready_at_ ? Verdict::ready : Verdict::lingering;
}

std::string ProcessWatch::held_by() const {
  if (holders_.empty()) return {};
  return "held by pid " + std::to_string(holders_.front().key.pid) + " " + holders_.front().name;
}

bool ProcessWatch::stop_and_look(const std::function<std::set<int>()>& waiting) {
  frozen_ = freeze(scope_);
  const auto tree = descendants(scope_.root.pid);
  const bool all_stopped = tree.size() == frozen_.size() &&
                           std::all_of(frozen_.begin(), frozen_.end(), [](const auto& info) { return info.stopped(); });
  const bool quiet = same_and_waiting(tree, waiting());
  if (quiet && all_stopped && !tree.empty()) return true;
  tree_.clear();  // the next look finds a change: the linger begins anew
  thaw();
  return false;
}

void ProcessWatch::thaw() {
  bide::thaw(frozen_);
  frozen_.clear();
}

}  // namespace bide::work
