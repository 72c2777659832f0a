#include "agent/verb/attempt.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "agent/base/base64.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/verb/agent_client.h"

namespace bide::verb {
namespace {

constexpr int kFirstRetryMs = 20;     // the agent's restart takes some 50 ms
constexpr int kSlowestRetryMs = 500;  // a person who starts it by hand does not notice

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Things that pass by themselves: try again. 408, 425 and 429 are the front's own; 5xx is a full disk or a restart.
bool passes(int status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

std::string part(std::string_view token, int index) {
  for (; index > 0; --index) {
    const auto at = token.find('_');
    if (at == std::string_view::npos) return "";
    token.remove_prefix(at + 1);
  }
  return std::string(token.substr(0, token.find('_')));
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

Attempt Attempt::of_environment() {
  Attempt attempt;
  attempt.agent_ = variable("BIDE_AGENT");
  attempt.token_ = variable("BIDE_ATTEMPT");
  attempt.where_ = Where::attempt;
  if (attempt.token_.empty()) {
    attempt.token_ = variable("BIDE_STEP");
    attempt.where_ = attempt.token_.empty() ? Where::outside : Where::step;
  }
  if (attempt.where_ == Where::outside && !variable("BIDE_CHECK").empty()) {
    attempt.where_ = Where::check;
    only_checks_ = true;
  }
  if (attempt.where_ == Where::outside || attempt.where_ == Where::check) return attempt;
  attempt.run_ = part(attempt.token_, 1);
  attempt.epoch_ = part(attempt.token_, 2);
  return attempt;
}

void Attempt::ignore_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
}

void Attempt::stay() {
  for (;;) ::pause();
}

std::string Attempt::ask(std::string_view method, std::string_view operation, const std::string& body) const {
  if (only_checks_) std::exit(0);
  const std::string path = "/v1/runs/" + run_ + "/attempt/" + std::string(operation);
  int wait_ms = kFirstRetryMs;
  for (;;) {
    const auto reply = ask_agent(agent_, method, path, token_, body, has_read_);
    if (reply && reply->status >= 200 && reply->status < 300) {
      has_read_ = false;
      return reply->body;
    }
    const std::string code = reply ? json::string_member(reply->body, "code").value_or("Refused") : std::string();
    // A step's command goes on while nobody drives its run; another attempt will know it.
    const bool between = where_ == Where::step && code == "lease_lost";
    if (reply && !passes(reply->status) && !between) {
      // Another attempt has the run: what we are part of is being ended.
      if (code == "lease_lost" || operation == "end") stay();
      end_run(code, json::string_member(reply->body, "detail")
                        .value_or("the agent refused it with status " + std::to_string(reply->status)));
    }
    ::poll(nullptr, 0, wait_ms);
    wait_ms = std::min(wait_ms * 2, kSlowestRetryMs);
  }
}

std::string Attempt::post(std::string_view operation, const std::string& body) const {
  return ask("POST", operation, body);
}

std::string Attempt::get(std::string_view operation) const { return ask("GET", operation, ""); }

void Attempt::end_run(std::string_view code, const std::string& message) const {
  write_all(STDERR_FILENO, "bide: " + message + "\n");
  if (where_ == Where::check) std::exit(kUsageCode);
  if (where_ == Where::outside) std::exit(2);
  ignore_signals();
  (void)ask("POST", "end",
            json::Writer().begin_object().member("code", code).member("message", message).end_object().take());
  stay();
}

void print(std::string_view text) { write_all(STDOUT_FILENO, text); }

std::string plain(std::string_view json_text) {
  if (auto text = json::as_string(json_text)) return std::move(*text);
  if (const auto encoded = json::string_member(json_text, "base64")) {
    if (auto bytes = base64_decode(*encoded)) return std::move(*bytes);
  }
  return std::string(json_text);
}

std::string as_result(std::string_view bytes) {
  if (invalid_utf8(bytes) == std::string_view::npos) return json::quote(bytes);
  return json::Writer().begin_object().member("base64", base64(bytes)).end_object().take();
}

}  // namespace bide::verb
