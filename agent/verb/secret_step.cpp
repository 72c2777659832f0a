#include "agent/verb/secret_step.h"

#include <poll.h>

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/verb/command.h"

namespace bide::verb {
namespace {

constexpr std::string_view kRecorded = R"({"secret":true})";

std::string operation(const std::string& reply, const char* what) {
  return "steps/" + std::to_string(json::int_member(reply, "step").value_or(0)) + "/" + what;
}

bool succeeded(const CommandResult& result) {
  return !result.not_started && !result.timed_out && !result.out_too_large && result.exit == ExitStatus{};
}

// Without what it printed: that may be the secret, or a part of it.
std::string error_of(const SecretStep& step, const CommandResult& result) {
  std::string message = step.command[0] + " " + describe(result.exit);
  std::string code = "CommandFailed";
  if (result.not_started) {
    message = result.not_started->text;
  } else if (result.timed_out) {
    code = "Timeout";
    message = step.command[0] + " took longer than " + format_duration(step.timeout_ms);
  } else if (result.out_too_large) {
    code = "ResultTooLarge";
    message = "stdout of " + step.command[0] + " is over 1 MiB";
  }
  return json::Writer().begin_object().member("code", code).member("message", message).end_object().take();
}

void wait_for(DurationMs length) { ::poll(nullptr, 0, static_cast<int>(std::min<DurationMs>(length, 3'600'000))); }

// The entry is completed: the command has to give again what the program needs. E2's delays, then later.
std::string again(const Attempt& attempt, const SecretStep& step, const std::vector<std::string>& environment) {
  SystemClock clock;
  DurationMs delay = step.backoff_ms > 0 ? step.backoff_ms : limits::kRetryFirstMs;
  for (std::int64_t tries = 0;; ++tries) {
    const CommandResult result = run_command({step.command, environment, false, step.timeout_ms}, clock);
    if (succeeded(result)) return result.out;
    if (tries >= step.retries) break;
    wait_for(delay);
    if (step.backoff_ms == 0) delay = std::min(delay * 2, limits::kRetryMaxMs);
  }
  (void)attempt.post("secret-failed", json::Writer().begin_object().member("name", step.name).end_object().take());
  Attempt::stay();
}

}  // namespace

int run_secret_step(const Attempt& attempt, const SecretStep& step) {
  SystemClock clock;
  std::string reply = attempt.post("steps", step.begin);
  for (;;) {
    const std::string state = json::string_member(reply, "state").value_or("");
    if (state == "settled") {
      print(again(attempt, step, step.environment(reply)));
      return 0;
    }
    if (state != "execute") {
      attempt.end_run("StepFailed",
                      "step " + step.name + " failed: " + json::member(reply, "error").value_or("it was not let go"));
    }
    const CommandResult result = run_command({step.command, step.environment(reply), false, step.timeout_ms}, clock);
    json::Writer said;
    said.begin_object().member("nonce", json::string_member(reply, "nonce"));
    if (succeeded(result)) {
      (void)attempt.post(operation(reply, "complete"), said.member_raw("result", kRecorded).end_object().take());
      print(result.out);
      return 0;
    }
    said.member_raw("error", error_of(step, result)).member("unknown", result.exit.signalled);
    reply = attempt.post(operation(reply, "fail"), said.end_object().take());
  }
}

}  // namespace bide::verb
