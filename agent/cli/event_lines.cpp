#include "agent/cli/event_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

constexpr std::size_t kAsks = 60;        // characters of what is asked
constexpr std::size_t kMessage = 200;    // … of an error
constexpr std::size_t kRunsKnown = 500;  // then they are looked up again

std::string text_of(std::string_view document, std::string_view member) {
  return json::string_member(document, member).value_or("");
}

std::string by(std::string_view payload) {
  const std::string name = text_of(payload, "by");
  return name.empty() ? "" : " by " + printable(name);
}

std::string quoted(const std::string& text) { return text.empty() ? "" : " \"" + shortened(text, kAsks) + "\""; }

std::string error_words(std::string_view document) {
  const std::string error = json::member(document, "error").value_or("{}");
  const std::string message = text_of(error, "message");
  return shortened(message.empty() ? text_of(error, "code") : message, kMessage);
}

}  // namespace

EventLines::Run& EventLines::known(std::int64_t run) {
  const auto found = runs_.find(run);
  if (found != runs_.end()) return found->second;
  if (runs_.size() >= kRunsKnown) runs_.clear();
  Run& made = runs_[run];
  if (names_runs_) made.workflow = text_of(get_("/v1/runs/" + std::to_string(run)), "workflow");
  return made;
}

void EventLines::say(std::int64_t run, const std::string& line) {
  if (!names_runs_) return say_(line);
  say_("run " + std::to_string(run) + " " + shortened(known(run).workflow, kAsks) + ": " + line);
}

void EventLines::tell(std::string_view event) {
  const std::int64_t run = json::int_member(event, "run").value_or(0);
  if (run == 0) return;
  const std::string kind = text_of(event, "kind");
  const std::string payload = json::member(event, "payload").value_or("{}");
  const std::string itself = names_runs_ ? "" : "run " + std::to_string(run) + " ";
  if (kind == "run.created" && names_runs_) say(run, "created");
  if (kind == "run.claimed" && !std::exchange(known(run).started, true)) say(run, itself + "started");
  if (kind == "run.recovered") say(run, itself + "is taken over: its agent had died");
  if (kind == "control.cancel") say(run, "cancel was asked" + by(payload));
  if (kind == "control.pause") say(run, itself + "is paused" + by(payload));
  if (kind == "control.resume") say(run, itself + "goes on" + by(payload));
  if (kind == "signal.received") say(run, "signal " + printable(text_of(payload, "name")) + " came");
  if (kind == "run.progress") {
    const auto percent = json::int_member(payload, "percent");
    say(run, "progress" + (percent ? " " + std::to_string(*percent) + " %" : "") +
                 (text_of(payload, "text").empty() ? "" : " " + shortened(text_of(payload, "text"), kMessage)));
  }
  if (names_runs_ && (kind == "run.completed" || kind == "run.cancelled")) say(run, kind.substr(4));
  if (names_runs_ && kind == "run.failed") say(run, "failed: " + error_words(payload));
  if (kind.starts_with("step.")) tell_step(run, kind, event, payload);
  if (kind.starts_with("wait.")) tell_wait(run, kind, payload);
}

void EventLines::tell_step(std::int64_t run, std::string_view kind, std::string_view event, std::string_view payload) {
  const std::string name = printable(text_of(payload, "name"));
  if (text_of(payload, "kind") != "step") return;  // a wait or a value: told elsewhere, or nothing to tell
  if (kind == "step.completed") say(run, "step " + name + " done" + lasted(run, event));
  if (kind == "step.failed") say(run, "step " + name + " failed: " + error_words(payload));
  if (kind == "step.attempt_failed") say(run, "step " + name + " failed and is tried again: " + error_words(payload));
}

// " (3 s)": from its entry in the journal to this event; nothing for what took no second.
std::string EventLines::lasted(std::int64_t run, std::string_view event) {
  const std::int64_t step = json::int_member(event, "step").value_or(0);
  if (!known(run).begun_at.contains(step)) learn_steps(run, false);
  const auto& begun_at = known(run).begun_at;
  const auto begun = begun_at.find(step);
  const auto end = parse_time(text_of(event, "at"));
  if (begun == begun_at.end() || !end || *end - begun->second < 1000) return "";
  return " (" + format_duration((*end - begun->second) / 1000 * 1000) + ")";
}

void EventLines::tell_steps(std::int64_t run) { learn_steps(run, true); }

void EventLines::learn_steps(std::int64_t run, bool tell) {
  for (std::size_t got = limits::kPageMax; got == limits::kPageMax;) {
    const std::string path = "/v1/runs/" + std::to_string(run) + "/journal?limit=" + std::to_string(limits::kPageMax) +
                             "&cursor=" + std::to_string(known(run).seq);
    const auto page = nlohmann::json::parse(get_(path));
    got = page["items"].size();
    for (const auto& step : page["items"]) {
      Run& of = known(run);
      of.seq = std::max(of.seq, step["seq"].get<std::int64_t>());
      of.begun_at[step["id"].get<std::int64_t>()] = parse_time(step.value("created_at", "")).value_or(0);
      if (tell && step.value("kind", "") == "step" && step.value("status", "") == "started")
        say(run, "step " + printable(step.value("name", "")) + " started");
    }
  }
}

void EventLines::tell_wait(std::int64_t run, std::string_view kind, std::string_view payload) {
  const auto number = json::int_member(payload, "wait");
  if (!number) return;
  const std::string id = std::to_string(*number);
  const std::string wait = get_("/v1/waits/" + id);
  const std::string what = text_of(wait, "kind");
  if (kind == "wait.created") {
    tell_asked(run, id, what, wait);
  } else if (kind == "wait.resolved") {
    if (question_ && question_->wait == id) question_.reset();
    if (what == "timer" || what == "signal") return;
    const std::string status = text_of(wait, "status");
    const std::string decision = text_of(json::member(wait, "resolution").value_or("{}"), "decision");
    const std::string person = text_of(wait, "resolved_by");
    const std::string outcome = !decision.empty() ? decision : status == "resolved" ? "answered" : status;
    say(run, what + " " + id + " " + outcome + (person.empty() ? "" : " by " + printable(person)));
  }
}

void EventLines::tell_asked(std::int64_t run, const std::string& id, const std::string& what, const std::string& wait) {
  if (text_of(wait, "status") != "pending") return;  // it was answered before we looked
  const std::string asks = quoted(text_of(wait, "asks"));
  if (what == "approval") {
    say(run, "waits for approval " + id + asks + ": bide approve " + id);
    question_ = Question{id, text_of(wait, "asks"), text_of(wait, "etag")};
  }
  if (what == "question") say(run, "waits for an answer " + id + asks + ": bide answer " + id + " VALUE");
  if (what == "reconcile") say(run, "in doubt " + id + asks + ": bide answer " + id + " ran, run or abort");
  if (what == "signal") {
    const std::string name = printable(text_of(wait, "name"));
    say(run, "waits for the signal " + name + ": bide signal " + std::to_string(run) + " " + name);
  }
  if (what == "timer") say(run, "sleeps until " + short_time(text_of(wait, "resolve_by")));
}

}  // namespace bide::cli
