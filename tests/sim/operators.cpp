// People and apps: they start, decide, signal, cancel, retry, click twice, and remember what they were told.
#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "tests/sim/world.h"

namespace bide::sim {
namespace {

constexpr int kMostRuns = 20;
const char* const kPeople[] = {"ada", "bob", "eve"};

kernel::Principal person(const char* name) { return {name, kernel::scopes_from("read start approve"), RunId()}; }

}  // namespace

std::vector<RunId> World::live_runs() {
  return process_->store->read([](db::ReadTx& tx) {
    std::vector<RunId> runs;
    db::Query q(tx, "SELECT id FROM runs WHERE finished_at IS NULL ORDER BY id");
    while (q.next()) runs.push_back(RunId(q.integer(0)));
    return runs;
  });
}

// A command that was answered. What throws is the process's death, or disk trouble: nobody was told anything.
void World::operate() {
  try {
    operate_once();
  } catch (const StorageFull&) {
    if (full_until_ == 0) throw;
    ledger_.counts.add("refused for want of space");
  }
}

void World::operate_once() {
  const auto dice = chance_.below(100);
  if (started_ < 3 || (dice < 25 && started_ < kMostRuns)) return start_run();
  if (dice < 65) return decide(chance_.one_in(2));
  if (dice < 82) return send_signal(chance_.one_in(2));
  if (dice < 86) return cancel();
  if (dice < 90) return retry();
  if (dice < 92) return pause();
  if (dice < 97) return again();
  if (dice < 99) return fork_some_run();
  (void)process_->commands->sweep_now();
}

void World::start_run() {
  ++started_;
  const std::uint64_t plan = chance_.next() >> 12U;
  const char* by = kPeople[chance_.below(3)];
  work::StartRequest request;
  request.workflow = chance_.one_in(4) ? kNarrow : chance_.one_in(3) ? kProgram : kFlow;
  request.input = "{\"plan\":" + std::to_string(plan) + "}";
  request.priority = chance_.one_in(4) ? chance_.between(-3, 3) : 0;
  if (chance_.one_in(3)) request.key = "key-" + std::to_string(chance_.below(8));
  std::optional<RunId> run;
  bool fresh = false;
  (void)process_->commands->start_run(request, person(by), std::nullopt, [&](const kernel::StartOutcome& outcome) {
    if (const auto* started = std::get_if<kernel::RunStarted>(&outcome)) {
      run = started->run;
      fresh = true;
    } else if (const auto* exists = std::get_if<kernel::RunExists>(&outcome)) {
      run = exists->run;
    }
    return work::Answer{};
  });
  if (!run) return;
  RunOutside& outside = ledger_.runs[run->value];
  if (fresh && outside.acknowledged) violated("I1", "run " + std::to_string(run->value) + " was started twice");
  outside.acknowledged = true;
  outside.created_by = by;
  const bool program = request.workflow == kProgram;
  if (outside.plan.ops.empty() && fresh) outside.plan = make_plan(plan, program ? PlanKind::program : PlanKind::whole);
  ledger_.counts.add("runs");
  say("run " + std::to_string(run->value) + " is started");
}

void World::decide(bool truly) {
  const auto waits = process_->store->read([&](db::ReadTx& tx) {
    kernel::WaitFilter filter;
    filter.inbox_only = true;
    if (truly) filter.status = kernel::WaitStatus::pending;
    filter.limit = 200;
    return kernel::list_waits(tx, filter);
  });
  if (waits.empty()) return;
  const kernel::WaitRow& wait = waits[chance_.below(waits.size())];
  if (wait.kind == kernel::WaitKind::reconcile) return answer_doubt(wait);
  kernel::Decision decision;
  if (wait.kind == kernel::WaitKind::approval) {
    static const char* const kWords[] = {"approved", "approved", "approved", "denied", "changes_requested", "maybe"};
    decision.decision = kWords[chance_.below(truly ? 5 : 6)];
  } else {
    static const char* const kWords[] = {"\"red\"", "\"green\"", "\"blue\"", "\"mauve\""};
    decision.answer = kWords[chance_.below(truly ? 3 : 4)];
  }
  const kernel::Principal by = person(kPeople[chance_.below(3)]);
  const int clicks = chance_.one_in(4) ? 2 : 1;
  for (int i = 0; i < clicks; ++i) {
    std::optional<kernel::ResolveOutcome> outcome;
    const auto answer =
        process_->commands->resolve(wait.id, decision, by, std::nullopt, [&](const kernel::ResolveOutcome& o) {
          outcome = o;
          return work::Answer{};
        });
    if (!outcome) return;
    ledger_.counts.add("decisions");
    const auto before = ledger_.told.find(wait.id.value);
    if (const auto* resolved = std::get_if<kernel::WaitResolved>(&*outcome)) {
      say("wait " + std::to_string(wait.id.value) + " is decided");
      if (before != ledger_.told.end()) violated("I4", "wait " + std::to_string(wait.id.value) + " was resolved twice");
      ledger_.told[wait.id.value] = {"resolved", resolved->wait.resolution.value_or("")};
      ledger_.counts.add("resolved");
    } else if (const auto* same = std::get_if<kernel::SameDecision>(&*outcome)) {
      if (before != ledger_.told.end() && before->second.resolution != same->wait.resolution)
        violated("I4", "wait " + std::to_string(wait.id.value) + " was told again, otherwise");
      ledger_.counts.add("told again");
    }
  }
}

// A person who looks: it ran, or it did not; nobody answers while it may still be running.
void World::answer_doubt(const kernel::WaitRow& wait) {
  if (wait.status != kernel::WaitStatus::pending) return;
  const Op* op = find_op(ledger_.runs[wait.run.value].plan.ops, std::stoi(wait.name.substr(wait.name.rfind('-') + 1)));
  if (op == nullptr) violated("I3", "a question about " + wait.name + ", which is in no plan");
  Effect& effect = ledger_.effect(wait.run, *op);
  if (op->effect != kernel::Effect::non_idempotent) violated("I3", "a question about " + wait.name + ", which is safe");
  if (op->probe == ProbeKind::truthful && !effect.could_not_tell)
    violated("I3", "a question about " + wait.name + " of run " + std::to_string(wait.run.value) +
                       ", whose probe could have told");
  if (could_tell(wait.run, *op))
    violated("I3", "a question about " + wait.name + " of run " + std::to_string(wait.run.value) +
                       ", whose outcome a holder or its file could tell");
  if (effect.running()) return;
  kernel::Decision decision;
  const bool abort = chance_.one_in(12);
  const bool ran = effect.applied > 0;
  if (abort) {
    decision.answer = "\"abort\"";
  } else if (ran) {
    decision.answer = chance_.one_in(2) ? "\"It ran.\"" : "\"continue\"";
    if (chance_.one_in(2)) decision.result = result_of(effect);
    effect.said_ran = true;
  } else {
    decision.answer = chance_.one_in(2) ? "\"it didn't\"" : "\"run\"";
    ++effect.licences;  // before it is known to be taken: a crash may keep the answer from us
  }
  std::optional<kernel::ResolveOutcome> outcome;
  try {
    (void)process_->commands->resolve(wait.id, decision, person(kPeople[chance_.below(3)]), std::nullopt,
                                      [&](const kernel::ResolveOutcome& o) {
                                        outcome = o;
                                        return work::Answer{};
                                      });
  } catch (const StorageFull&) {
    if (!abort && !ran) --effect.licences;
    throw;
  }
  if (!outcome || !std::holds_alternative<kernel::WaitResolved>(*outcome)) {
    if (!abort && !ran) --effect.licences;
    return;
  }
  ledger_.told[wait.id.value] = {"resolved", std::get<kernel::WaitResolved>(*outcome).wait.resolution.value_or("")};
  ledger_.counts.add(abort ? "doubts aborted" : ran ? "doubts that ran" : "doubts that did not run");
  say("the doubt about " + wait.name + " of run " + std::to_string(wait.run.value) + " is answered " +
      *decision.answer);
}

void World::send_signal(bool wanted) {
  RunId run;
  std::string name = "signal-" + std::to_string(chance_.below(2));
  if (wanted) {
    const auto waits = process_->store->read([](db::ReadTx& tx) {
      kernel::WaitFilter filter;
      filter.status = kernel::WaitStatus::pending;
      filter.kind = kernel::WaitKind::signal;
      filter.limit = 200;
      return kernel::list_waits(tx, filter);
    });
    if (waits.empty()) return;
    const auto& wait = waits[chance_.below(waits.size())];
    run = wait.run;
    name = wait.name;
  } else {
    const auto live = live_runs();
    if (live.empty()) return;
    run = live[chance_.below(live.size())];
  }
  const std::string payload = "{\"n\":" + std::to_string(chance_.below(1'000'000)) + "}";
  std::optional<std::string> dedupe;
  if (chance_.one_in(3)) dedupe = "once-" + std::to_string(chance_.below(1'000));
  const bool keyed = chance_.one_in(3);
  work::Commands::Once once;
  if (keyed) once = kernel::CommandKey{"app", "cmd-" + std::to_string(chance_.next()), sha256(payload)};
  if (keyed) last_command_ = Command{*once, run, name, payload, std::nullopt};
  std::optional<std::int64_t> id;
  const auto answer = process_->commands->signal(run, name, payload, dedupe, person("app"), once,
                                                 [&](const kernel::SignalOutcome& outcome) {
                                                   if (const auto* sent = std::get_if<kernel::SignalSent>(&outcome))
                                                     id = sent->id.value;
                                                   return work::Answer{200, std::to_string(id.value_or(0)), "", false};
                                                 });
  if (const auto* given = std::get_if<work::Answer>(&answer); given != nullptr && keyed)
    last_command_->answer = given->body;
  if (!id) return;
  ledger_.runs[run.value].signals[name].emplace_back(*id, payload);
  ledger_.counts.add("signals");
}

// The last command again, under its key: the same answer, and no second effect [M1].
void World::again() {
  if (!last_command_) return;
  const Command last = *last_command_;
  std::optional<std::int64_t> id;
  const auto answer = process_->commands->signal(last.run, last.name, last.payload, std::nullopt, person("app"),
                                                 last.key, [&](const kernel::SignalOutcome& outcome) {
                                                   if (const auto* sent = std::get_if<kernel::SignalSent>(&outcome))
                                                     id = sent->id.value;
                                                   return work::Answer{200, std::to_string(id.value_or(0)), "", false};
                                                 });
  const auto* given = std::get_if<work::Answer>(&answer);
  if (given == nullptr) return;
  ledger_.counts.add("commands again");
  if (last.answer && (*last.answer != given->body || !given->replayed))
    violated("I1", "a command under its key was answered " + *last.answer + ", and then " + given->body);
  last_command_->answer = given->body;
  if (id) ledger_.runs[last.run.value].signals[last.name].emplace_back(*id, last.payload);
}

void World::cancel() {
  const auto live = live_runs();
  if (live.empty()) return;
  const RunId run = live[chance_.below(live.size())];
  bool taken = false;
  (void)process_->commands->cancel(
      run, {.by = "ada", .reason = "no longer needed"}, std::nullopt, [&](const kernel::CancelOutcome& outcome) {
        taken =
            std::holds_alternative<kernel::CancelEnded>(outcome) || std::holds_alternative<kernel::CancelTold>(outcome);
        return work::Answer{};
      });
  if (!taken) return;
  ledger_.runs[run.value].cancel_acknowledged = true;
  ledger_.counts.add("cancels");
  say("run " + std::to_string(run.value) + " is cancelled");
}

void World::may_begin_anew(std::int64_t run) {
  RunOutside& outside = ledger_.runs[run];
  ++outside.retries;
  std::erase_if(outside.seen, [](const auto& seen) { return seen.second.starts_with("failed "); });
  for (auto& [id, effect] : ledger_.effects) {
    if (id.first != run || effect.executions.empty()) continue;
    if (effect.executions.back().ending != Ending::threw) continue;
    ++effect.licences;
    effect.failures = 0;
  }
}

void World::retry() {
  const auto failed = process_->store->read([](db::ReadTx& tx) {
    kernel::RunFilter filter;
    filter.status = kernel::RunStatus::failed;
    return kernel::list_runs(tx, filter);
  });
  if (failed.empty()) return;
  const RunId run = failed[chance_.below(failed.size())].id;
  if (ledger_.runs[run.value].retries >= 2) return;
  // Before it is known to be taken: what failed may begin anew, in the run and in its children.
  process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx,
                "WITH RECURSIVE family (id) AS (VALUES (?1) UNION SELECT c.id FROM runs c JOIN steps s ON s.id = "
                "c.parent_step_id JOIN family f ON f.id = s.run_id) SELECT id FROM family");
    q.bind(run);
    while (q.next()) may_begin_anew(q.integer(0));
  });
  runs_seen_.clear();  // its children that failed are retried with it
  std::erase_if(steps_seen_, [](const auto& seen) { return !seen.second.starts_with("completed"); });
  (void)process_->commands->retry(run, person("ada"), std::nullopt,
                                  [](const kernel::RetryOutcome&) { return work::Answer{}; });
  ledger_.counts.add("retries");
  say("run " + std::to_string(run.value) + " is retried");
}

// X4: of a run that has ended, and whose steps nobody takes back (an effect that two runs share is not followed here).
void World::fork_some_run() {
  const auto ended = process_->store->read([](db::ReadTx& tx) {
    std::vector<RunId> runs;
    db::Query q(tx, "SELECT id FROM runs WHERE status IN ('completed', 'failed') ORDER BY id");
    while (q.next()) runs.push_back(RunId(q.integer(0)));
    return runs;
  });
  if (ended.empty()) return;
  const RunId from = ended[chance_.below(ended.size())];
  const auto known = ledger_.runs.find(from.value);
  if (known == ledger_.runs.end() || known->second.plan.ops.empty() || known->second.plan.undoes()) return;
  std::optional<RunId> run;
  const auto entries = static_cast<std::int64_t>(chance_.below(8));
  (void)process_->commands->fork_run(from, entries, chance_.one_in(2), person("ada"), std::nullopt,
                                     [&](const kernel::ForkOutcome& outcome) {
                                       if (const auto* forked = std::get_if<kernel::Forked>(&outcome))
                                         run = forked->run;
                                       return work::Answer{};
                                     });
  if (!run) return;
  ledger_.runs[run->value].acknowledged = true;
  ledger_.runs[run->value].created_by = "ada";
  ledger_.counts.add("forks");
  say("run " + std::to_string(run->value) + " is forked from " + std::to_string(from.value));
}

// X5: and most of those that are paused go on later.
void World::pause() {
  const auto live = live_runs();
  if (live.empty()) return;
  const RunId run = live[chance_.below(live.size())];
  const bool paused = !chance_.one_in(3);
  if (!paused) ledger_.runs[run.value].paused = false;
  bool taken = false;
  (void)process_->commands->pause(run, paused, person("ada"), std::nullopt, [&](const kernel::PauseOutcome& outcome) {
    taken = !std::holds_alternative<Problem>(outcome);
    return work::Answer{};
  });
  if (paused && taken) ledger_.runs[run.value].paused = true;
  ledger_.counts.add("pauses");
  say("run " + std::to_string(run.value) + (paused ? " is paused" : " is resumed"));
}

void World::resume_all() {
  const auto paused = process_->store->read([](db::ReadTx& tx) {
    std::vector<RunId> runs;
    db::Query q(tx, "SELECT id FROM runs WHERE paused_at IS NOT NULL AND finished_at IS NULL");
    while (q.next()) runs.push_back(RunId(q.integer(0)));
    return runs;
  });
  for (const RunId run : paused) {
    ledger_.runs[run.value].paused = false;
    (void)process_->commands->pause(run, false, person("ada"), std::nullopt,
                                    [](const kernel::PauseOutcome&) { return work::Answer{}; });
  }
}

}  // namespace bide::sim
