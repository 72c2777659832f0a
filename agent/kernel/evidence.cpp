#include "agent/kernel/evidence.h"

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/kernel/events.h"
#include "agent/kernel/steps.h"

namespace bide::kernel {
namespace {

// The first bytes of a text, not cut within a character.
std::string_view first_bytes(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  text = text.substr(0, most);
  return text.substr(0, std::min(invalid_utf8(text), text.size()));
}

// Events of one kind of a step: the last ten, oldest first.
void write_events(json::Writer& w, db::ReadTx& tx, const StepRow& row, RunId run, std::string_view kind) {
  db::Query q(tx,
              "SELECT at, payload FROM (SELECT id, at, payload FROM events WHERE run_id = ?1 AND step_id = ?2 AND kind "
              "= ?3 ORDER BY id DESC LIMIT 10) ORDER BY id");
  q.bind(run, row.id, kind);
  while (q.next()) {
    const std::string payload = q.text(1);
    w.begin_object().member("at", format_time(q.integer(0)));
    for (const char* member : {"epoch", "result", "error", "result_cut", "error_cut"}) {
      if (const auto value = json::member(payload, member)) w.member_raw(member, *value);
    }
    w.end_object();
  }
}

}  // namespace

void keep_late_outcome(db::Tx& tx, RunId run, StepId step, std::int64_t epoch, std::string_view name,
                       const HandedIn& handed, TimeMs now) {
  json::Writer w;
  w.begin_object().member("epoch", epoch).member("name", name);
  const std::string_view member = handed.failed ? "error" : "result";
  if (handed.text.size() <= limits::kKeptOfTooLarge) {
    w.member_raw(member, handed.text.empty() ? "null" : handed.text);
  } else {
    w.member(std::string(member) + "_cut", first_bytes(handed.text, limits::kKeptOfTooLarge));
  }
  append_event(tx, now, "step.late_outcome", run, step, w.end_object().text());
}

bool keep_orphaned_outcome(db::Tx& tx, RunId run, std::int64_t seq, std::int64_t epoch, std::string_view nonce,
                           const HandedIn& handed, TimeMs now) {
  StepId step;
  std::string name;
  {
    db::Query q(
        tx,
        "SELECT id, name FROM steps WHERE run_id = ?1 AND seq = ?2 AND epoch = ?3 AND nonce = ?4 AND "
        "status IN ('started','needs_reconcile') AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id = ?1 AND "
        "e.step_id = steps.id AND e.kind = 'step.late_outcome' AND json_extract(e.payload, '$.epoch') = ?3)");
    if (!q.bind(run, seq, epoch, nonce).next()) return false;
    step = StepId(q.integer(0));
    name = q.text(1);
  }
  keep_late_outcome(tx, run, step, epoch, name, handed, now);
  return true;
}

std::string evidence_of(db::ReadTx& tx, StepId step, std::string_view probe) {
  const auto row = read_step(tx, step);
  if (!row) return "{}";
  const RunId run = [&] {
    db::Query q(tx, "SELECT run_id FROM steps WHERE id = ?");
    return RunId(q.bind(step).one().integer(0));
  }();
  json::Writer w;
  w.begin_object();
  if (!probe.empty()) w.member("probe", probe);
  w.member("executions", row->executions).member("first_began_at", format_time(row->created_at));
  w.member("last_began_at", format_time(row->updated_at));
  w.key("failed_attempts").begin_array();
  write_events(w, tx, *row, run, "step.attempt_failed");
  w.end_array().key("late_outcomes").begin_array();
  write_events(w, tx, *row, run, "step.late_outcome");
  return w.end_array().end_object().take();
}

}  // namespace bide::kernel
