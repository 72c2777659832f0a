#include "agent/base/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <unordered_map>

#include "agent/base/fd.h"

namespace bide {
namespace {

constexpr int kFreezePasses = 100;     // then what is not stopped sleeps in the kernel (disk, network file system)
constexpr int kQuickPasses = 3;        // a fork bomb is looked at again at once; after that there is a CPU to wait for
constexpr int kDeepestAncestry = 256;  // parents are read one by one: deeper is nobody's honest tree
constexpr unsigned kExiting = 0x4;     // PF_EXITING of the kernel's linux/sched.h, in field 9 of a stat file
constexpr int kClimbs = 20;            // an ancestor that ends hands its children to another: read from the start again

// What we lack, not what the process lacks.
bool ours_to_lack(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

[[noreturn]] void cannot_look(const std::string& path, int error) {
  throw CannotLook("cannot read " + path + ": " + std::strerror(error));
}

// Small files of /proc are read whole: their size is not known before.
std::optional<std::string> read_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() && ours_to_lack(errno)) cannot_look(path, errno);
  if (!fd.valid()) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

std::string proc_path(int pid, const char* file) { return "/proc/" + std::to_string(pid) + "/" + file; }

template <class T>
T number(std::string_view text) {
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// proc(5): "pid (comm) state ppid pgrp session …"; comm may hold spaces and parentheses, so the last ')' counts.
std::optional<ProcessInfo> parse_stat(int pid, std::string_view text) {
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  std::vector<std::string_view> fields;  // fields[0] is field 3, the state
  std::size_t at = close + 2;
  while (at < text.size() && fields.size() < 20) {
    const auto end = std::min(text.find(' ', at), text.size());
    fields.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (fields.size() < 20 || fields[0].empty()) return std::nullopt;
  ProcessInfo info;
  info.key = {pid, number<std::uint64_t>(fields[19])};
  info.state = fields[0][0];
  info.parent = number<int>(fields[1]);
  info.session = number<int>(fields[3]);
  info.exiting = (number<unsigned>(fields[6]) & kExiting) != 0;
  info.cpu_ticks = number<std::uint64_t>(fields[11]) + number<std::uint64_t>(fields[12]);
  info.name = std::string(text.substr(open + 1, close - open - 1));
  // A leader that ended while its threads go on is shown as a zombie too: only without threads is it gone.
  const bool ended = info.state == 'Z' || info.state == 'X' || info.state == 'x';
  if (ended && number<int>(fields[17]) <= 1) return std::nullopt;
  return info;
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

Dir open_dir(const std::string& path) {
  Dir dir(::opendir(path.c_str()));
  if (!dir && ours_to_lack(errno)) cannot_look(path, errno);
  return dir;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> all;
  const Dir dir = open_dir("/proc");
  if (!dir) return all;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name(entry->d_name);
    if (name.empty() || name[0] < '0' || name[0] > '9') continue;
    if (auto info = read_process(number<int>(name))) all.push_back(std::move(*info));
  }
  return all;
}

void append_children(int pid, std::vector<int>& out) {
  const std::string tasks = proc_path(pid, "task");
  const Dir dir = open_dir(tasks);
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    const auto text = read_file(tasks + "/" + entry->d_name + "/children");
    if (!text) continue;
    std::size_t at = 0;
    while (at < text->size()) {
      const auto end = std::min(text->find(' ', at), text->size());
      if (end > at) out.push_back(number<int>(std::string_view(*text).substr(at, end - at)));
      at = end + 1;
    }
  }
}

// Calls `see(name=value)` for each variable until it returns false.
template <class See>
void each_variable(std::string_view block, See see) {
  while (!block.empty()) {
    const auto end = std::min(block.find('\0'), block.size());
    if (!see(block.substr(0, end))) return;
    block.remove_prefix(std::min(end + 1, block.size()));
  }
}

struct Carried {
  std::string_view agent;
  std::string_view attempt;
  std::string_view step;
};

Carried carried(std::string_view block) {
  Carried found;
  const auto take = [](std::string_view variable, std::string_view name, std::string_view& into) {
    if (variable.starts_with(name)) into = variable.substr(name.size());
  };
  each_variable(block, [&](std::string_view variable) {
    take(variable, "BIDE_AGENT=", found.agent);
    take(variable, "BIDE_ATTEMPT=", found.attempt);
    take(variable, "BIDE_STEP=", found.step);
    return true;
  });
  return found;
}

bool carries(int pid, const AttemptMark& mark) {
  const auto block = read_file(proc_path(pid, "environ"));
  if (!block || block->empty()) return false;
  const Carried found = carried(*block);
  if (found.agent != mark.agent) return false;
  std::string rest = "_" + std::to_string(mark.run) + "_";
  if (mark.epoch != 0) rest += std::to_string(mark.epoch) + "_";
  if (!mark.nonce.empty()) return found.step.starts_with("bst" + rest) && found.step.ends_with("_" + mark.nonce);
  return found.attempt.starts_with("bat" + rest) || found.step.starts_with("bst" + rest);
}

using ByParent = std::unordered_multimap<int, const ProcessInfo*>;

void add_below(int pid, const ByParent& by_parent, std::set<int>& seen, std::vector<ProcessInfo>& out) {
  std::vector<int> todo{pid};
  for (std::size_t i = 0; i < todo.size(); ++i) {
    const auto [first, last] = by_parent.equal_range(todo[i]);
    for (auto it = first; it != last; ++it) {
      if (!seen.insert(it->second->key.pid).second) continue;
      out.push_back(*it->second);
      todo.push_back(it->second->key.pid);
    }
  }
}

}  // namespace

AttemptMark attempt_mark(std::string_view agent, std::string_view token) {
  const auto run_at = token.find('_');
  const auto epoch_at = run_at == std::string_view::npos ? run_at : token.find('_', run_at + 1);
  const auto secret_at = epoch_at == std::string_view::npos ? epoch_at : token.find('_', epoch_at + 1);
  if (secret_at == std::string_view::npos || !(token.starts_with("bat_") || token.starts_with("bst_"))) return {};
  return AttemptMark{std::string(agent), number<std::int64_t>(token.substr(run_at + 1, epoch_at - run_at - 1)),
                     number<std::int64_t>(token.substr(epoch_at + 1, secret_at - epoch_at - 1))};
}

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::optional<ProcessInfo> read_process(int pid) {
  const auto text = read_file(proc_path(pid, "stat"));
  if (!text) return std::nullopt;
  return parse_stat(pid, *text);
}

bool is_alive(const ProcessKey& key) {
  const auto info = read_process(key.pid);
  return info && info->key == key;
}

bool is_ending(const ProcessKey& key) {
  const auto first = read_process(key.pid);
  if (!first || first->key != key) return true;
  if (!first->exiting) return false;
  const std::string tasks = proc_path(key.pid, "task");
  const Dir dir = open_dir(tasks);
  if (!dir) return true;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    const auto text = read_file(tasks + "/" + entry->d_name + "/stat");
    const auto thread = text ? parse_stat(key.pid, *text) : std::nullopt;
    if (thread && !thread->exiting) return false;  // main() has left, and the program has not
  }
  return true;
}

bool signal_process(const ProcessKey& key, int signal) {
  if (key.pid <= 1) return false;
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, key.pid, 0)));
  if (!pidfd.valid() && ours_to_lack(errno)) {
    // Waking what we stopped must not fail for this, and wakes nobody who was not stopped.
    if (signal == SIGCONT) return ::kill(key.pid, SIGCONT) == 0;
    cannot_look("pid " + std::to_string(key.pid), errno);
  }
  if (!pidfd.valid() || !is_alive(key)) return false;
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

std::vector<ProcessInfo> descendants(int pid) {
  std::vector<ProcessInfo> out;
  std::set<int> seen{pid};
  std::vector<int> todo;
  append_children(pid, todo);
  for (std::size_t i = 0; i < todo.size(); ++i) {
    const int child = todo[i];
    if (!seen.insert(child).second) continue;
    if (auto info = read_process(child)) {
      out.push_back(std::move(*info));
      append_children(child, todo);
    }
  }
  return out;
}

std::vector<ProcessInfo> leaves(const std::vector<ProcessInfo>& tree) {
  std::set<int> parents;
  for (const auto& info : tree) parents.insert(info.parent);
  std::vector<ProcessInfo> out;
  for (const auto& info : tree) {
    if (!parents.contains(info.key.pid)) out.push_back(info);
  }
  return out;
}

std::vector<ProcessInfo> members(const TreeScope& scope) {
  const auto all = all_processes();
  ByParent by_parent;
  for (const auto& info : all) by_parent.emplace(info.parent, &info);
  std::set<int> seen{static_cast<int>(::getpid())};
  std::vector<ProcessInfo> out;
  for (const auto& info : all) {  // seen before anything is looked for: in no answer, and nothing below them either
    const bool spared = std::find(scope.spared.begin(), scope.spared.end(), info.key) != scope.spared.end();
    if (spared && seen.insert(info.key.pid).second) add_below(info.key.pid, by_parent, seen, out);
  }
  out.clear();
  if (scope.root.pid > 1) {
    seen.insert(scope.root.pid);
    const auto root = read_process(scope.root.pid);
    // A root that is gone has no children, and one of a later process has children that are not ours.
    if (root && root->key == scope.root) add_below(scope.root.pid, by_parent, seen, out);
  }
  if (scope.mark.run == 0) return out;
  for (const auto& info : all) {
    // What carries our token was started after the guard that handed it down: older ones need not be read.
    if (info.key.start < scope.root.start || seen.contains(info.key.pid) || !carries(info.key.pid, scope.mark))
      continue;
    seen.insert(info.key.pid);
    out.push_back(info);
    add_below(info.key.pid, by_parent, seen, out);
  }
  return out;
}

// A parent that waits in vfork for a child that was stopped before its exec shows as D: it stands still all the same.
static bool stands_still(const ProcessInfo& info, const std::vector<ProcessInfo>& all) {
  if (info.stopped()) return true;
  return info.state == 'D' && std::any_of(all.begin(), all.end(), [&](const ProcessInfo& other) {
           return other.parent == info.key.pid && other.stopped();
         });
}

// A signal is taken when its process next runs: one in the middle of a fork finishes that first, and its child is seen
// only afterwards. So it is not enough that a pass finds nobody new: all must be seen stopped.
std::vector<ProcessInfo> freeze(const TreeScope& scope) {
  std::set<ProcessKey> told;
  std::set<ProcessKey> not_ours;
  struct ThawIfThrown {
    const std::set<ProcessKey>& told;
    int thrown = std::uncaught_exceptions();
    ~ThawIfThrown() {
      if (std::uncaught_exceptions() == thrown) return;
      for (const ProcessKey& key : told) ::kill(key.pid, SIGCONT);
    }
  } thaw_if_thrown{told};
  for (int pass = 0;; ++pass) {
    auto found = members(scope);
    bool settled = true;
    for (const auto& info : found) {
      if (told.insert(info.key).second) {
        settled = false;
        if (!signal_process(info.key, SIGSTOP)) not_ours.insert(info.key);
      } else if (!stands_still(info, found) && !not_ours.contains(info.key)) {
        settled = false;
      }
    }
    if (settled || pass == kFreezePasses) return found;
    ::poll(nullptr, 0, pass < kQuickPasses ? 0 : 1);
  }
}

void thaw(const std::vector<ProcessInfo>& frozen) {
  for (auto it = frozen.rbegin(); it != frozen.rend(); ++it) signal_process(it->key, SIGCONT);
}

std::vector<ProcessInfo> kill_pass(const TreeScope& scope) {
  auto found = freeze(scope);
  for (auto it = found.rbegin(); it != found.rend(); ++it) signal_process(it->key, SIGKILL);
  return found;
}

bool kill_with_root(const TreeScope& scope) {
  const bool none_below = kill_pass(scope).empty();
  return !signal_process(scope.root, SIGKILL) && none_below && !is_alive(scope.root);
}

namespace {

struct Climb {
  bool whole = false;  // false: an ancestor was gone, or another process, when its turn came
  std::optional<AttemptOf> found;
};

Climb climb_from(const ProcessKey& process, std::string_view agent) {
  Climb climb;
  int at = process.pid;
  std::uint64_t born = process.start;
  for (int depth = 0; at > 1 && (at != ::getpid() || depth == 0); ++depth) {
    if (depth == kDeepestAncestry) throw CannotTell("pid " + std::to_string(process.pid) + " has too many ancestors");
    const auto info = read_process(at);
    if (depth == 0 && (!info || info->key != process))
      throw CannotTell("pid " + std::to_string(process.pid) + " is gone");
    if (!info || info->key.start > born) return climb;  // no parent is younger than its child
    if (const auto block = read_file(proc_path(at, "environ"))) {
      const Carried found = carried(*block);
      const auto token = found.attempt.empty() ? found.step : found.attempt;
      if (!token.empty() && found.agent == agent) {
        std::string step = climb.found ? std::move(climb.found->step) : std::string();
        if (step.empty()) step = found.step;
        climb.found = AttemptOf{info->key, std::string(found.agent), std::string(token), std::move(step)};
      }
    }
    born = info->key.start;
    at = info->parent;
  }
  climb.whole = true;
  return climb;
}

}  // namespace

std::optional<AttemptOf> attempt_of(const ProcessKey& process, std::string_view agent) {
  if (process.pid <= 0) throw CannotTell("it is a process that this agent cannot see");  // of another pid namespace
  for (int i = 0; i < kClimbs; ++i) {
    if (auto climb = climb_from(process, agent); climb.whole) return std::move(climb.found);
  }
  throw CannotTell("the ancestors of pid " + std::to_string(process.pid) + " end faster than they can be read");
}

std::optional<std::string> environment_of(int pid, std::string_view name) {
  const auto block = read_file(proc_path(pid, "environ"));
  if (!block) return std::nullopt;
  std::optional<std::string> value;
  each_variable(*block, [&](std::string_view variable) {
    if (variable.size() <= name.size() || !variable.starts_with(name) || variable[name.size()] != '=') return true;
    value = std::string(variable.substr(name.size() + 1));
    return false;
  });
  return value;
}

}  // namespace bide
