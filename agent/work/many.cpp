#include "agent/work/many.h"

#include <algorithm>
#include <utility>

#include "agent/base/limits_api.h"

namespace bide::work {
namespace {

using kernel::RunAction;

ManyItem refused(RunId run, const Problem& problem) { return {run, false, problem.code}; }

ManyItem cancel_one(Commands& commands, db::Tx& tx, RunId run, const ManyAsk& ask, const kernel::Principal& by) {
  kernel::Ripples ripples;
  const kernel::CancelAsk asked{by.name, ask.reason, ask.without_compensation};
  const auto outcome = kernel::cancel_run(tx, run, asked, tx.now(), &ripples);
  Executor& executor = commands.executor();
  executor.ripple(tx, ripples);
  if (std::holds_alternative<kernel::CancelTold>(outcome)) {
    Sweep& sweep = commands.sweep();
    tx.after_commit([&executor, &sweep, run] {
      executor.told(run);
      executor.ring(run);
      sweep.ring();  // X1: it has 30 s
    });
    return {run, true, "cancelling"};
  }
  tx.after_commit([&executor] { executor.ring(); });
  if (std::holds_alternative<kernel::CancelEnded>(outcome)) return {run, true, "cancelled"};
  if (std::holds_alternative<kernel::CancelCompensates>(outcome)) return {run, true, "compensating"};
  return {run, false, std::holds_alternative<kernel::AlreadyEnded>(outcome) ? "run_ended" : "run_not_found"};
}

ManyItem retry_one(Commands& commands, db::Tx& tx, RunId run, const kernel::Principal& by) {
  kernel::Ripples ripples;
  const auto outcome = kernel::retry_run(tx, run, by.name, tx.now(), &ripples);
  commands.executor().ripple(tx, ripples);
  if (const auto* problem = std::get_if<Problem>(&outcome)) return refused(run, *problem);
  return {run, true, "queued"};
}

ManyItem pause_one(Commands& commands, db::Tx& tx, RunId run, bool paused, const kernel::Principal& by) {
  const auto outcome =
      paused ? kernel::pause_run(tx, run, by.name, tx.now()) : kernel::resume_run(tx, run, by.name, tx.now());
  if (const auto* problem = std::get_if<Problem>(&outcome)) return refused(run, *problem);
  const auto* changed = std::get_if<kernel::PauseChanged>(&outcome);
  if (changed != nullptr) {
    Executor& executor = commands.executor();
    tx.after_commit([&executor, run] {
      executor.ring(run);
      executor.ring();
    });
  }
  if (!paused) return {run, true, "resumed"};
  return {run, true, changed != nullptr && changed->running ? "pausing" : "paused"};
}

ManyItem act(Commands& commands, db::Tx& tx, RunId run, const ManyAsk& ask, const kernel::Principal& by) {
  switch (ask.action) {
    case RunAction::cancel: return cancel_one(commands, tx, run, ask, by);
    case RunAction::retry: return retry_one(commands, tx, run, by);
    case RunAction::pause: return pause_one(commands, tx, run, true, by);
    case RunAction::resume: return pause_one(commands, tx, run, false, by);
  }
  return {run, false, "internal"};
}

// The next runs: of the list, or of the filter.
std::vector<RunId> next_runs(Commands& commands, const ManyAsk& ask, RunId before, std::size_t at) {
  if (ask.runs.empty()) {
    return commands.store().read([&](db::ReadTx& tx) {
      return kernel::runs_to_act_on(tx, ask.action, ask.filter, before, limits::kActionRuns);
    });
  }
  const std::size_t end = std::min(ask.runs.size(), at + static_cast<std::size_t>(limits::kActionRuns));
  return {ask.runs.begin() + static_cast<std::ptrdiff_t>(std::min(at, end)),
          ask.runs.begin() + static_cast<std::ptrdiff_t>(end)};
}

void count(ManyReport& report, ManyItem&& item) {
  if (item.done) {
    ++report.done;
  } else {
    ++report.refused[item.what];
  }
  if (report.items.size() < static_cast<std::size_t>(limits::kActionItems)) report.items.push_back(std::move(item));
}

}  // namespace

ManyReport act_on_many(Commands& commands, const ManyAsk& ask, const kernel::Principal& by,
                       const std::stop_token& stop) {
  ManyReport report;
  RunId before;
  while (true) {
    const auto runs = next_runs(commands, ask, before, static_cast<std::size_t>(report.matched));
    if (runs.empty()) return report;
    if (stop.stop_requested()) {
      report.cut_short = true;
      return report;
    }
    before = runs.back();
    report.matched += static_cast<std::int64_t>(runs.size());
    if (ask.dry_run) {
      for (const RunId run : runs) count(report, {run, true, "matches"});
      continue;
    }
    const auto purpose = ask.action == RunAction::retry ? db::Purpose::normal : db::Purpose::decision;
    auto items = commands.store().write(
        [&](db::Tx& tx) {
          std::vector<ManyItem> done;
          for (const RunId run : runs) done.push_back(act(commands, tx, run, ask, by));
          return done;
        },
        purpose);
    for (ManyItem& item : items) count(report, std::move(item));
  }
}

}  // namespace bide::work
