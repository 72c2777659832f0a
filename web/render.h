// Rows as JSON documents. Times are RFC 3339; absent members are null; JSON that users brought stands as they sent it.
//   run   {"id","workflow","status","reason","mission","key","priority","created_by","labels","input","result","error",
//          "run_at","paused_at","cancel_requested_at","cancel_reason","created_at","started_at","finished_at"}
//         one run alone also has "waiting_on":[{"id","kind","name","asks","since","until"}], "next_wake", "version",
//         "forked_from", "parent", and "to_undo":[{"seq","step"}], what its end would take back, in that order
//   step  {"id","seq","position","kind","name","effect","status","executions","failures","retries","not_before",
//          "request","result","error","created_at","updated_at"}; "copied":true if a fork brought it
//   wait  {"id","run","workflow","step","kind","name","status","asks","request","etag","resolve_by","resolution",
//          "resolved_by","created_at","resolved_at"}; etag = hex of the digest, If-Match takes it with or without
//          quotes. One reconcile question alone also has "evidence" (agent/kernel/evidence.h); an approval that
//          takes more than one yes has "votes":[{"by","decision","at"}]
//   event {"id","at","kind","run","step","payload"}
#pragma once

#include <optional>
#include <string>

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "agent/kernel/explain.h"
#include "agent/kernel/runs.h"
#include "agent/kernel/steps.h"
#include "agent/kernel/waits.h"

namespace bide::web {

void write_run(json::Writer& out, const kernel::RunRow& run, const kernel::Explanation* more = nullptr);
void write_step(json::Writer& out, const kernel::StepRow& step);
void write_wait(json::Writer& out, const kernel::WaitRow& wait, const std::optional<std::string>& workflow,
                const std::optional<std::string>& evidence = std::nullopt,
                const std::optional<std::string>& votes = std::nullopt);
void write_event(json::Writer& out, const kernel::EventRow& event);

[[nodiscard]] std::string wait_document(const kernel::WaitRow& wait);

}  // namespace bide::web
