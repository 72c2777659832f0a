// bide run, and the watching of one run.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "agent/base/clock.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/cli/event_lines.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

using Json = nlohmann::json;

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
      : session_(session),
        run_(run),
        path_("/v1/runs/" + std::to_string(run)),
        lines_([this](const std::string& path) { return patient_get(session_, clock_, path, 0).body; },
               [this](const std::string& line) { say(line); }, false) {}

  int watch() {
    const std::optional<DurationMs> patience = session_.arguments.wait_for;
    const BootMs begin = clock_.boot_ms();
    for (bool ended = false; !ended;) {
      const DurationMs left = patience ? begin + *patience - clock_.boot_ms() : limits::kClientPollMs;
      // A person who may decide here is listened to between short looks.
      const bool asks = may_decide();
      const std::string cursor = path_ + "/events?limit=200&cursor=" + cursor_;
      const DurationMs wait = asks ? 0 : std::clamp<DurationMs>(left, 0, limits::kClientPollMs);
      const std::string page = patient_get(session_, clock_, cursor, wait).body;
      const Json items = Json::parse(json::member(page, "items").value_or("[]"));
      for (const Json& event : items) lines_.tell(event.dump());
      cursor_ = json::string_member(page, "next").value_or(cursor_);
      ended = json::bool_member(page, "ended").value_or(false);
      if (!ended && left <= 0) {
        say("still going: bide show " + std::to_string(run_));
        return kStillGoing;
      }
      if (!ended && items.empty() && asks) listen(std::clamp<DurationMs>(left, 0, kListenMs));
    }
    return finish(patient_get(session_, clock_, path_, 0).body);
  }

 private:
  static constexpr DurationMs kListenMs = 500;  // a decision made elsewhere is seen so soon

  void say(const std::string& line) {
    if (std::exchange(prompting_, false)) session_.console.err << "\n";
    session_.console.err << line << std::endl;
  }

  [[nodiscard]] bool may_decide() const {
    const auto& question = lines_.question();
    return session_.console.interactive && question && question->wait != left_alone_;
  }

  // A line that is typed decides what was asked last, if it is still the same.
  void listen(DurationMs longest) {
    const auto& question = lines_.question();
    if (asked_ != question->wait || !prompting_) {
      asked_ = question->wait;
      session_.console.err << "approve? [y]es, [n]o, [Enter] to leave it open: " << std::flush;
      prompting_ = true;
    }
    pollfd typed{STDIN_FILENO, POLLIN, 0};
    if (::poll(&typed, 1, static_cast<int>(longest)) <= 0) return;
    char line[256];
    const ssize_t n = ::read(STDIN_FILENO, line, sizeof line);
    prompting_ = false;
    const std::string word = n > 0 ? lower(trim(std::string_view(line, static_cast<std::size_t>(n)))) : "";
    if (word != "y" && word != "yes" && word != "n" && word != "no") {
      left_alone_ = question->wait;
      return say("left open: bide approve " + question->wait);
    }
    const std::string decision = word[0] == 'y' ? "approved" : "denied";
    const std::string body = json::Writer().begin_object().member("decision", decision).end_object().take();
    const Reply reply =
        session_.client.post("/v1/waits/" + question->wait + "/resolve", body, "\"" + question->etag + "\"");
    if (!reply.ok()) {
      left_alone_ = question->wait;
      say("not decided: " + printable(json::string_member(reply.body, "detail").value_or("the agent gave no reason")));
    }
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
  EventLines lines_;
  std::string cursor_ = "0";
  std::string asked_;       // of which wait
  std::string left_alone_;  // the wait that this person does not decide here
  bool prompting_ = false;  // the cursor stands behind a question
};

}  // namespace

// The agent may be started anew while a run is watched.
Reply patient_get(Session& session, Clock& clock, const std::string& path, DurationMs wait) {
  std::optional<BootMs> away_since;
  while (true) {
    try {
      Reply reply = session.client.get(path, wait);
      if (reply.status != 503) return accepted(std::move(reply));
      if (away_since && clock.boot_ms() - *away_since > limits::kClientRestartMs) return accepted(std::move(reply));
    } catch (const Unreachable&) {
      if (away_since && clock.boot_ms() - *away_since > limits::kClientRestartMs) throw;
    }
    if (!away_since) {
      away_since = clock.boot_ms();
      session.console.err << "the agent is away; trying again" << std::endl;
    }
    ::poll(nullptr, 0, static_cast<int>(limits::kClientAgainMs));
  }
}

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
