// What a program does here: it asks through its verbs, and a step's command is a holder's.
#include <algorithm>

#include "agent/base/json.h"
#include "tests/sim/world.h"

namespace bide::sim {
namespace {

std::string of_run(const std::string& what, RunId run) { return what + " of run " + std::to_string(run.value); }

}  // namespace

std::string World::answered(flow::Attempt& attempt, flow::Outcome outcome) {
  if (auto* settled = std::get_if<flow::Settled>(&outcome)) return std::move(settled->result);
  if (auto* failed = std::get_if<flow::Failed>(&outcome)) {
    if (failed->tried) throw flow::StepFailed(failed->error);
    (void)attempt.end(failed->error);  // V1: and the verb does not return
  } else if (const auto* refused = std::get_if<Problem>(&outcome)) {
    violated("I8", "a verb of run " + std::to_string(attempt.run().id.value) + " was refused: " + refused->code);
  }
  throw ProgramClosed{};
}

std::string World::program_step(flow::Attempt& attempt, const Op& op, const std::string& branch) {
  const RunId run = attempt.run().id;
  flow::StepAsk ask;
  ask.branch = branch;
  ask.name = op.name;
  if (op.index % 2 == 0) ask.key = "key " + std::to_string(op.index);
  ask.effect = op.effect;
  ask.request = "{\"op\":" + std::to_string(op.index) + "}";
  ask.retries = op.retries.value_or(0);
  ask.backoff = op.backoff;
  ask.tried = op.tolerant;
  ask.holder = true;
  if (op.assumes) ask.assume = "\"assumed\"";
  if (op.probe != ProbeKind::none) ask.probe = "probe";
  const flow::Caller caller{{++last_pid_, 1}, {}};
  flow::Outcome outcome = attempt.begin_step(ask, caller);
  for (;;) {
    if (const auto* asked = std::get_if<flow::AskProbe>(&outcome)) {
      const auto question = *asked;
      flow::ProbeAnswer answer;
      try {
        answer = probe(run, op);
      } catch (const std::runtime_error&) {
        answer.verdict = flow::ProbeVerdict::cannot_tell;
      }
      outcome = attempt.probe_said(question.step, question.nonce, answer.verdict, answer.result, caller);
      continue;
    }
    const auto* execute = std::get_if<flow::Execute>(&outcome);
    if (execute == nullptr) {
      std::string result = answered(attempt, std::move(outcome));
      check_result(run, op, result);
      return result;
    }
    const flow::Execute now = *execute;
    if (!now.offered) violated("I3", of_run(op.name, run) + " executes, and nobody made a holder for it");
    Holder& holder = holders_[now.nonce];
    if (holder.op != nullptr) violated("I2", "the nonce of " + of_run(op.name, run) + " was used before");
    holder.run = run;
    holder.step = now.step;
    holder.op = &op;
    holder.generation = generation_;
    if (chance_.one_in(3)) fibers_.yield();
    holder.pid = ++last_pid_;
    outcome = attempt.hold(now.step, now.nonce, ProcessKey{holder.pid, 1});
    if (!std::holds_alternative<flow::Execute>(outcome)) {
      holder.phase = Holder::Phase::gone;
      continue;
    }
    if (chance_.one_in(3)) fibers_.yield();
    process_->peril();
    if (attempt.closing() == flow::Closing::lease_lost) {
      holder.phase = Holder::Phase::gone;
      throw ProgramClosed{};
    }
    let_go(holder, now.idempotency_key);
    outcome = attempt.await(now.step, now.nonce, caller);
  }
}

void World::let_go(Holder& holder, const std::string& key) {
  Effect& effect = ledger_.effect(holder.run, *holder.op);
  effect.held = true;
  std::int64_t failures = 0;
  bool intent = false;
  process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT failures, status FROM steps WHERE run_id = ? AND name = ?");
    q.bind(holder.run, holder.op->name);
    if (!q.next()) return;
    failures = q.integer(0);
    intent = q.text(1) == "started";
  });
  if (!intent && holder.op->effect == kernel::Effect::non_idempotent)  // the others' rides
    violated("I3", of_run(holder.op->name, holder.run) + " begins before its intent is in the file");
  holder.execution = ledger_.begin(effect, key, failures, true_);
  ledger_.counts.add("held executions");
  holder.phase = Holder::Phase::running;
  const DurationMs takes = holder.op->takes;
  holder.apply_at = true_ + static_cast<DurationMs>(chance_.below(static_cast<std::uint64_t>(takes) + 1));
  holder.end_at = true_ + takes;
  fibers_.touch();
}

void World::play_program(flow::Attempt& attempt, const std::vector<Op>& ops, const std::string& branch) {
  for (const Op& op : ops) {
    if (chance_.one_in(4)) fibers_.yield();
    try {
      program_op(attempt, op, branch);
    } catch (const flow::StepFailed& failed) {
      const std::string code = json::string_member(failed.error, "code").value_or("?");
      if (op.kind == OpKind::step && code == "StepError" && !is_copied(attempt.run().id, op))
        check_gave_up(attempt.run().id, op);
      ledger_.saw(attempt.run().id, op, "failed " + code);
      ledger_.counts.add("failures seen");
    }
  }
}

void World::program_op(flow::Attempt& attempt, const Op& op, const std::string& branch) {
  const RunId run = attempt.run().id;
  const auto wait = [&](flow::WaitAsk ask) {
    ask.branch = branch;
    return answered(attempt, attempt.wait(ask, flow::Caller{{++last_pid_, 1}, {}}));
  };
  switch (op.kind) {
    case OpKind::step: return ledger_.saw(run, op, program_step(attempt, op, branch));
    case OpKind::approval: {
      const std::string result = wait(flow::Alternative::approval("May it go on?", approval_of(op)).ask);
      check_answer(run, op.name, result);
      return ledger_.saw(run, op, result);
    }
    case OpKind::question: {
      const std::string result = wait(flow::Alternative::question("Which colour?", question_of(op)).ask);
      check_answer(run, op.name, result);
      return ledger_.saw(run, op, result);
    }
    case OpKind::signal: {
      flow::WaitAsk ask = flow::Alternative::signal(op.name).ask;
      ask.timeout = op.expires;
      return ledger_.saw_signal(run, op, wait(ask));
    }
    case OpKind::sleep: {
      flow::WaitAsk ask = flow::Alternative::timer(op.length, "sleep").ask;
      ask.key = op.name;
      (void)wait(ask);
      return ledger_.saw(run, op, "slept");
    }
    case OpKind::state: {
      flow::StateAsk ask;
      ask.branch = branch;
      ask.name = "state-" + std::to_string(op.index % 2);
      ask.value = std::to_string(op.index);
      (void)answered(attempt, attempt.set_state(ask));
      if (attempt.state(branch, ask.name) != ask.value)
        violated("I1", of_run(ask.name, run) + " was set and is another");
      return ledger_.saw(run, op, "set");
    }
    case OpKind::message: {
      flow::SendAsk ask;
      ask.branch = branch;
      ask.name = op.name;
      ask.url = "http://out.example/" + std::to_string(op.index % 3);
      ask.data = "{\"run\":" + std::to_string(run.value) + ",\"op\":" + std::to_string(op.index) + "}";
      return ledger_.saw(run, op, answered(attempt, attempt.send(ask)));
    }
    case OpKind::branches: return program_branches(attempt, op, branch);
    case OpKind::value:
    case OpKind::call:
    case OpKind::first_of:
    case OpKind::task: break;  // a program's plan has no others
  }
  ledger_.saw(run, op, answered(attempt, attempt.value(branch, op.name, "", [this] {
                return std::to_string(chance_.below(1'000'000));
              })));
}

void World::program_branches(flow::Attempt& attempt, const Op& op, const std::string& branch) {
  std::vector<std::function<void()>> functions;
  bool closed = false;
  for (std::size_t i = 0; i < op.branches.size(); ++i) {
    const std::string name = (branch.empty() ? op.name : branch + "." + op.name) + "." + std::to_string(i + 1);
    functions.emplace_back([this, &attempt, &op, &closed, i, name] {
      try {
        play_program(attempt, op.branches[i], name);
      } catch (const ProgramClosed&) {
        closed = true;
      }
    });
  }
  fibers_.run(functions);
  ledger_.counts.add("branches");
  if (closed) throw ProgramClosed{};
}

int World::program(flow::Attempt& attempt) {
  RunOutside& outside = ledger_.runs[attempt.run().id.value];
  outside.program = true;
  if (outside.plan.ops.empty()) {
    const auto number = json::int_member(attempt.run().input, "plan").value_or(0);
    outside.plan = make_plan(static_cast<std::uint64_t>(number), PlanKind::program);
  }
  play_program(attempt, outside.plan.ops, "");
  if (outside.plan.fails_at_end) return 1;
  attempt.set_result("\"played\"");
  return 0;
}

}  // namespace bide::sim
