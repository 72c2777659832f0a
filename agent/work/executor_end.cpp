// How the executor ends a run: its end is written, what is to be taken back is taken back, then it ends [E6]; and how
// it leaves one behind that does not end when told [K3, X1].
#include <algorithm>
#include <utility>
#include <vector>

#include "agent/base/log.h"
#include "agent/flow/failure_json.h"
#include "agent/flow/undo.h"
#include "agent/work/executor.h"

namespace bide::work {

flow::AttemptOptions Executor::attempt_options(flow::AttemptOptions options) {
  options.inline_sleep = options_.inline_sleep;
  options.settle_after = options_.settle_after;
  options.pace = options_.pace;
  options.on_requeued = [this] { ring(); };
  options.on_deadline = [this](BootMs at) {
    if (overdue_bell_) overdue_bell_(at + options_.abandon_after);
  };
  options.find_workflow = find_workflow_;
  options.on_task = task_bell_;
  options.on_ripples = [this](db::Tx& tx, const kernel::Ripples& ripples) { ripple(tx, ripples); };
  return options;
}

void Executor::end_run(flow::Attempt& attempt, const kernel::Finish& finish, const flow::NativeWorkflow* workflow) {
  const auto ended = attempt.finish(finish);
  if (ended == kernel::Finished::compensate) {
    if (workflow != nullptr) compensate(attempt.fence(), *workflow);
    return;
  }
  log::info("run.ended",
            {{"run", attempt.run().id.value}, {"epoch", attempt.fence().epoch}, {"how", static_cast<int>(ended)}});
}

std::shared_ptr<flow::Attempt> Executor::undo_attempt(const kernel::Fence& fence, flow::AttemptOptions options) {
  log::info("run.compensating", {{"run", fence.run.value}, {"epoch", fence.epoch}});
  options.undoing = true;
  options.deadline = 0;  // X5 and J7 are for the code
  options.budget.clear();
  auto undo = std::make_shared<flow::Attempt>(store_, random_, fence, attempt_options(std::move(options)));
  Lock lock(mutex_);
  const auto it = driven_.find(fence.run);
  if (it == driven_.end() || it->second.epoch != fence.epoch) return nullptr;
  it->second.attempt = undo;
  it->second.told_at.reset();  // X1's time is for the code
  if (stopping_) undo->close(flow::Closing::shutdown);
  return undo;
}

void Executor::compensate(const kernel::Fence& fence, const kernel::VersionRow& program) {
  auto options = program_driver_->options(program);
  options.version = program.version;
  const auto undo = undo_attempt(fence, std::move(options));
  if (undo) program_driver_->drive(undo, program);
}

void Executor::compensate(const kernel::Fence& fence, const flow::NativeWorkflow& workflow) {
  const auto undo = undo_attempt(fence, {});
  if (!undo) return;
  const bool done = flow::run_compensations(*undo, random_, workflow.compensations);
  undo->refresh();
  switch (undo->closing()) {
    case flow::Closing::suspended:
    case flow::Closing::lease_lost:
    case flow::Closing::finished: return;
    case flow::Closing::fault:
    case flow::Closing::paused:
    case flow::Closing::shutdown: undo->hand_back(store_.now(), "", flow::Closing::finished); return;
    case flow::Closing::open:
    case flow::Closing::ending:
    case flow::Closing::cancelled: break;
  }
  if (!done) throw Bug("compensate: given up without being closed");
  const auto ended = undo->finish({});
  log::info("run.ended", {{"run", fence.run.value}, {"epoch", fence.epoch}, {"how", static_cast<int>(ended)}});
}

std::optional<BootMs> Executor::abandon_overdue() {
  const BootMs now = store_.system_clock().boot_ms();
  // Their ends could not be written, and the sweep would wait with them for room.
  if (store_.health().storage_full) return now + limits::kDiskProbeMs;
  std::optional<BootMs> next;
  std::vector<std::shared_ptr<flow::Attempt>> overdue;
  std::vector<std::pair<RunId, std::shared_ptr<flow::Attempt>>> past_deadline;  // past the deadline of an attempt [X5]
  {
    Lock lock(mutex_);
    for (const auto& [run, driven] : driven_) {
      if (!driven.attempt || driven.attempt->closing() == flow::Closing::lease_lost) continue;
      std::optional<BootMs> end;
      if (const BootMs deadline = driven.attempt->deadline_boot_ms();
          deadline > 0 && driven.attempt->closing() == flow::Closing::open) {
        if (deadline <= now) {
          past_deadline.emplace_back(run, driven.attempt);
        } else {
          next = next ? std::min(*next, deadline) : deadline;
        }
      }
      if (driven.told_at) end = *driven.told_at + options_.abandon_after;
      for (const auto& call : driven.attempt->open_calls()) {
        if (call.executing && call.deadline_boot_ms > 0) {
          const BootMs late = call.deadline_boot_ms + options_.abandon_after;
          end = end ? std::min(*end, late) : late;
        }
      }
      if (!end) continue;
      if (*end <= now) {
        overdue.push_back(driven.attempt);
      } else {
        next = next ? std::min(*next, *end) : *end;
      }
    }
  }
  for (const auto& [run, attempt] : past_deadline) {
    attempt->end(flow::error_json("Timeout", "An attempt of the run took longer than its deadline allows."));
    told(run);
    next = next ? std::min(*next, now + options_.abandon_after) : now + options_.abandon_after;
  }
  for (const auto& attempt : overdue) {
    log::warn("run.abandoned", {{"run", attempt->fence().run.value}, {"epoch", attempt->fence().epoch}});
    attempt->abandon();
  }
  return next;
}

}  // namespace bide::work
