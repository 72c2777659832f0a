#include "agent/verb/undo.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "agent/base/fd.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/verb/attempt.h"
#include "agent/verb/command.h"

extern char** environ;

namespace bide::verb {
namespace {

constexpr int kNeverRetried[] = {126, 127, 64, 78};  // not executable, not found, EX_USAGE, EX_CONFIG

class Undo {
 public:
  explicit Undo(const Attempt& attempt) : attempt_(attempt) {}

  int run() {
    for (;;) {
      std::string reply = attempt_.post("undo", "{}");
      if (json::string_member(reply, "state") == "done") return 0;
      const std::string compensate = json::member(reply, "compensate").value_or("{}");
      const std::string result = json::member(reply, "result").value_or("null");
      while (json::string_member(reply, "state") == "execute") reply = execute(reply, compensate, result);
    }
  }

 private:
  std::string execute(const std::string& reply, const std::string& compensate, const std::string& result);
  std::string post(const std::string& reply, const char* what, const std::string& member, const std::string& value,
                   bool may_retry, bool unknown) const;
  std::string failed(const std::string& reply, std::string_view code, const std::string& message, bool may_retry) const;
  [[nodiscard]] std::vector<std::string> environment(const std::string& reply, const std::string& compensate,
                                                     const std::string& result_file) const;

  const Attempt& attempt_;
  SystemClock clock_;
};

std::string step_of(const std::string& reply) { return std::to_string(json::int_member(reply, "step").value_or(0)); }

// What the attempt was given, the variables as they were when the step was asked for, and what the step brought.
std::vector<std::string> Undo::environment(const std::string& reply, const std::string& compensate,
                                           const std::string& result_file) const {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("BIDE_ATTEMPT=")) out.emplace_back(*entry);
  }
  for (int i = 0;; ++i) {
    const auto variable = json::at_pointer(compensate, "/export/" + std::to_string(i));
    if (!variable) break;
    const std::string name = json::string_member(*variable, "name").value_or("");
    std::erase_if(out, [&](const std::string& entry) { return entry.starts_with(name + "="); });
    out.push_back(name + "=" + plain(json::member(*variable, "value").value_or("\"\"")));
  }
  out.push_back("BIDE_STEP=bst_" + attempt_.run() + "_" + attempt_.epoch() + "_" + step_of(reply) + "_" +
                json::string_member(reply, "nonce").value_or(""));
  out.push_back("BIDE_IDEMPOTENCY_KEY=" + json::string_member(reply, "idempotency_key").value_or(""));
  out.push_back("BIDE_RESULT=" + result_file);
  out.push_back("BIDE_UNDO=1");
  return out;
}

std::string write_result(const std::string& step, const std::string& bytes) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/undo-" + step + ".result";
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  for (std::size_t done = 0; fd.valid() && done < bytes.size();) {
    const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return "";
    done += static_cast<std::size_t>(n);
  }
  return fd.valid() ? path : "";
}

std::string Undo::post(const std::string& reply, const char* what, const std::string& member, const std::string& value,
                       bool may_retry, bool unknown) const {
  json::Writer out;
  out.begin_object().member("nonce", json::string_member(reply, "nonce")).member_raw(member, value);
  if (member == "error") out.member("retryable", may_retry).member("unknown", unknown);
  return attempt_.post("steps/" + step_of(reply) + "/" + what, out.end_object().take());
}

std::string Undo::failed(const std::string& reply, std::string_view code, const std::string& message,
                         bool may_retry) const {
  json::Writer error;
  error.begin_object().member("code", code).member("message", message);
  return post(reply, "fail", "error", error.end_object().take(), may_retry, false);
}

std::string Undo::execute(const std::string& reply, const std::string& compensate, const std::string& result) {
  const std::string file = write_result(step_of(reply), plain(result));
  if (file.empty())
    return failed(reply, "SpawnFailed", std::string("BIDE_RESULT cannot be written: ") + std::strerror(errno), false);
  const std::string cwd = plain(json::member(compensate, "cwd").value_or("\"/\""));
  if (::chdir(cwd.c_str()) != 0)
    return failed(reply, "CommandFailed", "the folder of the step, " + cwd + ": " + std::strerror(errno), true);
  const std::string command = json::string_member(compensate, "command").value_or("exit 64");
  CommandRequest request;
  request.argv = {"/bin/sh", "-c", command};
  request.environment = environment(reply, compensate, file);
  const CommandResult done = run_command(request, clock_);
  if (done.not_started) return failed(reply, "SpawnFailed", done.not_started->text, false);
  if (done.exit == ExitStatus{} && !done.out_too_large)
    return post(reply, "complete", "result", as_result(done.out), false, false);
  json::Writer error;
  error.begin_object();
  if (done.exit == ExitStatus{}) {  // it did what it does, and said too much [E9]
    error.member("code", "ResultTooLarge").member("message", "stdout of the compensation is over 1 MiB");
    return post(reply, "fail", "error", error.end_object().take(), false, false);
  }
  const std::string_view said = trim(done.err_end);
  const std::string_view last = said.substr(said.rfind('\n') + 1).substr(0, 512);
  error.member("code", "CommandFailed");
  error.member("message", "the compensation " + describe(done.exit) + (last.empty() ? "" : ": " + std::string(last)));
  if (!done.exit.signalled) error.member("exit_code", done.exit.code);
  if (!done.err_end.empty()) error.member_raw("stderr", as_result(done.err_end));
  const bool final = !done.exit.signalled && std::find(std::begin(kNeverRetried), std::end(kNeverRetried),
                                                       done.exit.code) != std::end(kNeverRetried);
  return post(reply, "fail", "error", error.end_object().take(), !final, done.exit.signalled);
}

}  // namespace

int run_undo() {
  const Attempt attempt = Attempt::of_environment();
  if (attempt.where() != Attempt::Where::attempt) return 64;
  Attempt::ignore_signals();
  ::signal(SIGCHLD, SIG_DFL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return Undo(attempt).run();
}

}  // namespace bide::verb
