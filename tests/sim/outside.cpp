// What the code of the runs does: it plays its plan, and the effects of its steps happen out here.
#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "tests/sim/world.h"

namespace bide::sim {
namespace {

struct PlanFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

flow::ApprovalOptions approval_of(const Op& op) {
  flow::ApprovalOptions options;
  options.name = op.name;
  options.timeout = op.expires;
  if (op.has_fallback && op.expires) options.fallback = "denied";
  options.quorum = op.quorum;
  options.policy = op.policy;
  return options;
}

flow::QuestionOptions question_of(const Op& op) {
  flow::QuestionOptions options;
  options.name = op.name;
  options.options = {"red", "green", "blue"};
  options.timeout = op.expires;
  if (op.has_fallback && op.expires) options.fallback = "\"blue\"";
  return options;
}

std::string World::code(flow::Context& context) {
  const Driven driven(driven_, context.run(), *process_);
  RunOutside& outside = ledger_.runs[context.run().value];
  if (outside.plan.ops.empty()) {
    outside.plan =
        make_plan(static_cast<std::uint64_t>(json::int_member(context.input(), "plan").value_or(0)),
                  json::bool_member(context.input(), "leaf").value_or(false) ? PlanKind::leaf : PlanKind::whole);
  }
  process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT error IS NOT NULL FROM runs WHERE id = ?");
    if (q.bind(context.run()).one().integer(0) != 0)
      violated("I2", "the code of run " + std::to_string(context.run().value) + " is entered after its end [E6]");
  });
  play(context, outside.plan.ops);
  if (outside.plan.fails_at_end) throw PlanFailed("the plan ends so");
  const auto round = json::int_member(context.input(), "round").value_or(0);
  if (outside.plan.continues && round < 2) {
    const auto number = json::int_member(context.input(), "plan").value_or(0);
    context.continue_as_new("{\"plan\":" + std::to_string(number + 1) + ",\"round\":" + std::to_string(round + 1) +
                            "}");
  }
  return "\"played\"";
}

void World::play(flow::Context& context, const std::vector<Op>& ops) {
  for (const Op& op : ops) {
    if (chance_.one_in(4)) fibers_.yield();
    try {
      play_one(context, op);
    } catch (const flow::StepFailed& failed) {
      const std::string code = json::string_member(failed.error, "code").value_or("?");
      const bool executes = op.kind == OpKind::step || op.kind == OpKind::task;
      if (executes && code == "StepError" && !is_copied(context.run(), op)) check_gave_up(context.run(), op);
      ledger_.saw(context.run(), op, "failed " + code);
      ledger_.counts.add("failures seen");
      if (!op.tolerant) throw;
    }
  }
}

void World::play_one(flow::Context& context, const Op& op) {
  const RunId run = context.run();
  switch (op.kind) {
    case OpKind::step: ledger_.saw(run, op, play_step(context, op)); return;
    case OpKind::approval: {
      const std::string result = context.approval("May " + op.name + " go on?", approval_of(op));
      check_answer(run, op.name, result);
      ledger_.saw(run, op, result);
      return;
    }
    case OpKind::question: {
      const std::string result = context.question("Which colour?", question_of(op));
      check_answer(run, op.name, result);
      ledger_.saw(run, op, result);
      return;
    }
    case OpKind::signal: ledger_.saw_signal(run, op, context.signal(op.name, op.expires)); return;
    case OpKind::sleep: {
      const TimeMs asked = asked_at_.emplace(std::pair(run.value, op.index), true_).first->second;
      const std::int64_t jumps = clock_jumps_ + (is_fork(run) ? 1 : 0);
      context.sleep(op.length);
      ledger_.saw(run, op, "slept");
      ledger_.counts.add("sleeps");
      if (jumps == 0 && clock_jumps_ == 0 && true_ - asked < op.length - 1'000)
        violated("I7", op.name + " of run " + std::to_string(run.value) + " woke " +
                           std::to_string(op.length - (true_ - asked)) + " ms too early");
      return;
    }
    case OpKind::value:
      ledger_.saw(run, op, context.value(op.name, [this] { return std::to_string(chance_.below(1'000'000)); }));
      return;
    case OpKind::state: {
      const std::string name = "state-" + std::to_string(op.index % 2);
      context.set_state(name, std::to_string(op.index));
      if (context.state(name) != std::to_string(op.index))
        violated("I1", name + " of run " + std::to_string(run.value) + " was set and is another");
      ledger_.saw(run, op, "set");
      ledger_.counts.add("states");
      return;
    }
    case OpKind::call: play_call(context, op); return;
    case OpKind::message: play_message(context, op); return;
    case OpKind::first_of: play_first_of(context, op); return;
    case OpKind::task: play_task(context, op); return;
    case OpKind::branches: {
      std::vector<std::function<std::string(flow::Context&)>> functions;
      for (const auto& branch : op.branches) {
        functions.emplace_back([this, &branch](flow::Context& inner) {
          play(inner, branch);
          return std::string("null");
        });
      }
      (void)context.branches(functions);
      ledger_.counts.add("branches");
      return;
    }
  }
}

// E2: only failures that were recorded count, and all tries were used.
void World::check_gave_up(RunId run, const Op& op) {
  if (op.final_failure || op.hangs || ledger_.runs[run.value].retries > 0) return;
  const Effect& effect = ledger_.effect(run, op);
  const int threw = effect.threw();
  const bool none = op.effect == kernel::Effect::non_idempotent || ledger_.runs[run.value].program;
  const int retries = op.retries.value_or(none ? 0 : limits::kNativeRetries);
  if (threw < retries + 1)
    violated("I2", op.name + " of run " + std::to_string(run.value) + " was given up after " + std::to_string(threw) +
                       " failures, it has " + std::to_string(retries) + " retries");
}

std::string World::play_step(flow::Context& context, const Op& op) {
  const RunId run = context.run();
  flow::StepOptions options;
  options.request = "{\"op\":" + std::to_string(op.index) + "}";
  options.retries = op.retries;
  options.backoff = op.backoff;
  options.timeout = op.timeout;
  if (op.assumes) options.assume = "\"assumed\"";
  if (op.undone) {
    options.compensate = kUndo;
    options.compensate_argument = "{\"run\":" + std::to_string(run.value) + ",\"op\":" + std::to_string(op.index) + "}";
  }
  if (op.probe != ProbeKind::none) options.probe = [this, run, &op](const flow::EffectInfo&) { return probe(run, op); };
  std::string result = context.step(
      op.name, op.effect, [this, run, &op](const flow::EffectInfo& info) { return execute(run, op, info); }, options);
  check_result(run, op, result);
  return result;
}

// What a completed step gives is what its effect returned, or what a person said it did [I1, I2].
void World::check_result(RunId run, const Op& op, const std::string& result) {
  if (is_copied(run, op)) {
    ledger_.counts.add("copied results");
    return;
  }
  const Effect& effect = ledger_.effect(run, op);
  const bool said = effect.said_ran && (result == R"({"assumed":true})" || result == "\"assumed\"");
  if (result != result_of(effect) && !said)
    violated("I1", op.name + " of run " + std::to_string(run.value) + " gave " + result + ", which it never returned");
  if (op.effect != kernel::Effect::pure && effect.applied == 0)
    violated("I2", op.name + " of run " + std::to_string(run.value) + " is completed and never happened");
}

std::string World::execute(RunId run, const Op& op, const flow::EffectInfo& info) {
  Effect& effect = ledger_.effect(run, op);
  std::int64_t failures = 0;
  bool intent = false;
  process_->store->read([&](db::ReadTx& tx) {
    db::Query taken(tx, "SELECT 1 FROM events WHERE run_id = ? AND kind = 'run.abandoned'");
    ledger_.runs[run.value].abandoned = taken.bind(run).next();
    db::Query q(tx, "SELECT failures, status FROM steps WHERE run_id = ? AND name = ?");
    q.bind(run, op.name);
    if (!q.next()) return;
    failures = q.integer(0);
    intent = q.text(1) == "started";
  });
  if (op.effect == kernel::Effect::non_idempotent && !intent)
    violated("I3", op.name + " of run " + std::to_string(run.value) + " begins before its intent is in the file");
  const std::size_t n = ledger_.begin(effect, info.idempotency_key, failures, true_);
  fibers_.touch();
  const BootMs begin = clock_.boot_ms();
  const DurationMs takes = op.hangs && n == 0 ? op.timeout + limits::kAbandonMs + 20'000 : op.takes;
  const DurationMs before = static_cast<DurationMs>(chance_.below(static_cast<std::uint64_t>(takes) + 1));
  if (takes > 0) {
    fibers_.rest_until(begin + before);
  } else if (chance_.one_in(2)) {
    fibers_.yield();
  }
  if (effect.threw() < op.fails) {
    ledger_.end(effect, n, Ending::threw, true_);
    ledger_.counts.add("failures");
    if (op.final_failure) throw flow::Final("final, as planned");
    throw std::runtime_error("as planned");
  }
  ledger_.apply(effect, n);
  ledger_.counts.add("effects");
  if (takes > 0) {
    fibers_.rest_until(begin + takes);
  } else if (chance_.one_in(2)) {
    fibers_.yield();
  }
  ledger_.end(effect, n, Ending::returned, true_);
  return result_of(effect);
}

flow::ProbeAnswer World::probe(RunId run, const Op& op) {
  Effect& effect = ledger_.effect(run, op);
  ledger_.counts.add("probes");
  if (chance_.one_in(2)) fibers_.yield();
  if (op.probe == ProbeKind::blind || effect.running()) {
    effect.could_not_tell = true;
    if (chance_.one_in(3)) throw std::runtime_error("the probe fails");
    return {};
  }
  if (effect.applied > 0) {
    effect.said_ran = true;
    return {flow::ProbeVerdict::ran, result_of(effect)};
  }
  ++effect.licences;
  return {flow::ProbeVerdict::did_not_run, "null"};
}

bool World::is_fork(RunId run) {
  return process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT forked_from IS NOT NULL FROM runs WHERE id = ?");
    return q.bind(run).one().integer(0) != 0;
  });
}

// X4: what it gives happened in another run.
bool World::is_copied(RunId run, const Op& op) {
  return process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT 1 FROM steps WHERE run_id = ? AND name = ? AND copied_from IS NOT NULL");
    return q.bind(run, op.name).next();
  });
}

// What the code is given is what somebody was told, byte for byte [I4].
void World::check_answer(RunId run, const std::string& name, const std::string& result) {
  std::int64_t wait = 0;
  process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT id FROM waits WHERE run_id = ? AND name = ? ORDER BY id DESC LIMIT 1");
    if (q.bind(run, name).next()) wait = q.integer(0);
  });
  const auto told = ledger_.told.find(wait);
  if (told == ledger_.told.end()) return;
  if (told->second.resolution != result)
    violated("I4", "wait " + std::to_string(wait) + " was acknowledged as " + told->second.resolution +
                       ", the code was given " + result);
}

}  // namespace bide::sim
