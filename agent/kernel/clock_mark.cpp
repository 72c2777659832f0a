#include "agent/kernel/clock_mark.h"

#include "agent/base/json.h"
#include "agent/kernel/events.h"

namespace bide::kernel {

void accept_clock(db::Tx& tx, std::string_view by, TimeMs was, TimeMs now) {
  db::Query(tx,
            "INSERT INTO meta (key, value) VALUES ('clock_mark', ?) ON CONFLICT (key) DO UPDATE SET value = "
            "excluded.value")
      .bind(now)
      .run();
  json::Writer w;
  w.begin_object().member("by", by).member("was", format_time(was)).member("now", format_time(now)).end_object();
  append_event(tx, now, "control.clock_accepted", RunId(), StepId(), w.text());
}

}  // namespace bide::kernel
