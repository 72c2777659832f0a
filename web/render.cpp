#include "web/render.h"

#include "agent/base/hash.h"
#include "agent/base/time.h"

namespace bide::web {
namespace {

void time_or_null(json::Writer& out, std::string_view name, const std::optional<TimeMs>& at) {
  out.key(name);
  at ? out.string(format_time(*at)) : out.null();
}
void text_or_null(json::Writer& out, std::string_view name, const std::optional<std::string>& text) {
  out.key(name);
  text ? out.string(*text) : out.null();
}
void raw_or_null(json::Writer& out, std::string_view name, const std::optional<std::string>& document) {
  out.member_raw(name, document ? std::string_view(*document) : "null");
}

// "u:…" is a key that a user gave; the others are the agent's own.
std::optional<std::string> user_key(const std::optional<std::string>& start_key) {
  if (!start_key || start_key->rfind("u:", 0) != 0) return std::nullopt;
  return start_key->substr(2);
}

void write_waiting(json::Writer& out, const kernel::Explanation& explanation) {
  out.key("waiting_on").begin_array();
  for (const kernel::WaitingOn& wait : explanation.waiting_on) {
    out.begin_object().member("id", wait.id.value).member("kind", to_text(wait.kind)).member("name", wait.name);
    text_or_null(out, "asks", wait.asks);
    out.member("since", format_time(wait.since));
    time_or_null(out, "until", wait.until);
    out.end_object();
  }
  out.end_array();
  time_or_null(out, "next_wake", explanation.wakes_at);
}

}  // namespace

void write_run(json::Writer& out, const kernel::RunRow& run, const kernel::Explanation* more) {
  out.begin_object().member("id", run.id.value).member("workflow", run.workflow_name);
  out.member("status", to_text(run.status));
  text_or_null(out, "reason", run.reason);
  text_or_null(out, "mission", run.mission);
  text_or_null(out, "key", user_key(run.start_key));
  out.member("priority", run.priority).member("created_by", run.created_by).member_raw("labels", run.labels);
  out.member_raw("input", run.input);
  raw_or_null(out, "result", run.result);
  raw_or_null(out, "error", run.error);
  out.member("run_at", format_time(run.run_at));
  time_or_null(out, "paused_at", run.paused_at);
  time_or_null(out, "cancel_requested_at", run.cancel_requested_at);
  text_or_null(out, "cancel_reason", run.cancel_reason);
  out.member("created_at", format_time(run.created_at));
  time_or_null(out, "started_at", run.started_at);
  time_or_null(out, "finished_at", run.finished_at);
  if (more != nullptr) write_waiting(out, *more);
  out.end_object();
}

void write_step(json::Writer& out, const kernel::StepRow& step) {
  out.begin_object().member("id", step.id.value).member("seq", step.seq).member("position", step.position);
  out.member("kind", to_text(step.kind)).member("name", step.name).member("effect", to_text(step.effect));
  out.member("status", to_text(step.status)).member("executions", step.executions);
  out.member("failures", step.failures).member("retries", step.retries);
  time_or_null(out, "not_before", step.not_before);
  out.member_raw("request", step.request);
  raw_or_null(out, "result", step.result);
  raw_or_null(out, "error", step.error);
  if (step.copied_from) out.member("copied", true);
  out.member("created_at", format_time(step.created_at))
      .member("updated_at", format_time(step.updated_at))
      .end_object();
}

void write_wait(json::Writer& out, const kernel::WaitRow& wait, const std::optional<std::string>& workflow,
                const std::optional<std::string>& evidence, const std::optional<std::string>& votes) {
  out.begin_object().member("id", wait.id.value).member("run", wait.run.value);
  if (workflow) out.member("workflow", *workflow);
  out.member("step", wait.step.value).member("kind", to_text(wait.kind)).member("name", wait.name);
  out.member("status", to_text(wait.status));
  text_or_null(out, "asks", json::string_member(wait.payload, "text"));
  out.member_raw("request", wait.payload).member("etag", to_hex(wait.digest));
  time_or_null(out, "resolve_by", wait.resolve_by);
  raw_or_null(out, "resolution", wait.resolution);
  text_or_null(out, "resolved_by", wait.resolved_by);
  out.member("created_at", format_time(wait.created_at));
  time_or_null(out, "resolved_at", wait.resolved_at);
  if (evidence) out.member_raw("evidence", *evidence);
  if (votes) out.member_raw("votes", *votes);
  out.end_object();
}

void write_event(json::Writer& out, const kernel::EventRow& event) {
  out.begin_object().member("id", event.id.value).member("at", format_time(event.at)).member("kind", event.kind);
  out.key("run");
  event.run.valid() ? out.number(event.run.value) : out.null();
  out.key("step");
  event.step.valid() ? out.number(event.step.value) : out.null();
  out.member_raw("payload", event.payload).end_object();
}

std::string wait_document(const kernel::WaitRow& wait) {
  json::Writer out;
  write_wait(out, wait, std::nullopt);
  return out.take();
}

}  // namespace bide::web
