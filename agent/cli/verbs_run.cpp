// bide run, and the watching of one run.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "agent/base/clock.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& document, const char* member) {
  const auto found = document.find(member);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string quoted(const std::string& text) { return text.empty() ? "" : " \"" + shortened(text, 60) + "\""; }

// Ctrl-C ends the watching, not the run, and says so.
extern "C" void say_that_it_goes_on(int signal_number) {
  constexpr char kText[] = "\nbide: the run goes on without this watcher\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  (void)std::signal(signal_number, SIG_DFL);
  (void)std::raise(signal_number);
}

class Watcher {
 public:
  Watcher(Session& session, std::int64_t run)
      : session_(session), run_(run), path_("/v1/runs/" + std::to_string(run)) {}

  int watch() {
    const std::optional<DurationMs> patience = session_.arguments.wait_for;
    const BootMs begin = clock_.boot_ms();
    for (bool ended = false; !ended;) {
      const DurationMs left = patience ? begin + *patience - clock_.boot_ms() : limits::kClientPollMs;
      const std::string cursor = path_ + "/events?limit=200&cursor=" + cursor_;
      const Json page = Json::parse(patient_get(cursor, std::clamp<DurationMs>(left, 0, limits::kClientPollMs)).body);
      for (const Json& event : page["items"]) tell(event);
      cursor_ = text_of(page, "next");
      ended = page.value("ended", Json()) == true;
      if (!ended && left <= 0) {
        say("still going: bide show " + std::to_string(run_));
        return kStillGoing;
      }
    }
    return finish(patient_get(path_, 0).body);
  }

 private:
  void say(const std::string& line) { session_.console.err << line << std::endl; }

  // The agent may be started anew while a run is watched.
  Reply patient_get(const std::string& path, DurationMs wait) {
    std::optional<BootMs> away_since;
    while (true) {
      try {
        Reply reply = session_.client.get(path, wait);
        if (reply.status != 503) return accepted(std::move(reply));
        if (away_since && clock_.boot_ms() - *away_since > limits::kClientRestartMs) return accepted(std::move(reply));
      } catch (const Unreachable&) {
        if (away_since && clock_.boot_ms() - *away_since > limits::kClientRestartMs) throw;
      }
      if (!away_since) {
        away_since = clock_.boot_ms();
        say("the agent is away; trying again");
      }
      ::poll(nullptr, 0, static_cast<int>(limits::kClientAgainMs));
    }
  }

  void tell(const Json& event) {
    const std::string kind = text_of(event, "kind");
    const Json payload = event.value("payload", Json::object());
    if (kind == "run.claimed" && !told_start_) {
      told_start_ = true;
      say("run " + std::to_string(run_) + " started");
    }
    if (kind == "run.recovered") say("run " + std::to_string(run_) + " is taken over: its agent had died");
    if (kind == "control.cancel") say("cancel was asked" + by(payload));
    if (kind == "signal.received") say("signal " + printable(text_of(payload, "name")) + " came");
    if (kind.rfind("step.", 0) == 0) tell_step(kind, event, payload);
    if (kind.rfind("wait.", 0) == 0) tell_wait(kind, payload);
  }

  static std::string by(const Json& payload) {
    const std::string name = text_of(payload, "by");
    return name.empty() ? "" : " by " + printable(name);
  }

  void tell_step(const std::string& kind, const Json& event, const Json& payload) {
    const std::string name = printable(text_of(payload, "name"));
    if (text_of(payload, "kind") != "step") return;  // a wait or a value: told elsewhere, or nothing to tell
    const Json error = payload.value("error", Json::object());
    const std::string message = error.is_object() ? shortened(text_of(error, "message"), 200) : "";
    if (kind == "step.completed") say("step " + name + " done" + lasted(event));
    if (kind == "step.failed") say("step " + name + " failed: " + message);
    if (kind == "step.attempt_failed") say("step " + name + " failed and is tried again: " + message);
  }

  // " (3 s)": from its entry in the journal to this event; nothing for what took no second.
  std::string lasted(const Json& event) {
    const std::int64_t step = event["step"].is_number_integer() ? event["step"].get<std::int64_t>() : 0;
    if (begun_.find(step) == begun_.end()) learn_steps();
    const auto begun = begun_.find(step);
    const auto end = parse_time(text_of(event, "at"));
    if (begun == begun_.end() || !end || *end - begun->second < 1000) return "";
    return " (" + format_duration((*end - begun->second) / 1000 * 1000) + ")";
  }

  // When the steps after those that are known began.
  void learn_steps() {
    for (std::size_t got = limits::kPageMax; got == limits::kPageMax;) {
      const std::string path =
          path_ + "/journal?limit=" + std::to_string(limits::kPageMax) + "&cursor=" + std::to_string(seq_);
      const Json page = Json::parse(patient_get(path, 0).body);
      got = page["items"].size();
      for (const Json& step : page["items"]) {
        seq_ = std::max(seq_, step["seq"].get<std::int64_t>());
        begun_[step["id"].get<std::int64_t>()] = parse_time(text_of(step, "created_at")).value_or(0);
      }
    }
  }

  void tell_wait(const std::string& kind, const Json& payload) {
    if (!payload.contains("wait") || !payload["wait"].is_number_integer()) return;
    const std::string id = std::to_string(payload["wait"].get<std::int64_t>());
    const Json wait = Json::parse(patient_get("/v1/waits/" + id, 0).body);
    const std::string what = text_of(wait, "kind");
    if (kind == "wait.created") {
      tell_question(id, what, wait);
    } else if (kind == "wait.resolved" && what != "timer" && what != "signal") {
      const std::string status = text_of(wait, "status");
      const Json resolution = wait.value("resolution", Json());
      const std::string decision = resolution.is_object() ? text_of(resolution, "decision") : "";
      const std::string person = text_of(wait, "resolved_by");
      say(what + " " + id + " " +
          (!decision.empty()      ? decision
           : status == "resolved" ? "answered"
                                  : status) +
          (person.empty() ? "" : " by " + printable(person)));
    }
  }

  void tell_question(const std::string& id, const std::string& what, const Json& wait) {
    if (text_of(wait, "status") != "pending") return;  // it was answered before we looked
    const std::string asks = quoted(text_of(wait, "asks"));
    if (what == "approval") say("waits for approval " + id + asks + ": bide approve " + id);
    if (what == "question") say("waits for an answer " + id + asks + ": bide answer " + id + " VALUE");
    if (what == "reconcile") say("in doubt " + id + asks + ": bide answer " + id + " ran, run or abort");
    if (what == "signal") {
      const std::string name = printable(text_of(wait, "name"));
      say("waits for the signal " + name + ": bide signal " + std::to_string(run_) + " " + name);
    }
    if (what == "timer") say("sleeps until " + short_time(text_of(wait, "resolve_by")));
  }

  int finish(const std::string& run) {
    const std::string status = json::string_member(run, "status").value_or("");
    if (session_.arguments.json) {
      print_json(session_.console, run);
    } else if (status == "completed") {
      print_json(session_.console, json::member(run, "result").value_or("null"));
    }
    if (status != "completed") {
      const std::string code = json::at_pointer(run, "/error/code").value_or("");
      const std::string message = json::as_string(json::at_pointer(run, "/error/message").value_or("")).value_or("");
      say("run " + std::to_string(run_) + " " + status +
          (code.empty() ? ""
                        : ": " + printable(json::as_string(code).value_or(code)) +
                              (message.empty() ? "" : ": " + printable(message))));
    }
    return exit_code_of(run);
  }

  Session& session_;
  const std::int64_t run_;
  const std::string path_;
  SystemClock clock_;
  std::string cursor_ = "0";
  bool told_start_ = false;
  std::int64_t seq_ = 0;
  std::map<std::int64_t, TimeMs> begun_;
};

}  // namespace

int exit_code_of(std::string_view run) {
  const std::string status = json::string_member(run, "status").value_or("");
  if (status == "completed") return kDone;
  if (status == "cancelled") return kCancelled;
  if (status != "failed") return kStillGoing;
  const std::string code = json::as_string(json::at_pointer(run, "/error/code").value_or("")).value_or("");
  if (code == "Denied") return kDenied;
  if (code == "ChangesRequested") return kChangesRequested;
  if (code == "Expired") return kExpired;
  return kFailed;
}

int watch(Session& session, std::int64_t run) {
  (void)std::signal(SIGINT, say_that_it_goes_on);
  const int code = Watcher(session, run).watch();
  (void)std::signal(SIGINT, SIG_DFL);
  return code;
}

int verb_run(Session& session) {
  const Arguments& a = session.arguments;
  json::Writer body;
  body.begin_object().member("workflow", a.name).member_raw("input", typed_json(a.input, "the input", session.console));
  if (!a.key.empty()) body.member("key", a.key);
  if (!a.mission.empty()) body.member("mission", a.mission);
  const Reply reply = accepted(session.client.post("/v1/runs", body.end_object().text()));
  const auto run = json::int_member(reply.body, "id");
  if (!run) throw std::runtime_error("the agent's answer names no run");
  if (a.wait) {
    if (json::bool_member(reply.body, "existed").value_or(false)) {
      session.console.err << "run " << *run << " has this key already" << std::endl;
    }
    return watch(session, *run);
  }
  if (a.json)
    print_json(session.console, reply.body);
  else
    session.console.out << *run << "\n";
  return kDone;
}

}  // namespace bide::cli
