// The state machines of runs, steps and waits: their texts in the file and their legal edges, in one table each.
// An UPDATE repeats the old state in its WHERE and checks that one row changed; the file's CHECKs are the third lock.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace bide::kernel {

enum class RunStatus { queued, running, waiting, completed, failed, cancelled };
enum class StepStatus { pending, started, needs_reconcile, completed, failed, cancelled };
enum class WaitStatus { pending, resolved, expired, cancelled };
enum class StepKind { step, task, timer, approval, question, signal, first_of, child, message, value };
enum class WaitKind { approval, question, timer, signal, child, reconcile };
enum class Effect { pure, idempotent, non_idempotent };
enum class ProcessStatus { running, stopping, stopped };

[[nodiscard]] std::string_view to_text(RunStatus value);
[[nodiscard]] std::string_view to_text(StepStatus value);
[[nodiscard]] std::string_view to_text(WaitStatus value);
[[nodiscard]] std::string_view to_text(StepKind value);
[[nodiscard]] std::string_view to_text(WaitKind value);
[[nodiscard]] std::string_view to_text(Effect value);
[[nodiscard]] std::string_view to_text(ProcessStatus value);

// nullopt: no such text.
[[nodiscard]] std::optional<RunStatus> run_status_from(std::string_view text);
[[nodiscard]] std::optional<StepStatus> step_status_from(std::string_view text);
[[nodiscard]] std::optional<WaitStatus> wait_status_from(std::string_view text);
[[nodiscard]] std::optional<StepKind> step_kind_from(std::string_view text);
[[nodiscard]] std::optional<WaitKind> wait_kind_from(std::string_view text);
[[nodiscard]] std::optional<Effect> effect_from(std::string_view text);

inline constexpr auto kRunEdges = std::to_array<std::pair<RunStatus, RunStatus>>({
    {RunStatus::queued, RunStatus::running},
    {RunStatus::queued, RunStatus::failed},
    {RunStatus::queued, RunStatus::cancelled},
    {RunStatus::running, RunStatus::waiting},
    {RunStatus::running, RunStatus::queued},
    {RunStatus::running, RunStatus::completed},
    {RunStatus::running, RunStatus::failed},
    {RunStatus::running, RunStatus::cancelled},
    {RunStatus::waiting, RunStatus::queued},
    {RunStatus::waiting, RunStatus::cancelled},
    {RunStatus::failed, RunStatus::queued},  // an operator's retry only
});

inline constexpr auto kStepEdges = std::to_array<std::pair<StepStatus, StepStatus>>({
    {StepStatus::pending, StepStatus::started},
    {StepStatus::pending, StepStatus::completed},
    {StepStatus::pending, StepStatus::cancelled},
    {StepStatus::started, StepStatus::pending},
    {StepStatus::started, StepStatus::completed},
    {StepStatus::started, StepStatus::failed},
    {StepStatus::started, StepStatus::needs_reconcile},
    {StepStatus::started, StepStatus::cancelled},
    {StepStatus::needs_reconcile, StepStatus::started},
    {StepStatus::needs_reconcile, StepStatus::completed},
    {StepStatus::needs_reconcile, StepStatus::failed},
    {StepStatus::needs_reconcile, StepStatus::cancelled},
    {StepStatus::failed, StepStatus::pending},  // these four: an operator's retry only
    {StepStatus::failed, StepStatus::started},
    {StepStatus::cancelled, StepStatus::pending},
    {StepStatus::cancelled, StepStatus::started},
});

inline constexpr auto kWaitEdges = std::to_array<std::pair<WaitStatus, WaitStatus>>({
    {WaitStatus::pending, WaitStatus::resolved},
    {WaitStatus::pending, WaitStatus::expired},
    {WaitStatus::pending, WaitStatus::cancelled},
});

template <class Status, std::size_t N>
[[nodiscard]] constexpr bool edge_in(const std::array<std::pair<Status, Status>, N>& edges, Status from, Status to) {
  for (const auto& [f, t] : edges) {
    if (f == from && t == to) return true;
  }
  return false;
}
[[nodiscard]] constexpr bool legal(RunStatus from, RunStatus to) { return edge_in(kRunEdges, from, to); }
[[nodiscard]] constexpr bool legal(StepStatus from, StepStatus to) { return edge_in(kStepEdges, from, to); }
[[nodiscard]] constexpr bool legal(WaitStatus from, WaitStatus to) { return edge_in(kWaitEdges, from, to); }

[[nodiscard]] constexpr bool terminal(RunStatus status) {
  return status == RunStatus::completed || status == RunStatus::failed || status == RunStatus::cancelled;
}
[[nodiscard]] constexpr bool settled(StepStatus status) {
  return status == StepStatus::completed || status == StepStatus::failed || status == StepStatus::cancelled;
}

static_assert(!legal(RunStatus::completed, RunStatus::queued), "a completed run never runs again");
static_assert(!legal(RunStatus::cancelled, RunStatus::queued), "a cancelled run never runs again");
static_assert(!legal(StepStatus::completed, StepStatus::started), "a completed step never runs again");
static_assert(!legal(WaitStatus::resolved, WaitStatus::pending), "a wait is settled once");

}  // namespace bide::kernel
