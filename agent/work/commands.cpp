#include "agent/work/commands.h"

#include "agent/base/log.h"
#include "agent/kernel/clock_mark.h"
#include "agent/work/once.h"

namespace bide::work {

Commands::Commands(db::Store& store, Random& random, Executor& executor, Sweep& sweep, Feed& feed,
                   FindWorkflow find_workflow)
    : store_(store),
      random_(random),
      executor_(executor),
      sweep_(sweep),
      feed_(feed),
      find_workflow_(std::move(find_workflow)) {}

template <class Outcome>
std::variant<Answer, Problem> Commands::once(const Once& key, db::Purpose purpose,
                                             const std::function<Outcome(db::Tx&)>& effect,
                                             const Render<Outcome>& render) {
  return work::once(
      store_, key, [&](db::Tx& tx) { return render(effect(tx)); }, purpose);
}

std::variant<Answer, Problem> Commands::start_run(const StartRequest& request, const kernel::Principal& by,
                                                  const Once& key, const Render<kernel::StartOutcome>& render) {
  if (key) {  // the stored answer holds though the workflow be gone
    const auto found = store_.read([&](db::ReadTx& tx) { return kernel::find_answer(tx, *key); });
    if (const auto* stored = std::get_if<kernel::StoredAnswer>(&found))
      return Answer{stored->status, stored->response, "", true};
  }
  const auto found = find_workflow_(request.workflow);
  if (const auto* refusal = std::get_if<Problem>(&found)) return *refusal;
  const auto& startable = std::get<Startable>(found);
  if (const auto refusal = flow::input_refused(request.workflow, startable, request.input)) return *refusal;
  kernel::StartRun start;
  start.workflow = startable.workflow;
  start.version = startable.version;
  start.uid = random_.uid();
  start.input = request.input;
  start.created_by = by.name;
  start.key = request.key;
  start.mission = request.mission;
  start.priority = request.priority;
  start.run_at = request.run_at;
  start.labels = request.labels;
  start.deadline = startable.deadline;
  return once<kernel::StartOutcome>(
      key, db::Purpose::normal,
      [&](db::Tx& tx) {
        auto outcome = kernel::start_run(tx, start, tx.now());
        if (std::holds_alternative<kernel::RunStarted>(outcome)) tx.after_commit([this] { executor_.ring(); });
        return outcome;
      },
      render);
}

namespace {

void ring_woken(db::Tx& tx, Executor& executor, RunId run, kernel::Woke woke) {
  if (woke == kernel::Woke::queued) tx.after_commit([&executor] { executor.ring(); });
  if (woke == kernel::Woke::ring_attempt) tx.after_commit([&executor, run] { executor.ring(run); });
}

template <class Outcome>
void ring_resolved(db::Tx& tx, Executor& executor, const Outcome& outcome) {
  const auto* resolved = std::get_if<kernel::WaitResolved>(&outcome);
  if (resolved == nullptr) return;
  const RunId run = resolved->wait.run;
  executor.ripple(tx, resolved->ripples);
  if (resolved->run_cancelled) {  // X1: if it runs it has 30 s, and the sweep is to know
    kernel::Ripples told;
    told.told.push_back(run);
    executor.ripple(tx, told);
  }
  ring_woken(tx, executor, run, resolved->woke);
}

}  // namespace

std::variant<Answer, Problem> Commands::resolve(WaitId wait, const kernel::Decision& decision,
                                                const kernel::Principal& by, const Once& key,
                                                const Render<kernel::ResolveOutcome>& render) {
  return once<kernel::ResolveOutcome>(
      key, db::Purpose::decision,
      [&](db::Tx& tx) {
        auto outcome = kernel::resolve_wait(tx, wait, decision, by, tx.now());
        ring_resolved(tx, executor_, outcome);
        return outcome;
      },
      render);
}

std::variant<Answer, Problem> Commands::resolve_named(RunId run, const std::string& name,
                                                      const kernel::Decision& decision, const std::string& body,
                                                      const kernel::Principal& by, const Once& key,
                                                      const Render<kernel::NamedOutcome>& render) {
  return once<kernel::NamedOutcome>(
      key, db::Purpose::decision,
      [&](db::Tx& tx) {
        auto outcome = kernel::resolve_named(tx, run, name, decision, body, by, tx.now());
        ring_resolved(tx, executor_, outcome);
        return outcome;
      },
      render);
}

std::variant<Answer, Problem> Commands::signal(RunId run, const std::string& name, const std::string& payload,
                                               const std::optional<std::string>& dedupe_key,
                                               const kernel::Principal& by, const Once& key,
                                               const Render<kernel::SignalOutcome>& render) {
  return once<kernel::SignalOutcome>(
      key, db::Purpose::normal,
      [&](db::Tx& tx) {
        auto outcome = kernel::send_signal(tx, run, name, payload, dedupe_key, by, tx.now());
        if (const auto* sent = std::get_if<kernel::SignalSent>(&outcome)) ring_woken(tx, executor_, run, sent->woke);
        return outcome;
      },
      render);
}

std::variant<Answer, Problem> Commands::cancel(RunId run, const kernel::CancelAsk& ask, const Once& key,
                                               const Render<kernel::CancelOutcome>& render) {
  return once<kernel::CancelOutcome>(
      key, db::Purpose::decision,
      [&](db::Tx& tx) {
        kernel::Ripples ripples;
        auto outcome = kernel::cancel_run(tx, run, ask, tx.now(), &ripples);
        executor_.ripple(tx, ripples);
        if (std::holds_alternative<kernel::CancelTold>(outcome)) {
          tx.after_commit([this, run] {
            executor_.told(run);
            executor_.ring(run);
            sweep_.ring();  // X1: it has 30 s
          });
        } else {
          tx.after_commit([this] { executor_.ring(); });
        }
        return outcome;
      },
      render);
}

std::variant<Answer, Problem> Commands::retry(RunId run, const kernel::Principal& by, const Once& key,
                                              const Render<kernel::RetryOutcome>& render) {
  return once<kernel::RetryOutcome>(
      key, db::Purpose::normal,
      [&](db::Tx& tx) {
        kernel::Ripples ripples;
        auto outcome = kernel::retry_run(tx, run, by.name, tx.now(), &ripples);
        executor_.ripple(tx, ripples);
        return outcome;
      },
      render);
}

std::variant<Answer, Problem> Commands::fork_run(RunId run, std::int64_t entries, bool latest,
                                                 const kernel::Principal& by, const Once& key,
                                                 const Render<kernel::ForkOutcome>& render) {
  kernel::ForkRun fork{run, entries, {}, random_.uid(), by.name};
  if (latest) {
    const auto row = store_.read([&](db::ReadTx& tx) { return kernel::read_run(tx, run); });
    if (!row) return problem("run_not_found", "There is no run " + std::to_string(run.value) + ".", "bide runs");
    const auto found = find_workflow_(row->workflow_name);
    if (const auto* refusal = std::get_if<Problem>(&found)) return *refusal;
    fork.version = std::get<Startable>(found).version;
  }
  return once<kernel::ForkOutcome>(
      key, db::Purpose::normal,
      [&](db::Tx& tx) {
        auto outcome = kernel::fork_run(tx, fork, tx.now());
        if (std::holds_alternative<kernel::Forked>(outcome)) tx.after_commit([this] { executor_.ring(); });
        return outcome;
      },
      render);
}

std::variant<Answer, Problem> Commands::pause(RunId run, bool paused, const kernel::Principal& by, const Once& key,
                                              const Render<kernel::PauseOutcome>& render) {
  return once<kernel::PauseOutcome>(
      key, db::Purpose::decision,
      [&](db::Tx& tx) {
        auto outcome =
            paused ? kernel::pause_run(tx, run, by.name, tx.now()) : kernel::resume_run(tx, run, by.name, tx.now());
        if (std::holds_alternative<kernel::PauseChanged>(outcome)) {
          tx.after_commit([this, run] {
            executor_.ring(run);
            executor_.ring();
          });
        }
        return outcome;
      },
      render);
}

std::variant<Answer, Problem> Commands::delete_run(RunId run, const kernel::Principal& by, const Once& key,
                                                   const Render<kernel::DeleteOutcome>& render) {
  return once<kernel::DeleteOutcome>(
      key, db::Purpose::normal,
      [&](db::Tx& tx) {
        auto outcome = kernel::delete_run(tx, run, by.name, tx.now());
        if (std::holds_alternative<kernel::RunDeleted>(outcome) && deleted_bell_) tx.after_commit(deleted_bell_);
        return outcome;
      },
      render);
}

SweepReport Commands::sweep_now() { return sweep_.pass(); }

Commands::ClockAccepted Commands::accept_clock(const kernel::Principal& by) {
  ClockAccepted accepted;
  accepted.was_held = store_.clock().held();
  accepted.was = store_.now();
  accepted.now = store_.clock().accept_wall();
  log::warn("clock.accepted",
            {{"by", by.name}, {"was", format_time(accepted.was)}, {"now", format_time(accepted.now)}});
  store_.write([&](db::Tx& tx) { kernel::accept_clock(tx, by.name, accepted.was, accepted.now); },
               db::Purpose::decision);
  executor_.ring();
  sweep_.ring();
  return accepted;
}

void Commands::drain(const kernel::Principal& by, bool off) {
  log::info(off ? "agent.drain_ended" : "agent.draining", {{"by", by.name}});
  if (!off) return executor_.door().shut();
  executor_.door().open();
  executor_.ring();
  sweep_.ring();
  feed_.notify();  // workers of apps that wait for something to claim
}

Commands::Draining Commands::draining() {
  // In this order: what was claimed before it was shut stands in the file when it is looked at.
  const bool shut = executor_.door().is_shut();
  return {shut, store_.read([](db::ReadTx& tx) { return kernel::read_driven(tx); })};
}

}  // namespace bide::work
