// bide step: asks for an entry of the journal, has its command run under a holder if it has to, and prints what is
// recorded.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/random.h"
#include "agent/base/secrets.h"
#include "agent/base/text.h"
#include "agent/verb/command.h"
#include "agent/verb/holder.h"
#include "agent/verb/secret_step.h"
#include "agent/verb/spill.h"
#include "agent/verb/step_request.h"
#include "agent/verb/verbs.h"

extern char** environ;

namespace bide::verb {
namespace {

using Takes = Flag::Takes;

constexpr Flag kFlags[] = {
    {"--key"},
    {"--effect"},
    {"--retries"},
    {"--backoff"},
    {"--timeout"},
    {"--on-timeout"},
    {"--probe"},
    {"--probe-absent"},
    {"--assume"},
    {"--no-retry-on"},
    {"--compensate"},
    {"--export", Takes::many},
    {"--branch"},
    {"--secret", Takes::many},
    {"--secret-result", Takes::nothing},
    {"--try", Takes::nothing},
    {"--stdin", Takes::nothing},
    {"--no-stdin", Takes::nothing},
    {"--max-output"},
};
constexpr std::int64_t kMostRetries = 1'000'000;
constexpr int kDidNotRun = 100;  // a probe's answer; 1 is what every crash of a probe returns

class Step {
 public:
  Step(const Attempt& attempt, std::span<char*> argv) : attempt_(attempt), arguments_(parse_arguments(argv, kFlags)) {
    check();
  }
  int run();

 private:
  void check();
  void check_stdin();
  static std::string secret(const std::string& name);
  std::string compensation() const;
  std::string begin() const;
  int settle(const std::string& reply) const;
  std::string execute(const std::string& reply) const;
  std::string ask_probe(const std::string& reply);
  std::string no_holder(const std::string& reply, const SpawnFailed& why) const;
  std::string operation(const std::string& reply, const char* what) const;
  std::vector<std::string> environment(const std::string& reply) const;

  const Attempt& attempt_;
  Arguments arguments_;
  SystemClock clock_;
  std::string name_;
  std::string effect_ = "non_idempotent";
  std::optional<std::string> input_;
  std::vector<std::int64_t> no_retry_on_;
};

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void Step::check() {
  if (!arguments_.has_command || arguments_.command.empty()) {
    throw Misuse{"bide step: write the command after --, as in: bide step fetch --effect idempotent -- curl -fsS URL"};
  }
  if (arguments_.words.size() > 1) {
    throw Misuse{"bide step takes one name and has \"" + arguments_.words[0] + "\" and \"" + arguments_.words[1] +
                 "\": the command stands after --"};
  }
  name_ = arguments_.words.empty() ? base_name(arguments_.command[0]) : arguments_.words[0];
  if (name_.empty() || name_[0] == '-') throw Misuse{"bide step: \"" + name_ + "\" is no name"};
  effect_ = arguments_.one_of("--effect", {"pure", "idempotent", "non_idempotent"}).value_or(effect_);
  (void)arguments_.one_of("--on-timeout", {"fail"});
  (void)arguments_.size("--max-output", kOutputBytes);
  if (arguments_.has("--stdin") && arguments_.has("--no-stdin"))
    throw Misuse{"bide step: --stdin or --no-stdin, not both"};
  std::string list = arguments_.value("--no-retry-on").value_or("");
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    const auto code = parse_number(trim(list.substr(0, end)));
    if (!code || *code > 255) throw Misuse{"--no-retry-on takes exit codes, as in 2,75"};
    no_retry_on_.push_back(*code);
    list.erase(0, end + 1);
  }
  if (arguments_.has("--export") && !arguments_.has("--compensate"))
    throw Misuse{
        "bide step: --export names variables for --compensate CMD, which is not given; a --probe and the command "
        "get all that the script exports: write export NAME before the step"};
  for (const auto& variable : arguments_.all("--export")) {
    if (std::getenv(variable.c_str()) == nullptr && !Attempt::only_checks())
      throw Misuse{"bide step: --export " + variable + ": there is no such variable in the environment; write export " +
                   variable + " before it"};
  }
  for (const auto& name : arguments_.all("--secret")) {
    if (!Attempt::only_checks()) (void)secret(name);
  }
  if (arguments_.has("--secret-result") && effect_ == "non_idempotent") {
    throw Misuse{
        "bide step: --secret-result is for --effect pure or idempotent: its result is not kept, and it is run again in "
        "each attempt"};
  }
  if (arguments_.has("--secret-result") && (arguments_.has("--try") || arguments_.has("--stdin"))) {
    throw Misuse{"bide step: --secret-result takes neither --try nor --stdin"};
  }
  check_stdin();
}

// The value of a secret of this attempt; read when the command is about to begin, so that a new value counts.
std::string Step::secret(const std::string& name) {
  const char* folder = std::getenv("BIDE_SECRETS");
  const bool is_name = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
  const auto value = folder != nullptr && is_name ? read_secret(std::string(folder) + "/" + name) : std::nullopt;
  if (!value) {
    throw Misuse{"bide step: --secret " + name + ": this workflow has no such secret; write secrets = [\"" + name +
                 "\"] into its manifest"};
  }
  return *value;
}

// A loop's list must not be eaten by the command in it: `while read -r f; do bide step …; done <list`.
void Step::check_stdin() {
  if (arguments_.has("--stdin")) {
    input_ = read_document(STDIN_FILENO, "stdin of step " + name_);
    return;
  }
  if (arguments_.has("--no-stdin")) return;
  struct stat found {};
  if (::fstat(STDIN_FILENO, &found) != 0) return;  // closed
  if (S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3)) return;
  attempt_.end_run(
      "StdinNotDeclared",
      "step " + name_ +
          " would inherit stdin that is not /dev/null, such as the list of a `while read` loop: "
          "write --no-stdin (the command gets /dev/null) or --stdin (it is read whole and is part of the request)");
}

// What takes the step back: a shell text, where it was said, and the variables that were named, as they are now [E6].
std::string Step::compensation() const {
  char cwd[PATH_MAX];
  json::Writer out;
  out.begin_object().member("command", arguments_.value("--compensate").value_or(""));
  out.member_raw("cwd", as_result(::getcwd(cwd, sizeof cwd) != nullptr ? cwd : "/")).key("export").begin_array();
  for (const auto& variable : arguments_.all("--export")) {
    const char* value = std::getenv(variable.c_str());
    out.begin_object()
        .member("name", variable)
        .member_raw("value", as_result(value == nullptr ? "" : value))
        .end_object();
  }
  return out.end_array().end_object().take();
}

std::string Step::begin() const {
  json::Writer out;
  out.begin_object();
  out.member("branch", branch_of(arguments_)).member("name", name_);
  out.member("key", arguments_.value("--key").value_or("")).member("effect", effect_);
  out.member_raw("request", step_request(arguments_.command, input_));
  out.member("retries", arguments_.number("--retries", kMostRetries));  // absent: as the manifest says
  out.member("backoff_ms", arguments_.duration("--backoff"));
  out.member("timeout_ms", arguments_.duration("--timeout"));
  out.member("on_timeout", arguments_.value("--on-timeout"));
  out.member("probe", arguments_.value("--probe"));
  if (const auto assumed = arguments_.json("--assume")) out.member_raw("assume", *assumed);
  if (arguments_.has("--compensate")) out.member_raw("compensate", compensation());
  out.member("caller", caller_of_environment()).member("try", arguments_.has("--try"));
  if (!arguments_.has("--secret-result")) out.member("holder", true);
  // The same verb asks again after a lost connection: it is no second one at the same position.
  out.member("verb", SystemRandom().uid());
  return out.end_object().take();
}

std::string Step::operation(const std::string& reply, const char* what) const {
  return "steps/" + std::to_string(json::int_member(reply, "step").value_or(0)) + "/" + what;
}

int Step::run() {
  ::signal(SIGCHLD, SIG_DFL);  // a program may have ignored it: then no exit could be waited for
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (arguments_.has("--secret-result")) {
    SecretStep step{name_, begin(), arguments_.command, [this](const auto& said) { return environment(said); }};
    step.retries = arguments_.number("--retries", kMostRetries).value_or(0);
    step.backoff_ms = arguments_.duration("--backoff").value_or(0);
    step.timeout_ms = arguments_.duration("--timeout").value_or(0);
    return run_secret_step(attempt_, step);
  }
  std::string reply = attempt_.post("steps", begin());
  for (;;) {
    const std::string state = json::string_member(reply, "state").value_or("");
    if (state == "hold") {
      reply = execute(reply);
    } else if (state == "probe") {
      reply = ask_probe(reply);
    } else {
      return settle(reply);
    }
  }
}

int Step::settle(const std::string& reply) const {
  if (json::string_member(reply, "state") == "settled") {
    print_result(attempt_, json::member(reply, "result").value_or("null"), reply);
    return 0;
  }
  const std::string error = json::member(reply, "error").value_or("{}");
  if (!arguments_.has("--try")) attempt_.end_run("StepFailed", "step " + name_ + " failed: " + error);
  if (const auto out = json::member(error, "stdout")) print_result(attempt_, *out, reply);
  if (json::string_member(error, "code") == "Timeout") return kTimedOut;
  const auto code = json::int_member(error, "exit_code").value_or(1);
  return code > 0 && code < 256 ? static_cast<int>(code) : 1;
}

// The attempt's environment as the program left it, without the right to the journal, with the effect's key.
std::vector<std::string> Step::environment(const std::string& reply) const {
  std::vector<std::string> out;
  const auto& secrets = arguments_.all("--secret");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const bool replaced = std::any_of(secrets.begin(), secrets.end(), [&](const std::string& name) {
      return variable.starts_with(name) && variable.substr(name.size()).starts_with('=');
    });
    if (replaced || variable.starts_with("BIDE_ATTEMPT=") || variable.starts_with("BIDE_STEP=") ||
        variable.starts_with("BIDE_IDEMPOTENCY_KEY=")) {
      continue;
    }
    out.emplace_back(variable);
  }
  for (const auto& name : secrets) out.push_back(name + "=" + secret(name));
  out.push_back("BIDE_STEP=bst_" + attempt_.run() + "_" + attempt_.epoch() + "_" +
                std::to_string(json::int_member(reply, "step").value_or(0)) + "_" +
                json::string_member(reply, "nonce").value_or(""));
  out.push_back("BIDE_IDEMPOTENCY_KEY=" + json::string_member(reply, "idempotency_key").value_or(""));
  return out;
}

// A holder is made ready, the agent commits who it is together with the intent, and then it goes [K7].
std::string Step::execute(const std::string& reply) const {
  HolderJob job;
  job.file = json::string_member(reply, "outcome_file").value_or("");
  job.output_file = json::string_member(reply, "output_file").value_or("");
  job.most_output = arguments_.size("--max-output", kOutputBytes).value_or(kOutputBytes);
  job.timeout_ms = arguments_.duration("--timeout").value_or(0);
  job.unknown_at_timeout = effect_ == "non_idempotent" && !arguments_.has("--on-timeout");
  job.keeps_output = arguments_.has("--try");
  job.no_retry_on = no_retry_on_;
  job.backoff_ms = arguments_.duration("--backoff").value_or(0);
  job.command = arguments_.command;
  job.environment = environment(reply);
  job.input = input_;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // holders of executions before
  }
  auto started = HolderProcess::start(job);
  if (const auto* failure = std::get_if<SpawnFailed>(&started)) return no_holder(reply, *failure);
  auto& holder = std::get<HolderProcess>(started);
  const std::string nonce = json::string_member(reply, "nonce").value_or("");
  json::Writer who;
  who.begin_object().member("nonce", nonce).member("pid", holder.key().pid);
  who.member("pid_start", static_cast<std::int64_t>(holder.key().start));
  (void)attempt_.post(operation(reply, "hold"), who.end_object().take());
  holder.go();
  return attempt_.post(operation(reply, "await"),
                       json::Writer().begin_object().member("nonce", nonce).end_object().take());
}

std::string Step::no_holder(const std::string& reply, const SpawnFailed& why) const {
  json::Writer error;
  error.begin_object().member("code", "SpawnFailed").member("message", why.text).end_object();
  json::Writer out;
  out.begin_object().member("nonce", json::string_member(reply, "nonce")).member_raw("error", error.text());
  return attempt_.post(operation(reply, "fail"), out.member("retryable", false).end_object().take());
}

// Did the effect happen? 0: it ran, and stdout is its result; 100: it did not; all else: the probe cannot tell. So does
// one that names a variable which is not set (-u): a script that forgot to export it would be told of another thing.
std::string Step::ask_probe(const std::string& reply) {
  // It has as long as its step, 30 s at most: a probe that hangs must not hold the run for ever.
  const DurationMs most = std::min(arguments_.duration("--timeout").value_or(limits::kProbeMs), limits::kProbeMs);
  const CommandRequest probe{
      {"/bin/sh", "-uc", json::string_member(reply, "probe").value_or("exit 1")}, environment(reply), false, most};
  const CommandResult result = run_command(probe, clock_);
  const auto absent = arguments_.number("--probe-absent", 255).value_or(kDidNotRun);
  const bool told = !result.not_started && !result.timed_out && !result.exit.signalled && !result.out_too_large;
  json::Writer out;
  out.begin_object().member("nonce", json::string_member(reply, "nonce"));
  if (told && result.exit.code == 0) {
    out.member("verdict", "ran").member_raw("result", as_result(result.out));
  } else {
    out.member("verdict", told && result.exit.code == absent ? "did_not_run" : "cannot_tell");
  }
  return attempt_.post(operation(reply, "probe"), out.end_object().take());
}

}  // namespace

int verb_step(const Attempt& attempt, std::span<char*> argv) { return Step(attempt, argv).run(); }

}  // namespace bide::verb
