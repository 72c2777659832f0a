#include "agent/verb/undo.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
#include "agent/verb/holder.h"
#include "agent/verb/spill.h"

extern char** environ;

namespace bide::verb {
namespace {

class Undo {
 public:
  explicit Undo(const Attempt& attempt) : attempt_(attempt) {}

  int run() {
    for (;;) {
      std::string reply = attempt_.post("undo", "{}");
      if (json::string_member(reply, "state") == "done") return 0;
      const std::string compensate = json::member(reply, "compensate").value_or("{}");
      const std::string result = json::member(reply, "result").value_or("null");
      while (json::string_member(reply, "state") == "hold") reply = execute(reply, compensate, result);
    }
  }

 private:
  [[nodiscard]] std::string execute(const std::string& reply, const std::string& compensate,
                                    const std::string& result) const;
  [[nodiscard]] std::string no_holder(const std::string& reply, const std::string& why) const;
  [[nodiscard]] std::vector<std::string> environment(const std::string& reply, const std::string& compensate,
                                                     const std::string& result_file) const;

  const Attempt& attempt_;
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

// No holder could be made: a fault of ours, tried again with a backoff [E8].
std::string Undo::no_holder(const std::string& reply, const std::string& why) const {
  json::Writer error;
  error.begin_object().member("code", "SpawnFailed").member("message", why).end_object();
  json::Writer out;
  out.begin_object().member("nonce", json::string_member(reply, "nonce")).member_raw("error", error.text());
  return attempt_.post("steps/" + step_of(reply) + "/fail", out.member("retryable", false).end_object().take());
}

// Under a holder, like the command of any step: the end of the agent does not cut it off in the middle [E6, K7].
std::string Undo::execute(const std::string& reply, const std::string& compensate, const std::string& result) const {
  const std::string spilled = spilled_file(result, reply);
  const std::string file = spilled.empty() ? write_result(step_of(reply), plain(result)) : spilled;
  if (file.empty()) return no_holder(reply, std::string("BIDE_RESULT cannot be written: ") + std::strerror(errno));
  HolderJob job;
  job.file = json::string_member(reply, "outcome_file").value_or("");
  // A folder that is gone is a failure of the compensation, as `sh` tells it.
  job.command = {"/bin/sh",
                 "-c",
                 "cd -- \"$1\" && exec /bin/sh -uc \"$2\"",
                 "sh",
                 plain(json::member(compensate, "cwd").value_or("\"/\"")),
                 json::string_member(compensate, "command").value_or("exit 64")};
  job.environment = environment(reply, compensate, file);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // holders of executions before
  }
  auto started = HolderProcess::start(job);
  if (const auto* failure = std::get_if<SpawnFailed>(&started)) return no_holder(reply, failure->text);
  auto& holder = std::get<HolderProcess>(started);
  const std::string nonce = json::string_member(reply, "nonce").value_or("");
  json::Writer who;
  who.begin_object().member("nonce", nonce).member("pid", holder.key().pid);
  who.member("pid_start", static_cast<std::int64_t>(holder.key().start));
  (void)attempt_.post("steps/" + step_of(reply) + "/hold", who.end_object().take());
  holder.go();
  return attempt_.post("steps/" + step_of(reply) + "/await",
                       json::Writer().begin_object().member("nonce", nonce).end_object().take());
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
