#include "agent/kernel/explain.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/kernel/task_push.h"
#include "agent/kernel/waits.h"

namespace bide::kernel {
namespace {

struct OpenStep {
  StepId id;
  StepKind kind = StepKind::step;
  std::string name;
  StepStatus status = StepStatus::started;
  std::int64_t failures = 0;
  std::int64_t retries = 0;
  std::optional<TimeMs> not_before;
  std::optional<std::string> error;
  TimeMs updated_at = 0;
};

// A request to an app that has not been taken: the wake of the run, or the question for a task.
struct Request {
  DeliveryId id;
  OutboxKind kind = OutboxKind::wake;
  std::string to;
  StepId task;
  std::int64_t tries = 0;
  TimeMs next_try_at = 0;
  bool parked = false;
  std::string error;
};

// What the sentences need, read in one snapshot.
struct Known {
  RunRow run;
  std::string version;
  bool remote = false;  // an app drives it
  std::optional<TimeMs> lease_until;
  std::optional<std::string> environment;  // that its manifest names
  std::optional<TimeMs> redrive_at;
  std::vector<OpenStep> open_steps;  // pending, started or in doubt
  std::vector<Request> requests;     // that have not gone out, by id
};

std::string number(RunId run) { return std::to_string(run.value); }
std::string quoted(const std::string& name) { return "\"" + name + "\""; }
std::string length(DurationMs span) { return format_duration(std::max<DurationMs>(0, span / 1000 * 1000)); }

// "CODE: message" of an error document.
std::string error_words(const std::optional<std::string>& error) {
  if (!error) return "an error";
  const std::string code = json::string_member(*error, "code").value_or("an error");
  const auto message = json::string_member(*error, "message");
  return message ? code + ": " + *message : code;
}

std::vector<WaitingOn> open_waits(db::ReadTx& tx, RunId run) {
  std::vector<WaitingOn> waits;
  for (const WaitRow& row : pending_waits(tx, run)) {
    waits.push_back(
        {row.id, row.kind, row.name, json::string_member(row.payload, "text"), row.created_at, row.resolve_by});
  }
  return waits;
}

// Guards and holders of the run that have to end before an attempt begins, and are not known to have ended [K7].
std::vector<HeldBy> live_processes_of(db::ReadTx& tx, RunId run) {
  std::vector<HeldBy> held;
  db::Query q(
      tx,
      "SELECT p.pid, p.epoch, s.name FROM processes p LEFT JOIN steps s ON s.id = p.step_id "
      "WHERE p.run_id = ? AND p.status <> 'stopped' AND (p.step_id IS NULL OR p.status = 'stopping') ORDER BY p.id");
  q.bind(run);
  while (q.next()) {
    held.push_back(
        {q.integer(0), q.null(2) ? "guard of attempt " + std::to_string(q.integer(1)) : "holder of step " + q.text(2)});
  }
  return held;
}

std::vector<OpenStep> open_steps_of(db::ReadTx& tx, RunId run) {
  std::vector<OpenStep> open;
  db::Query q(tx,
              "SELECT id, kind, name, status, failures, retries, not_before, error, updated_at FROM steps "
              "WHERE run_id = ? AND status IN ('pending', 'started', 'needs_reconcile') ORDER BY seq");
  q.bind(run);
  while (q.next()) {
    open.push_back({StepId(q.integer(0)), step_kind_from(q.text(1)).value(), q.text(2),
                    step_status_from(q.text(3)).value(), q.integer(4), q.integer(5), q.maybe_integer(6),
                    q.maybe_text(7), q.integer(8)});
  }
  return open;
}

std::vector<Request> requests_of(db::ReadTx& tx, RunId run) {
  std::vector<Request> requests;
  db::Query q(tx, "SELECT id FROM outbox WHERE run_id = ? AND kind IN ('wake', 'task') ORDER BY id");
  q.bind(run);
  while (q.next()) {
    const OutboxRow row = read_delivery(tx, DeliveryId(q.integer(0))).value();
    requests.push_back({row.id, row.kind, row.lane, task_of(row), row.tries, row.next_try_at, row.parked_at.has_value(),
                        row.last_error.value_or("")});
  }
  return requests;
}

std::optional<TimeMs> earliest(const Known& known, const std::vector<WaitingOn>& waits) {
  std::optional<TimeMs> at;
  const auto take = [&at](std::optional<TimeMs> t) {
    if (t) at = at ? std::min(*at, *t) : *t;
  };
  if (known.run.status == RunStatus::queued) take(known.run.run_at);
  if (known.run.status == RunStatus::queued || known.run.status == RunStatus::waiting) take(known.redrive_at);
  for (const WaitingOn& wait : waits) take(wait.until);
  return at;
}

// People first: what a person can do something about explains more than what time will bring.
const WaitingOn* most_telling(const std::vector<WaitingOn>& waits) {
  const auto rank = [](WaitKind kind) {
    switch (kind) {
      case WaitKind::reconcile: return 0;
      case WaitKind::approval: return 1;
      case WaitKind::question: return 2;
      case WaitKind::signal: return 3;
      case WaitKind::child: return 4;
      case WaitKind::timer: return 5;
    }
    return 6;
  };
  const auto it = std::min_element(waits.begin(), waits.end(),
                                   [&](const WaitingOn& a, const WaitingOn& b) { return rank(a.kind) < rank(b.kind); });
  return it == waits.end() ? nullptr : &*it;
}

void say(Explanation& e, std::string_view reason, std::string text, std::string command) {
  e.reason = reason;
  e.text = std::move(text);
  e.command = std::move(command);
}

// Whom the app is asked at, and what came of it so far.
void explain_request(Explanation& e, const Request& request, const std::string& waits, std::string_view reason) {
  const std::string id = std::to_string(request.id.value);
  if (request.parked) {
    return say(e, "delivery_parked",
               waits + " The request to " + request.to + " was given up after " + std::to_string(request.tries) +
                   (request.tries == 1 ? " try" : " tries") + ": " + request.error + ".",
               "bide outbox retry " + id);
  }
  const std::string next = request.tries == 0 ? "."
                                              : ", tried " + std::to_string(request.tries) +
                                                    (request.tries == 1 ? " time" : " times") + ", again at " +
                                                    format_time(request.next_try_at) + ": " + request.error + ".";
  say(e, reason, waits + " The request to " + request.to + " has not been taken yet" + next, "bide outbox");
}

void explain_ended(Explanation& e, const Known& known) {
  const std::string at = known.run.finished_at ? " at " + format_time(*known.run.finished_at) : "";
  const std::string show = "bide show " + number(e.run);
  if (e.state == RunStatus::completed) return say(e, "completed", "The run completed" + at + ".", show);
  if (e.state == RunStatus::failed) {
    return say(e, "failed", "The run failed" + at + " with " + error_words(known.run.error),
               "bide retry " + number(e.run));
  }
  const std::string why =
      known.run.cancel_reason && !known.run.cancel_reason->empty() ? ": " + *known.run.cancel_reason : "";
  const bool doubt = std::any_of(known.open_steps.begin(), known.open_steps.end(),
                                 [](const OpenStep& s) { return s.status == StepStatus::needs_reconcile; });
  say(e, "cancelled",
      "The run was cancelled" + at + why + (doubt ? "; nobody knows whether its step in doubt ran." : "."), show);
}

void explain_wait(Explanation& e, const WaitingOn& wait) {
  const std::string id = std::to_string(wait.id.value);
  const std::string asks = wait.asks ? ": " + *wait.asks : "";
  const std::string until = wait.until ? " until " + format_time(*wait.until) : "";
  switch (wait.kind) {
    case WaitKind::reconcile:
      return say(e, "in_doubt",
                 "Step " + quoted(wait.name) +
                     " may have had its effect: its attempt ended before it could say, and somebody must tell.",
                 "bide answer " + id + " ran|run|abort");
    case WaitKind::approval:
      return say(e, "needs_answer", "It waits for an approval" + until + asks, "bide approve " + id);
    case WaitKind::question:
      return say(e, "needs_answer", "It waits for an answer" + until + asks, "bide answer " + id + " VALUE");
    case WaitKind::signal:
      return say(e, "waits_for_signal", "It waits for the signal " + quoted(wait.name) + until + ".",
                 "bide signal " + number(e.run) + " " + wait.name);
    case WaitKind::child:
      return say(e, "waits_for_child", "It waits for the run that it started as " + quoted(wait.name) + ".",
                 "bide show " + number(e.run));
    case WaitKind::timer: return say(e, "sleeping", "It sleeps" + until + ".", "bide show " + number(e.run));
  }
}

void explain_reason(Explanation& e, const Known& known, const std::string& reason) {
  const std::string what = known.run.workflow_name + " (version " + known.version + ")";
  if (reason == "version_missing") {
    return say(
        e, reason,
        "The agent does not have the version that the run began with: " + what + "; it goes on when that is back.",
        "bide workflows");
  }
  if (reason == "workflow_missing") {
    return say(e, reason, "The agent does not have the workflow " + what + "; the run goes on when it is back.",
               "bide workflows");
  }
  if (reason == "secret_missing") {
    return say(e, reason,
               "A secret that its manifest names is not there, too short, or open to others: it belongs into secrets/ "
               "of the agent's folder, mode 0600. It is looked for every minute; the agent's log names it.",
               "bide log " + number(e.run));
  }
  if (reason == "run_as_refused") {
    return say(
        e, reason,
        "Its manifest's run_as names a user as whom nothing can be started now: it is gone, or the agent does not "
        "run as root any more. It is looked for every minute; the agent's log names it.",
        "bide doctor");
  }
  if (reason == "secret_step_failed") {
    return say(e, reason, "A step whose result is a secret failed when it was run again; it is tried every minute.",
               "bide log " + number(e.run));
  }
  if (reason == "environment_missing" || reason == "environment_seeding") {
    const std::string name = known.environment.value_or("");
    return say(
        e, reason,
        reason == "environment_seeding"
            ? "Its environment " + name + " is being made; the run goes on when it is ready."
            : "There is no environment " + name + ", which its manifest names; the run goes on when it is added.",
        reason == "environment_seeding" ? "bide environment list" : "bide environment add " + name);
  }
  if (reason == "previous_attempt_alive") {
    std::string pids;
    for (const HeldBy& held : e.held_by)
      pids += (pids.empty() ? "pid " : ", ") + std::to_string(held.pid) + " " + held.what;
    return say(e, reason,
               "A process of an earlier attempt is still alive: " + (pids.empty() ? "unknown" : pids) +
                   "; the next attempt begins when it is gone.",
               "bide sweep");
  }
  say(e, reason,
      "The last attempt was handed back (" + reason + "); the next one begins at " + format_time(known.run.run_at) +
          ".",
      "bide log " + number(e.run));
}

// Queued for later: a timer, a retry, or a start that was ordered for then.
void explain_later(Explanation& e, const Known& known) {
  if (const WaitingOn* wait = most_telling(e.waiting_on)) return explain_wait(e, *wait);
  const auto step = std::find_if(known.open_steps.begin(), known.open_steps.end(),
                                 [](const OpenStep& s) { return s.status == StepStatus::pending; });
  if (step == known.open_steps.end()) {
    return say(e, "scheduled", "It is to begin at " + format_time(known.run.run_at) + ".",
               "bide show " + number(e.run));
  }
  say(e, "retry_later",
      "Step " + quoted(step->name) + " failed (attempt " + std::to_string(step->failures) + " of " +
          std::to_string(step->retries + 1) + ") with " + error_words(step->error) + "; it is tried again at " +
          format_time(step->not_before.value_or(known.run.run_at)) + ".",
      "bide journal " + number(e.run));
}

void explain_queued(Explanation& e, const Known& known, const ExplainFacts& facts, TimeMs now) {
  const std::string show = "bide show " + number(e.run);
  if (known.run.paused_at) {
    return say(e, "paused", "It was paused at " + format_time(*known.run.paused_at) + ".",
               "bide resume " + number(e.run));
  }
  if (known.run.cancel_requested_at) {  // what can end at once has ended: this one has something to take back
    return say(e, "compensating",
               "It was cancelled; what its steps did is taken back by its next attempt, then it ends." +
                   (known.run.reason ? " (" + *known.run.reason + ")" : std::string()),
               "bide cancel " + number(e.run) + " --without-compensation");
  }
  if (known.run.reason) return explain_reason(e, known, *known.run.reason);
  if (known.run.run_at > now) return explain_later(e, known);
  if (facts.clock_held) {
    return say(e, "clock_held",
               "The clock stands before the time that the agent has seen: nothing is claimed until it is right.",
               "bide clock accept");
  }
  if (facts.draining) {
    return say(e, "draining", "The agent runs dry: it claims nothing until it is told to go on, or is restarted.",
               "bide drain --off");
  }
  if (known.remote) {
    const auto wake = std::find_if(known.requests.rbegin(), known.requests.rend(),
                                   [](const Request& r) { return r.kind == OutboxKind::wake; });
    if (wake != known.requests.rend())
      return explain_request(e, *wake, "It is due, and its app is to come for it.", "waits_for_app");
    return say(e, "waits_for_app",
               "It is due, and no worker of the app that drives " + quoted(known.run.workflow_name) +
                   " has come for it yet (or as many of its runs are running as may).",
               show);
  }
  if (facts.at_capacity) {
    return say(
        e, "at_capacity",
        "As many runs of " + known.run.workflow_name + " are running as may; it begins when one of them is done.",
        "bide runs");
  }
  if (facts.workers_busy)
    return say(e, "workers_busy", "Every worker is busy; it begins when one is free.", "bide runs");
  if (!e.held_by.empty()) return explain_reason(e, known, "previous_attempt_alive");
  say(e, "due", "It is due and is claimed next.", show);
}

void explain_running(Explanation& e, const Known& known, const ExplainFacts& facts, TimeMs now) {
  const std::string cancel = "bide cancel " + number(e.run);
  if (!facts.driven && !known.remote) {
    return say(e, "not_driven", "Its attempt ended with the process that drove it; the next sweep queues it again.",
               "bide sweep");
  }
  std::string steps;
  for (const OpenStep& step : known.open_steps) {
    if (step.kind != StepKind::step || step.status != StepStatus::started) continue;
    steps += (steps.empty() ? "step " : ", ") + quoted(step.name) + " for " + length(now - step.updated_at);
  }
  if (known.run.cancel_requested_at) {
    return say(e, "cancelling",
               "A cancel was asked at " + format_time(*known.run.cancel_requested_at) + "; " +
                   (steps.empty() ? "it ends at its next operation." : "it lets finish what executes: " + steps + "."),
               "bide show " + number(e.run));
  }
  if (known.run.error) {
    return say(e, "ending",
               "It is ending with " + error_words(known.run.error) +
                   (steps.empty() ? "." : "; it lets finish what executes: " + steps + "."),
               cancel);
  }
  if (!steps.empty()) return say(e, "executing", "It executes " + steps + ".", "bide log " + number(e.run));
  if (const WaitingOn* wait = most_telling(e.waiting_on)) {
    explain_wait(e, *wait);
    if (facts.held_by.empty()) return;
    const HeldBy& held = facts.held_by.front();
    e.reason = "held";
    e.text += " It is not suspended meanwhile: held by pid " + std::to_string(held.pid) + " " + held.what + ".";
    return;
  }
  if (known.remote) {
    return say(e, "driven_by_app",
               "It is driven by " + known.run.owner.value_or("an app").substr(known.run.owner ? 7 : 0) +
                   ", between two " + "steps; the lease is over at " + format_time(known.lease_until.value_or(now)) +
                   " if it is not heard of.",
               cancel);
  }
  say(e, "replaying", "It is driven by attempt " + std::to_string(known.run.epoch) + ", between two steps.",
      "bide log " + number(e.run));
}

void explain_task(Explanation& e, const Known& known, const OpenStep& task) {
  const std::string does = task.status == StepStatus::started ? "has begun " : "is to do ";
  if (known.run.error) {  // P1
    return say(e, "ending",
               "It is ending with " + error_words(known.run.error) + "; it lets finish what executes: a worker " +
                   does + quoted(task.name) + ".",
               "bide cancel " + number(e.run));
  }
  const auto asked = std::find_if(known.requests.begin(), known.requests.end(),
                                  [&](const Request& r) { return r.kind == OutboxKind::task && r.task == task.id; });
  if (asked != known.requests.end())
    return explain_request(e, *asked, "It waits for " + quoted(task.name) + ".", "waits_for_task");
  say(e, "waits_for_task", "It waits for a worker that " + does + quoted(task.name) + ".",
      "bide journal " + number(e.run));
}

Known read_known(db::ReadTx& tx, RunRow row) {
  Known known;
  known.open_steps = open_steps_of(tx, row.id);
  db::Query q(tx,
              "SELECT v.version, r.redrive_at, v.manifest, v.kind = 'remote', r.lease_until FROM runs r JOIN "
              "workflow_versions v ON v.id = r.workflow_version_id "
              "WHERE r.id = ?");
  q.bind(row.id).one();
  known.version = q.text(0);
  known.redrive_at = q.maybe_integer(1);
  known.environment = json::string_member(q.text(2), "environment");
  known.remote = q.integer(3) != 0;
  known.lease_until = q.maybe_integer(4);
  const bool asks = known.remote || std::any_of(known.open_steps.begin(), known.open_steps.end(),
                                                [](const OpenStep& s) { return s.kind == StepKind::task; });
  if (asks) known.requests = requests_of(tx, row.id);
  known.run = std::move(row);
  return known;
}

}  // namespace

std::optional<Explanation> explain_run(db::ReadTx& tx, RunId run, const ExplainFacts& facts, TimeMs now) {
  auto row = read_run(tx, run);
  if (!row) return std::nullopt;
  const Known known = read_known(tx, std::move(*row));
  Explanation e;
  e.run = run;
  e.state = known.run.status;
  if (terminal(e.state)) {
    explain_ended(e, known);
    return e;
  }
  e.waiting_on = open_waits(tx, run);
  e.wakes_at = earliest(known, e.waiting_on);
  e.held_by = facts.held_by;
  if (e.state != RunStatus::running) {
    for (HeldBy& held : live_processes_of(tx, run)) e.held_by.push_back(std::move(held));
  }
  if (e.state == RunStatus::running) {
    explain_running(e, known, facts, now);
  } else if (e.state == RunStatus::queued) {
    explain_queued(e, known, facts, now);
  } else if (const WaitingOn* wait = most_telling(e.waiting_on)) {
    explain_wait(e, *wait);
  } else if (const auto task = std::find_if(known.open_steps.begin(), known.open_steps.end(),
                                            [](const OpenStep& s) { return s.kind == StepKind::task; });
             task != known.open_steps.end()) {
    explain_task(e, known, *task);
  } else {
    say(e, "stalled",
        "It waits, but for nothing that could wake it; the agent's check finds such runs and drives them again.",
        "bide sweep");
  }
  return e;
}

std::string to_json(const Explanation& e) {
  json::Writer w;
  const auto time = [&w](std::string_view name, std::optional<TimeMs> at) {
    w.key(name);
    at ? w.string(format_time(*at)) : w.null();
  };
  w.begin_object().member("run", e.run.value).member("state", to_text(e.state)).member("reason", e.reason);
  w.key("waiting_on").begin_array();
  for (const WaitingOn& wait : e.waiting_on) {
    w.begin_object().member("id", wait.id.value).member("kind", to_text(wait.kind)).member("name", wait.name);
    w.key("asks");
    wait.asks ? w.string(*wait.asks) : w.null();
    time("since", wait.since);
    time("until", wait.until);
    w.end_object();
  }
  w.end_array();
  time("wakes_at", e.wakes_at);
  w.key("held_by").begin_array();
  for (const HeldBy& held : e.held_by) w.begin_object().member("pid", held.pid).member("what", held.what).end_object();
  w.end_array().member("text", e.text).member("command", e.command);
  return w.end_object().take();
}

}  // namespace bide::kernel
