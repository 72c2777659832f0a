// ProcessWatch: decides when a program attempt may be suspended: every leaf of its process tree waits for us.
// Look for `linger` long; then stop the tree, look again, and keep it stopped for the fenced transaction [A2, V2].
//
// Threads: one owner. No failures: what cannot be read counts as a process that works on.
// Whether a step executes is the caller's to know; it does not ask then.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/process_tree.h"
#include "agent/base/time.h"

namespace bide::work {

class ProcessWatch {
 public:
  // `scope.root` is the guard, which is never part of the tree.
  explicit ProcessWatch(TreeScope scope) : scope_(std::move(scope)) {}

  enum class Verdict {
    empty,      // no process is there
    held,       // holders() work on
    lingering,  // all wait, not yet for limits::kLingerMs: look again at ready_at()
    ready,      // all have waited for so long: stop_and_look()
  };
  // `waiting`: pids with an open wait request on the attempt's socket.
  Verdict look(const std::set<int>& waiting, BootMs now);
  [[nodiscard]] BootMs ready_at() const { return ready_at_; }
  // Who keeps the attempt from being suspended: leaves that do not wait, and those that used the processor.
  [[nodiscard]] const std::vector<ProcessInfo>& holders() const { return holders_; }
  // "held by pid 812 tar", for `bide explain`; empty: nobody.
  [[nodiscard]] std::string held_by() const;

  // Stops the tree, asks `waiting` again (an answer may have gone out meanwhile), and looks. True: all still wait,
  // nothing new was started, and the tree is stopped: end it or thaw() it. False: it goes on already.
  bool stop_and_look(const std::function<std::set<int>()>& waiting);
  void thaw();

 private:
  bool same_and_waiting(const std::vector<ProcessInfo>& tree, const std::set<int>& waiting);

  const TreeScope scope_;
  std::vector<ProcessInfo> tree_;  // as last seen
  std::vector<ProcessInfo> holders_;
  std::vector<ProcessInfo> frozen_;
  BootMs ready_at_ = 0;
};

}  // namespace bide::work
