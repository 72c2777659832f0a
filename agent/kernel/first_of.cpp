#include "agent/kernel/first_of.h"

#include "agent/base/json.h"
#include "agent/base/planted.h"

namespace bide::kernel {

OpenOutcome open_first_of(db::Tx& tx, const Fence& fence, const StepIntent& intent,
                          const std::vector<Alternative>& alternatives, bool reset_recoveries, TimeMs now) {
  const auto written = write_intent(tx, fence, intent, reset_recoveries, now);
  if (std::holds_alternative<LeaseLost>(written)) return LeaseLost{};
  WaitOpened opened;
  opened.step = std::get<StepId>(written);
  std::vector<WaitId> waits;
  for (const Alternative& one : alternatives)
    waits.push_back(add_wait(tx, fence.run, opened.step, one.kind, one.name, one.payload, one.resolve_by, now));
  // What came ahead of it is looked at only when all of them are open: the one that it settles closes the others.
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    const WaitKind kind = alternatives[i].kind;
    const auto look = [&] {
      return answered_early(tx, fence.run, opened.step, waits[i], kind, alternatives[i].name, now);
    };
    if (!opened.settled) {
      opened.wait = waits[i];
      opened.settled = look();
    } else if (kind != WaitKind::signal) {
      (void)look();  // it came too late for this group, and must not open the next one's gate [A9]
    }
  }
  return opened;
}

std::optional<WaitRow> deciding_wait(db::ReadTx& tx, StepId step) {
  std::optional<WaitId> found;
  {
    db::Query q(tx,
                "SELECT id FROM waits WHERE id IN (SELECT max(id) FROM waits WHERE step_id = ? GROUP BY name) ORDER BY "
                "status IN ('resolved', 'expired') DESC, status = 'pending' DESC, kind = 'timer' DESC, CASE kind WHEN "
                "'timer' THEN resolve_by END, id DESC LIMIT 1");
    q.bind(step);
    if (q.next()) found = WaitId(q.integer(0));
  }
  return found ? read_wait(tx, *found) : std::nullopt;
}

std::optional<TimeMs> group_deadline(db::ReadTx& tx, StepId step) {
  if (BIDE_PLANTED(group_time_ignored)) return std::nullopt;
  db::Query q(tx, "SELECT min(resolve_by) FROM waits WHERE step_id = ? AND status = 'pending' AND kind = 'timer'");
  return q.bind(step).one().maybe_integer(0);
}

void close_siblings(db::Tx& tx, const WaitRow& won, TimeMs now) {
  if (BIDE_PLANTED(losers_left_open)) return;
  db::Query(tx,
            "UPDATE waits SET status = 'cancelled', resolved_at = ?3 WHERE step_id = ?1 AND id <> ?2 AND status = "
            "'pending'")
      .bind(won.step, won.id, now)
      .run();
}

std::string won_value(std::string_view name, std::string_view value) {
  return json::Writer().begin_object().member("won", name).member_raw("value", value).end_object().take();
}

}  // namespace bide::kernel
