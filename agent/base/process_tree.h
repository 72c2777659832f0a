// What runs on this machine, read from /proc: identities of processes, trees, and ends without exception.
//
// Threads: plain functions without state, any thread. Failures: a process that is gone is nullopt or false, never an
// error; one that may not be signalled (another user's) stays in the answers, so that its name can be shown. When we
// have no descriptors left (or no memory) nothing is known of a process, and that must not be taken for its end:
// CannotLook is thrown [E8].
// A pid can be used again: what is signalled is compared by its start time under a pidfd (pidfds hold the identity).
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bide {

// Nothing could be read of /proc, for a reason of our own process. It may pass by itself.
struct CannotLook : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// It cannot be told whose a process is: it is gone, its ancestors ended faster than they could be read, or they are too
// many. Whoever has to know takes it for nobody [A7].
struct CannotTell : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A process and no later one of the same number.
struct ProcessKey {
  int pid = 0;
  std::uint64_t start = 0;  // clock ticks after the boot (field 22 of /proc/PID/stat)
  auto operator<=>(const ProcessKey&) const = default;
};

struct ProcessInfo {
  ProcessKey key;
  int parent = 0;
  int session = 0;
  char state = '?';             // R S D T t … as in proc(5)
  bool exiting = false;         // its first thread ends, or has ended; others may go on
  std::uint64_t cpu_ticks = 0;  // user and system time
  std::string name;             // at most 15 bytes, what `ps` calls comm
  [[nodiscard]] bool stopped() const { return state == 'T' || state == 't'; }
};

// The environment that the processes of a program run carry: how those are found that left their tree [K7].
// Carries: BIDE_AGENT is `agent`, and BIDE_ATTEMPT or BIDE_STEP is a token of this run (and epoch, if one is named; and
// of this one execution of a step, if its nonce is).
struct AttemptMark {
  std::string agent;       // the socket path in BIDE_AGENT
  std::int64_t run = 0;    // 0: no mark, nothing carries it
  std::int64_t epoch = 0;  // 0: any
  std::string nonce = {};  // empty: any
};

// Whose process it is, by its own environment or that of an ancestor [A7].
struct AttemptOf {
  ProcessKey carrier;  // the process in whose environment the token was found
  std::string agent;   // BIDE_AGENT
  std::string token;   // BIDE_ATTEMPT, or BIDE_STEP of a step's command
  std::string step;    // the nearest BIDE_STEP of this agent: the command that it is part of; empty: none
};

// All that is to end: what is below `root` (not root itself), and what carries `mark` with all below that. But for
// `spared` with all below those: holders of steps, that outlive their attempt [K7].
struct TreeScope {
  ProcessKey root;
  AttemptMark mark;
  std::vector<ProcessKey> spared = {};
};

// The mark of one attempt: `token` is BIDE_ATTEMPT, "bat_RUN_EPOCH_SECRET", or a step's, "bst_RUN_EPOCH_STEP_NONCE".
// Any other text: no mark.
[[nodiscard]] AttemptMark attempt_mark(std::string_view agent, std::string_view token);
// A new one at every boot of the machine; with ProcessKey it names a process for ever.
[[nodiscard]] std::string boot_id();
// nullopt: gone, or a zombie (its descriptors are closed and it runs nothing).
[[nodiscard]] std::optional<ProcessInfo> read_process(int pid);
[[nodiscard]] bool is_alive(const ProcessKey& key);
// Gone, or about to be: each of its threads ends or has ended. The kernel says so of a thread before that lets go of
// its descriptors: whoever saw the end of a file because this process died, finds it ending.
[[nodiscard]] bool is_ending(const ProcessKey& key);
// False: gone, another process by now, or not ours to signal.
bool signal_process(const ProcessKey& key, int signal);
// Everything below `pid`, parents before children, by the kernel's lists of children: cheap, and exact only when
// nothing below starts processes meanwhile. Look again after a freeze, or use members().
[[nodiscard]] std::vector<ProcessInfo> descendants(int pid);
// Those of `tree` that have no child in it.
[[nodiscard]] std::vector<ProcessInfo> leaves(const std::vector<ProcessInfo>& tree);
// Everything in scope by one pass over /proc, parents before children. The caller itself is never in it.
[[nodiscard]] std::vector<ProcessInfo> members(const TreeScope& scope);
// SIGSTOP to all in scope until a pass finds nobody new and all stopped; parents first, so that none sees its child
// stop. What cannot be stopped (another user's, deep in the kernel) is given up after about 0.1 s: look at stopped().
std::vector<ProcessInfo> freeze(const TreeScope& scope);
// SIGCONT, children first.
void thaw(const std::vector<ProcessInfo>& frozen);
// One pass: freezes the scope, then SIGKILL, children first (an orphaned group must not get SIGHUP and wake) [V2].
// Returns whom it found; call it until that is empty. Reaping is the parents' business.
std::vector<ProcessInfo> kill_pass(const TreeScope& scope);
// The same for a tree whose guard (`scope.root`) is not ours to speak to: root is killed after all below it [W7].
// True: nothing was left when the pass began.
bool kill_with_root(const TreeScope& scope);

// Whether `process` belongs to a program attempt of the agent with this socket: its own environment, and that of each
// of its ancestors up to the top (or to this process: what is above the agent is no attempt of it) [A7]. The highest
// that carries a token of this agent counts: the guard above each attempt does, so no process below it can wash the
// token off, and none hides it behind a token that it made up. Throws CannotTell.
[[nodiscard]] std::optional<AttemptOf> attempt_of(const ProcessKey& process, std::string_view agent);
// The value of a variable as it was when the process was started; nullopt: not there, or not readable.
[[nodiscard]] std::optional<std::string> environment_of(int pid, std::string_view name);

}  // namespace bide
