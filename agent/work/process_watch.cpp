#include "agent/work/process_watch.h"

#include <algorithm>

#include "agent/base/limits.h"

namespace bide::work {

// True: every leaf waits, and since the look before nobody came, went or used the processor.
bool ProcessWatch::same_and_waiting(const std::vector<ProcessInfo>& tree, const std::set<int>& waiting) {
  holders_.clear();
  for (const auto& leaf : leaves(tree)) {
    if (!waiting.contains(leaf.key.pid)) holders_.push_back(leaf);
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
