// What runs do with others: children, messages, tasks, races of waits; and what takes their steps back.
#include <algorithm>

#include "agent/base/json.h"
#include "tests/sim/world.h"

namespace bide::sim {
namespace {

std::string of_run(const std::string& what, RunId run) { return what + " of run " + std::to_string(run.value); }

std::string header(const work::Envelope& envelope, const std::string& name) {
  for (const auto& [key, value] : envelope.headers) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace

// A11: the step's key starts one child, and what the parent gets is that child's.
void World::play_call(flow::Context& context, const Op& op) {
  const RunId run = context.run();
  const std::string input = "{\"plan\":" + std::to_string(op.child) + ",\"leaf\":true}";
  const auto check_child = [&](const std::string& status) {
    process_->store->read([&](db::ReadTx& tx) {
      db::Query q(tx,
                  "SELECT count(*), c.status, c.input, max(c.id) FROM runs c JOIN steps s ON s.id = c.parent_step_id "
                  "WHERE s.run_id = ? AND s.name = ?");  // status and input are those of the highest id
      q.bind(run, op.name).one();
      const bool retried = ledger_.runs[run.value].retries > 0;  // then one that cannot go on is begun anew [X3]
      if (q.integer(0) < 1 || (q.integer(0) > 1 && !retried))
        violated("I2", of_run(op.name, run) + " has " + std::to_string(q.integer(0)) + " children");
      if (q.text(2) != input) violated("I1", of_run(op.name, run) + " started a child with " + q.text(2));
      if (q.text(1) != status && !retried)
        violated("I1", of_run(op.name, run) + " was told of a child that is " + status + ", it is " + q.text(1));
    });
  };
  ledger_.counts.add("calls");
  try {
    const std::string result = context.call(kFlow, input, op.name);
    if (is_copied(run, op)) return ledger_.saw(run, op, result);
    if (result != "\"played\"") violated("I1", of_run(op.name, run) + " gave " + result);
    check_child("completed");
    ledger_.saw(run, op, result);
  } catch (const flow::StepFailed& failed) {
    const auto code = json::string_member(failed.error, "code");
    const bool here = !is_copied(run, op);
    if (here && (code == "ChildCancelled" || code == "Cancelled")) check_child("cancelled");
    throw;
  }
}

void World::play_message(flow::Context& context, const Op& op) {
  const RunId run = context.run();
  const std::string result =
      context.send("http://out.example/" + std::to_string(op.index % 3),
                   "{\"run\":" + std::to_string(run.value) + ",\"op\":" + std::to_string(op.index) + "}", op.name);
  ledger_.saw(run, op, result);
  ledger_.counts.add("messages");
}

// A10: one winner; what the code is given is what the winner was told.
void World::play_first_of(flow::Context& context, const Op& op) {
  const RunId run = context.run();
  flow::ApprovalOptions approval;
  approval.name = "either-" + std::to_string(op.index);
  const std::string signal = "signal-" + std::to_string(op.index % 2);
  const std::string result =
      context.first_of({flow::Alternative::approval("This, or something else?", approval),
                        flow::Alternative::signal(signal), flow::Alternative::timer(op.length, "late")},
                       op.name);
  if (is_copied(run, op)) return ledger_.saw(run, op, result);
  const std::string won = json::string_member(result, "won").value_or("?");
  const std::string value = json::member(result, "value").value_or("?");
  process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx,
                "SELECT sum(w.status = 'cancelled'), count(*), max(CASE WHEN w.status <> 'cancelled' THEN w.name END) "
                "FROM waits w JOIN steps s ON s.id = w.step_id WHERE s.run_id = ? AND s.name = ?");
    q.bind(run, op.name).one();
    if (q.integer(0) + 1 != q.integer(1) || q.text(2) != won)
      violated("I4", of_run(op.name, run) + " was won by " + won + ", the file says " + q.text(2));
  });
  if (won == approval.name) check_answer(run, won, value);
  ledger_.saw(run, op, result);
  ledger_.counts.add("races won by " + (won == "late" ? won : won.substr(0, 6)));
}

void World::play_task(flow::Context& context, const Op& op) {
  const RunId run = context.run();
  flow::TaskOptions options;
  options.effect = op.effect;
  options.retries = op.retries;
  if (op.assumes) options.assume = "\"assumed\"";
  const std::string request = "{\"run\":" + std::to_string(run.value) + ",\"op\":" + std::to_string(op.index) + "}";
  const std::string result = context.task(op.name, request, options);
  check_result(run, op, result);
  ledger_.saw(run, op, result);
  ledger_.counts.add("tasks");
}

std::string World::task(const std::string& request, const flow::EffectInfo& info) {
  const RunId run(json::int_member(request, "run").value_or(0));
  const Op* op =
      find_op(ledger_.runs[run.value].plan.ops, static_cast<int>(json::int_member(request, "op").value_or(0)));
  if (op == nullptr) violated("I1", "a task with the request " + request + ", which is in no plan");
  return execute(run, *op, info);
}

// E6: of a run that has ended, not for a completed one, under one key.
std::string World::undo(const flow::UndoInfo& info) {
  const RunId run(json::int_member(info.argument, "run").value_or(0));
  const int index = static_cast<int>(json::int_member(info.argument, "op").value_or(0));
  RunOutside& outside = ledger_.runs[run.value];
  const Op* op = find_op(outside.plan.ops, index);
  if (op == nullptr || !op->undone) violated("I1", "a compensation with " + info.argument + ", which is in no plan");
  process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT status, error IS NOT NULL OR cancel_requested_at IS NOT NULL FROM runs WHERE id = ?");
    q.bind(run).one();
    if (q.text(0) != "running" || q.integer(1) == 0)
      violated("I2", of_run(op->name, run) + " is taken back while the run is " + q.text(0) + " and has no end");
  });
  const Effect& effect = ledger_.effect(run, *op);
  if (effect.applied == 0 && op->effect != kernel::Effect::pure && !effect.said_ran)
    violated("I2", of_run(op->name, run) + " is taken back and never happened");
  Undo& undo = outside.undos[index];
  if (undo.key.empty()) undo.key = info.effect.idempotency_key;
  if (undo.key != info.effect.idempotency_key || undo.key == effect.key)
    violated("I2", of_run(op->name, run) + " is taken back under another key");
  fibers_.touch();
  ++undo.executions;
  if (chance_.one_in(2)) fibers_.yield();
  if (undo.executions <= op->undo_fails) throw std::runtime_error("as planned");
  if (undo.applied++ == 0) outside.undo_order.push_back(index);
  ledger_.counts.add("compensations");
  if (chance_.one_in(2)) fibers_.yield();
  return "true";
}

// The world's side of a delivery [O3, I5]: one body a key, and a key only of what the file says was sent.
work::Answered World::receive(const work::Envelope& envelope) {
  using Kind = work::Answered::Kind;
  const std::string key = header(envelope, "Idempotency-Key");
  if (chance_.one_in(2)) fibers_.yield();
  process_->peril();
  if (faults_ && chance_.one_in(6)) return {Kind::failed, 0, "connection refused", ""};
  const bool known = process_->store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT 1 FROM steps WHERE kind = 'message' AND json_extract(result, '$.key') = ?");
    return q.bind(key).next();
  });
  if (!known) violated("I5", "a message under the key " + key + " was sent, and no journal has it");
  Received& received = ledger_.received[key];
  if (received.times > 0 && received.body != envelope.body)
    violated("I5", "the body of key " + key + " was " + received.body + " and is " + envelope.body);
  received.body = envelope.body;
  ++received.times;
  ledger_.counts.add(received.times > 1 ? "deliveries again" : "deliveries");
  if (chance_.one_in(2)) fibers_.yield();
  process_->peril();
  if (!faults_ || !chance_.one_in(5)) return {Kind::answered, 200, "", ""};
  if (chance_.one_in(2)) return {Kind::failed, 0, "reset after reading", ""};
  return {Kind::answered, chance_.one_in(2) ? 500 : 429, "", chance_.one_in(2) ? "30" : ""};
}

// At the end: every message was delivered.
void World::check_delivered(db::ReadTx& tx) {
  db::Query q(tx,
              "SELECT run_id, json_extract(result, '$.key') FROM steps WHERE kind = 'message' AND status = 'completed' "
              "AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.idem_key = json_extract(steps.result, '$.key'))");
  while (q.next()) {
    if (!ledger_.received.contains(q.text(1)))
      violated("I5",
               "a message of run " + std::to_string(q.integer(0)) + " was never delivered, and is no row any more");
  }
}

// E6, at the end: of a run that failed or was cancelled what was done is taken back, the last first; of others nothing.
void World::check_undone(db::ReadTx& tx) {
  for (const auto& [id, outside] : ledger_.runs) {
    const RunId run(id);
    db::Query r(tx, "SELECT status FROM runs WHERE id = ?");
    if (!r.bind(run).next()) continue;
    const bool undoes = r.text(0) != "completed";
    if (!undoes && !outside.undos.empty()) violated("I2", of_run("a step", run) + ", which completed, was taken back");
    std::map<int, std::int64_t> settled;
    db::Query s(tx,
                "SELECT name, settled_no FROM steps WHERE run_id = ? AND kind = 'step' AND status = 'completed' AND "
                "compensate IS NOT NULL");
    s.bind(run);
    while (s.next()) {
      const std::string name = s.text(0);
      settled[std::stoi(name.substr(name.rfind('-') + 1))] = s.integer(1);
    }
    for (const auto& [index, number] : settled) {
      const auto undo = outside.undos.find(index);
      if (undoes && (undo == outside.undos.end() || undo->second.applied == 0))
        violated("I2", of_run("step " + std::to_string(index), run) + " was not taken back");
    }
    for (const auto& [index, undo] : outside.undos) {
      if (!settled.contains(index))
        violated("I2", of_run("step " + std::to_string(index), run) + " was taken back and is not completed");
    }
    for (std::size_t i = 1; i < outside.undo_order.size(); ++i) {
      if (settled[outside.undo_order[i]] > settled[outside.undo_order[i - 1]])
        violated("I2", of_run("what was done last", run) + " was not taken back first");
    }
  }
}

}  // namespace bide::sim
