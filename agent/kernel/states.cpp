#include "agent/kernel/states.h"

#include <span>

namespace bide::kernel {
namespace {

constexpr std::string_view kRun[] = {"queued", "running", "waiting", "completed", "failed", "cancelled"};
constexpr std::string_view kStep[] = {"pending", "started", "needs_reconcile", "completed", "failed", "cancelled"};
constexpr std::string_view kWait[] = {"pending", "resolved", "expired", "cancelled"};
constexpr std::string_view kStepKind[] = {"step",   "task",     "timer", "approval", "question",
                                          "signal", "first_of", "child", "message",  "value"};
constexpr std::string_view kWaitKind[] = {"approval", "question", "timer", "signal", "child", "reconcile"};
constexpr std::string_view kEffect[] = {"pure", "idempotent", "non_idempotent"};
constexpr std::string_view kProcess[] = {"running", "stopping", "stopped"};

template <class Enum>
std::optional<Enum> find(std::span<const std::string_view> texts, std::string_view text) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_text(RunStatus value) { return kRun[static_cast<int>(value)]; }
std::string_view to_text(StepStatus value) { return kStep[static_cast<int>(value)]; }
std::string_view to_text(WaitStatus value) { return kWait[static_cast<int>(value)]; }
std::string_view to_text(StepKind value) { return kStepKind[static_cast<int>(value)]; }
std::string_view to_text(WaitKind value) { return kWaitKind[static_cast<int>(value)]; }
std::string_view to_text(Effect value) { return kEffect[static_cast<int>(value)]; }
std::string_view to_text(ProcessStatus value) { return kProcess[static_cast<int>(value)]; }

std::optional<RunStatus> run_status_from(std::string_view text) { return find<RunStatus>(kRun, text); }
std::optional<StepStatus> step_status_from(std::string_view text) { return find<StepStatus>(kStep, text); }
std::optional<WaitStatus> wait_status_from(std::string_view text) { return find<WaitStatus>(kWait, text); }
std::optional<StepKind> step_kind_from(std::string_view text) { return find<StepKind>(kStepKind, text); }
std::optional<WaitKind> wait_kind_from(std::string_view text) { return find<WaitKind>(kWaitKind, text); }
std::optional<Effect> effect_from(std::string_view text) { return find<Effect>(kEffect, text); }

}  // namespace bide::kernel
