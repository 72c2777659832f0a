#include "agent/kernel/judge.h"

#include <algorithm>
#include <array>

#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/base/text.h"
#include "agent/kernel/audit.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/events.h"
#include "agent/kernel/first_of.h"
#include "agent/kernel/schema_check.h"

namespace bide::kernel {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kWords = {{
    {"ran", "ran"},
    {"it ran", "ran"},
    {"continue", "ran"},
    {"run", "run"},
    {"it did not", "run"},
    {"it did not run", "run"},
    {"it didn't", "run"},
    {"run it", "run"},
    {"abort", "abort"},
}};

// What a decision says, in one canonical text: to tell "the same again" from "another one".
std::string said(const WaitRow& wait, const Decision& decision) {
  if (wait.kind == WaitKind::approval) return decision.decision.value_or("");
  if (wait.kind == WaitKind::reconcile) {
    const std::string verdict(reconcile_verdict(decision.answer.value_or("\"\"")));
    return decision.result ? verdict + " " + json::canonical(*decision.result) : verdict;
  }
  return decision.answer ? json::canonical(*decision.answer) : "";
}

std::string stored(const WaitRow& wait) {
  if (!wait.resolution) return "";
  if (wait.kind == WaitKind::approval) return json::string_member(*wait.resolution, "decision").value_or("");
  if (wait.kind == WaitKind::reconcile) {
    const std::string verdict = json::string_member(*wait.resolution, "answer").value_or("");
    const auto result = json::member(*wait.resolution, "result");
    return result ? verdict + " " + json::canonical(*result) : verdict;
  }
  const auto answer = json::member(*wait.resolution, "answer");
  return answer ? json::canonical(*answer) : "";
}

Problem already(const WaitRow& wait) {
  json::Writer extra;
  extra.begin_object().member("wait", wait.id.value).member("wait_status", std::string(to_text(wait.status)));
  if (wait.resolution) extra.member_raw("resolution", *wait.resolution);
  extra.member("resolved_by", wait.resolved_by);
  if (wait.resolved_at) extra.member("resolved_at", format_time(*wait.resolved_at));
  extra.end_object();
  const std::string when = wait.resolved_at ? " at " + format_time(*wait.resolved_at) : "";
  Problem p;
  if (wait.status == WaitStatus::expired) {
    p = problem("wait_expired", "The wait expired" + when + "; the answer came after it.");
  } else if (wait.status == WaitStatus::cancelled) {
    p = problem("wait_cancelled", "The wait was closed" + when + ": its run ended, or another wait of its group won.");
  } else {
    p = problem("wait_decided",
                wait.resolved_by.value_or("somebody") + " decided it" + when + ": " + stored(wait) + ".");
  }
  p.hint = "bide show " + std::to_string(wait.run.value);
  p.extra = extra.text().substr(1, extra.text().size() - 2);
  return p;
}

// A8: the options and the schema of a question.
std::optional<Problem> misfit(const WaitRow& wait, const Decision& decision) {
  if (wait.kind == WaitKind::approval) {
    const std::string word = decision.decision.value_or("");
    if (word == "approved" || word == "denied" || word == "changes_requested") return std::nullopt;
    return problem("bad_decision",
                   "An approval takes {\"decision\": \"approved\" | \"denied\" | \"changes_requested\", \"comment\"?}.",
                   "bide approve " + std::to_string(wait.id.value));
  }
  if (!decision.answer) {
    return problem("bad_decision", "A question takes {\"answer\": …}.",
                   "bide answer " + std::to_string(wait.id.value) + " VALUE");
  }
  if (wait.kind == WaitKind::reconcile) {
    if (!reconcile_verdict(*decision.answer).empty()) return std::nullopt;
    return problem(
        "not_understood",
        "Understood as a whole are: \"ran\", \"it ran\", \"continue\"; \"run\", \"it did not\", \"it did not run\", "
        "\"it didn't\", \"run it\"; \"abort\".",
        "bide answer " + std::to_string(wait.id.value) + " ran|run|abort");
  }
  Problem p = problem("answer_invalid", "The answer does not fit what is asked.", "bide inbox");
  const auto options = json::member(wait.payload, "options");
  if (options && *options != "null" && *options != "[]") {
    const std::string schema = json::Writer().begin_object().member_raw("enum", *options).end_object().take();
    if (!schema_errors(schema, *decision.answer).empty()) p.errors = {{"", "must be one of " + *options}};
  }
  if (const auto schema = json::member(wait.payload, "schema"); schema && *schema != "null" && p.errors.empty()) {
    p.errors = schema_errors(*schema, *decision.answer);
  }
  if (p.errors.empty()) return std::nullopt;
  return p;
}

// A scope that the workflow's newest manifest asks of whoever decides, beside approve; empty: none is lacking.
std::string scope_lacking(db::ReadTx& tx, RunId run, const Principal& by) {
  db::Query q(tx,
              "SELECT manifest FROM workflow_versions WHERE workflow_id = (SELECT workflow_id FROM runs WHERE id = ?) "
              "ORDER BY id DESC LIMIT 1");
  q.bind(run);
  if (!q.next()) return "";
  const std::uint8_t needed = scopes_from(json::string_member(q.text(0), "scopes").value_or(""));
  for (const Scope scope : {Scope::read, Scope::start, Scope::approve, Scope::work, Scope::admin}) {
    if ((needed & static_cast<std::uint8_t>(scope)) != 0 && !by.has(scope))
      return scopes_text(static_cast<std::uint8_t>(scope));
  }
  return "";
}

std::optional<Problem> not_allowed(db::ReadTx& tx, const WaitRow& wait, const Principal& by) {
  if (!by.has(Scope::approve)) {
    return problem(
        "forbidden",
        by.name + " may not decide: the scope \"approve\" is needed, and a step cannot open its own run's gate.");
  }
  if (wait.kind != WaitKind::approval) return std::nullopt;
  if (const std::string lacking = scope_lacking(tx, wait.run, by); !lacking.empty()) {
    return problem("forbidden",
                   by.name + " may not decide: the workflow's manifest asks for the scope \"" + lacking + "\" too.");
  }
  const std::string policy = json::string_member(wait.payload, "policy").value_or("any");
  if (policy == "any") return std::nullopt;
  const auto run = read_run(tx, wait.run);
  const bool initiator = run->created_by == by.name;
  if (policy == "not_initiator" && initiator && !BIDE_PLANTED(initiator_decides)) {
    return problem("not_initiator", by.name + " started this run; somebody else must decide.");
  }
  if (policy == "initiator" && !initiator) {
    return problem("not_initiator", "Only " + run->created_by + ", who started this run, may decide.");
  }
  return std::nullopt;
}

int count_votes(db::ReadTx& tx, WaitId wait) {
  db::Query q(tx, "SELECT count(*) FROM decisions WHERE wait_id = ? AND decision = 'approved'");
  return static_cast<int>(q.bind(wait).one().integer(0));
}

std::string approval_resolution(db::ReadTx& tx, const WaitRow& wait, const Decision& decision, const Principal& by,
                                int quorum, TimeMs now) {
  json::Writer w;
  w.begin_object().member("decision", *decision.decision).member("by", by.name).member("at", format_time(now));
  if (!decision.comment.empty()) w.member("comment", decision.comment);
  if (quorum > 1) {
    w.key("votes").begin_array();
    db::Query q(tx, "SELECT decided_by, decision FROM decisions WHERE wait_id = ? ORDER BY decided_at, decided_by");
    q.bind(wait.id);
    while (q.next()) w.begin_object().member("by", q.text(0)).member("decision", q.text(1)).end_object();
    w.end_array();
  }
  return w.end_object().take();
}

// E4: the abort settles step and run in this transaction; ran and run are carried out by the attempt that reads them.
struct AbortedUndo {};
using Aborted = std::variant<AbortedUndo, CancelOutcome>;
Aborted abort_run(db::Tx& tx, const WaitRow& wait, const Principal& by, TimeMs now, Ripples* ripples) {
  static constexpr std::string_view kError =
      R"({"code":"ReconcileAborted","message":"A person answered the question of a step in doubt with abort."})";
  const int changed = db::Query(tx,
                                "UPDATE steps SET status = 'failed', error = ?2, updated_at = ?3 WHERE id = ?1 AND "
                                "status = 'needs_reconcile'")
                          .bind(wait.step, kError, now)
                          .run();
  if (changed != 1) throw Bug("abort_run: the step was not in doubt");
  append_event(tx, now, "step.failed", wait.run, wait.step);
  // Of what is taken back: that step alone is given up, the next one goes on, and the run ends as it was to end [E6].
  if (read_step(tx, wait.step)->position.starts_with(std::string(kUndoBranch) + "/")) return AbortedUndo{};
  const auto outcome = cancel_run(tx, wait.run, by.name, "ReconcileAborted", now, ripples);
  return outcome;
}

}  // namespace

std::string_view reconcile_verdict(std::string_view answer_json) {
  std::string text = json::as_string(answer_json).value_or("");
  text = lower(trim(text));
  if (!text.empty() && text.back() == '.') text.pop_back();
  for (const auto& [words, verdict] : kWords) {
    if (text == words) return verdict;
  }
  return {};
}

void store_resolution(db::Tx& tx, WaitId wait, std::string_view resolution, const std::optional<std::string>& by,
                      TimeMs now) {
  const int changed =
      db::Query(tx,
                "UPDATE waits SET status = 'resolved', resolution = ?2, resolved_by = ?3, resolved_at = ?4 "
                "WHERE id = ?1 AND status = 'pending'")
          .bind(wait, resolution, by, now)
          .run();
  if (changed != 1) throw Bug("store_resolution: the wait was not pending");
  const auto row = read_wait(tx, wait);
  close_siblings(tx, *row, now);
  append_event(tx, now, "wait.resolved", row->run, row->step,
               json::Writer()
                   .begin_object()
                   .member("wait", wait.value)
                   .member("status", "resolved")
                   .member("by", by)
                   .end_object()
                   .text());
}

ResolveOutcome judge_wait(db::Tx& tx, WaitId id, const Decision& decision, const Principal& by,
                          std::string_view refusal, TimeMs now) {
  const auto found = read_wait(tx, id);
  if (!found) return problem("wait_not_found", "There is no wait " + std::to_string(id.value) + ".", "bide inbox");
  const WaitRow& wait = *found;
  const auto refuse = [&](Problem p) -> ResolveOutcome {
    audit_answer(tx, wait.run, wait.name, &wait, decision, by.name, refusal, p.code, now);
    return p;
  };
  if (wait.kind != WaitKind::approval && wait.kind != WaitKind::question && wait.kind != WaitKind::reconcile) {
    return problem("bad_decision", "A " + std::string(to_text(wait.kind)) + " is not decided by a person.");
  }
  if (auto p = not_allowed(tx, wait, by)) return refuse(std::move(*p));
  if (wait.status != WaitStatus::pending) {
    if (wait.status == WaitStatus::resolved && !said(wait, decision).empty() && said(wait, decision) == stored(wait)) {
      audit_answer(tx, wait.run, wait.name, &wait, decision, by.name, "accepted", "same_again", now);
      return SameDecision{wait};
    }
    return refuse(already(wait));
  }
  std::optional<TimeMs> deadline = group_deadline(tx, wait.step);
  if (!deadline || (wait.resolve_by && *wait.resolve_by < *deadline)) deadline = wait.resolve_by;
  if (deadline && *deadline <= now && !BIDE_PLANTED(late_answer_taken)) {
    return refuse(
        problem("wait_expired", "The wait's deadline was " + format_time(*deadline) + "; the answer came after it."));
  }
  if (decision.if_match && *decision.if_match != wait.digest) {
    return refuse(
        problem("changed", "What is asked is not what was shown: the digest differs. Look at it again, then decide."));
  }
  if (auto p = misfit(wait, decision)) return refuse(std::move(*p));
  audit_answer(tx, wait.run, wait.name, &wait, decision, by.name, "accepted", "", now);
  return settle_decision(tx, wait, decision, by, now);
}

ResolveOutcome settle_decision(db::Tx& tx, const WaitRow& wait, const Decision& decision, const Principal& by,
                               TimeMs now) {
  WaitResolved resolved;
  if (wait.kind == WaitKind::approval) {
    db::Query(tx,
              "INSERT INTO decisions (wait_id, decided_by, decision, decided_at) VALUES (?,?,?,?) "
              "ON CONFLICT DO UPDATE SET decision = excluded.decision, decided_at = excluded.decided_at")
        .bind(wait.id, by.name, *decision.decision, now)
        .run();
    const int quorum = std::max(1, static_cast<int>(json::int_member(wait.payload, "quorum").value_or(1)));
    const int votes = count_votes(tx, wait.id);
    if (*decision.decision == "approved" && votes < quorum && !BIDE_PLANTED(quorum_of_one)) {
      append_event(tx, now, "wait.vote", wait.run, wait.step);
      return VoteCounted{*read_wait(tx, wait.id), votes, quorum};
    }
    store_resolution(tx, wait.id, approval_resolution(tx, wait, decision, by, quorum, now), by.name, now);
  } else {
    json::Writer w;
    w.begin_object();
    if (wait.kind == WaitKind::reconcile) {
      w.member("answer", std::string(reconcile_verdict(*decision.answer)));
      if (decision.result) w.member_raw("result", *decision.result);
    } else {
      w.member_raw("answer", *decision.answer);
    }
    w.member("by", by.name).member("at", format_time(now)).end_object();
    store_resolution(tx, wait.id, w.text(), by.name, now);
  }
  resolved.wait = *read_wait(tx, wait.id);
  if (wait.kind == WaitKind::reconcile && reconcile_verdict(*decision.answer) == "abort") {
    const auto aborted = abort_run(tx, wait, by, now, &resolved.ripples);
    if (const auto* outcome = std::get_if<CancelOutcome>(&aborted)) {
      resolved.run_cancelled = true;
      resolved.woke = std::holds_alternative<CancelTold>(*outcome) ? Woke::ring_attempt : Woke::ended;
      return resolved;
    }
  }
  resolved.woke = BIDE_PLANTED(decision_wakes_nobody) ? Woke::ended : wake_run(tx, wait.run, now);
  return resolved;
}

ResolveOutcome resolve_wait(db::Tx& tx, WaitId wait, const Decision& decision, const Principal& by, TimeMs now) {
  return judge_wait(tx, wait, decision, by, "refused", now);
}

std::variant<Decision, Problem> parse_decision(std::string_view body) {
  Decision decision;
  const auto word = json::member(body, "decision");
  decision.decision = json::string_member(body, "decision");
  decision.answer = json::member(body, "answer");
  decision.result = json::member(body, "result");
  decision.comment = json::string_member(body, "comment").value_or("");
  const bool one = word.has_value() != decision.answer.has_value();
  if (!one || (word && !decision.decision)) {
    return problem(
        "bad_decision",
        "Expected {\"decision\": \"approved\" | \"denied\" | \"changes_requested\", \"comment\"?} or {\"answer\": …, "
        "\"result\"?}, one of both.");
  }
  return decision;
}

NamedOutcome resolve_named(db::Tx& tx, RunId run, std::string_view name, const Decision& decision,
                           std::string_view body, const Principal& by, TimeMs now) {
  const auto row = read_run(tx, run);
  if (!row) return problem("run_not_found", "There is no run " + std::to_string(run.value) + ".", "bide runs");
  std::optional<WaitId> latest;
  {
    db::Query q(tx,
                "SELECT id FROM waits WHERE run_id = ? AND name = ? AND kind IN ('approval','question') "
                "ORDER BY status = 'pending' DESC, id DESC LIMIT 1");
    q.bind(run, name);
    if (q.next()) latest = WaitId(q.integer(0));
  }
  if (latest) {
    const auto outcome = resolve_wait(tx, *latest, decision, by, now);
    return std::visit([](const auto& o) -> NamedOutcome { return o; }, outcome);
  }
  if (!by.has(Scope::approve)) {
    audit_answer(tx, run, name, nullptr, decision, by.name, "refused", "forbidden", now);
    return problem("forbidden", by.name + " may not decide: the scope \"approve\" is needed.");
  }
  if (terminal(row->status)) {
    audit_answer(tx, run, name, nullptr, decision, by.name, "refused", "run_ended", now);
    return problem("run_ended",
                   "Run " + std::to_string(run.value) + " has ended: " + std::string(to_text(row->status)) + ".");
  }
  db::Query(tx,
            "INSERT INTO early_decisions (run_id, name, decided_by, scopes, decision, decided_at) VALUES (?,?,?,?,?,?) "
            "ON CONFLICT DO UPDATE SET scopes = excluded.scopes, decision = excluded.decision, decided_at = "
            "excluded.decided_at")
      .bind(run, name, by.name, scopes_text(by.scopes), body, now)
      .run();
  append_event(tx, now, "wait.decided_early", run, StepId());
  return DecisionKept{};
}

}  // namespace bide::kernel
