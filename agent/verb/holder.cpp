#include "agent/verb/holder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/verb/agent_client.h"
#include "agent/verb/attempt.h"
#include "agent/verb/command.h"

extern char** environ;

namespace bide::verb {
namespace {

constexpr int kHearFd = 3;
constexpr char kGo = 'g';
constexpr int kFirstRetryMs = 20;       // the agent's restart takes some 50 ms
constexpr int kSlowestRetryMs = 2'000;  // an agent that is away for days costs nothing, one that is back is told soon
// Exit codes that another try would only repeat: not executable, not found, EX_USAGE, EX_CONFIG.
constexpr int kNeverRetried[] = {126, 127, 64, 78};
// Reasons for which no command could ever start, as against those that pass (no memory, no descriptors: E8).
constexpr int kNotFound[] = {ENOENT, EACCES, ENOEXEC, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, EPERM, E2BIG};

template <class List>
bool is_among(std::int64_t code, const List& list) {
  return std::find(std::begin(list), std::end(list), code) != std::end(list);
}

// A file in memory: nobody has to feed a pipe while the command reads.
Fd file_with(const std::string& text) {
  Fd fd(::memfd_create("stdin", MFD_CLOEXEC));
  std::size_t done = 0;
  while (fd.valid() && done < text.size()) {
    const ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
    if (n <= 0) return Fd();
    done += static_cast<std::size_t>(n);
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string own_executable() {
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  return n > 0 ? std::string(self, static_cast<std::size_t>(n)) : "/proc/self/exe";
}

std::string job_text(const HolderJob& job) {
  std::string codes;
  for (const auto code : job.no_retry_on) codes += std::to_string(code) + ",";
  json::Writer out;
  out.begin_object().member("file", job.file).member("timeout_ms", job.timeout_ms);
  out.member("output_file", job.output_file).member("most_output", job.most_output);
  out.member("unknown_at_timeout", job.unknown_at_timeout).member("keeps_output", job.keeps_output);
  return out.member("no_retry_on", codes).member("backoff_ms", job.backoff_ms).end_object().take();
}

HolderJob read_job(char** argv) {
  HolderJob job;
  const std::string text = argv[0];
  job.file = json::string_member(text, "file").value_or("");
  job.output_file = json::string_member(text, "output_file").value_or("");
  job.most_output = json::int_member(text, "most_output").value_or(kOutputBytes);
  job.timeout_ms = json::int_member(text, "timeout_ms").value_or(0);
  job.unknown_at_timeout = json::bool_member(text, "unknown_at_timeout").value_or(true);
  job.keeps_output = json::bool_member(text, "keeps_output").value_or(false);
  job.backoff_ms = json::int_member(text, "backoff_ms").value_or(0);
  std::string codes = json::string_member(text, "no_retry_on").value_or("");
  for (auto end = codes.find(','); end != std::string::npos; end = codes.find(',')) {
    job.no_retry_on.push_back(parse_number(codes.substr(0, end)).value_or(0));
    codes.erase(0, end + 1);
  }
  for (++argv; *argv != nullptr; ++argv) job.command.emplace_back(*argv);
  for (char** entry = environ; *entry != nullptr; ++entry) job.environment.emplace_back(*entry);
  // Now: their folder goes with the attempt, which the command may outlive.
  const char* folder = std::getenv("BIDE_SECRETS");
  if (folder != nullptr) job.secrets = secrets_in(folder);
  return job;
}

std::string last_line(std::string_view text) {
  text = trim(text);
  const auto line = text.substr(text.rfind('\n') + 1);
  return std::string(line.substr(0, 512));
}

// -- What is handed in.

std::string failure(const HolderJob& job, std::string_view error, bool retryable, bool unknown, bool begun) {
  json::Writer out;
  out.begin_object().member_raw("error", error).member("retryable", retryable).member("unknown", unknown);
  out.member("begun", begun).member("left", begun && !descendants(::getpid()).empty());
  return out.member("backoff_ms", job.backoff_ms).end_object().take();
}

std::string not_started(const HolderJob& job, const SpawnFailed& why) {
  const bool found = !is_among(why.error, kNotFound);
  json::Writer error;
  error.begin_object().member("code", found ? "SpawnFailed" : "NotFound");
  const bool line = job.command[0].find_first_of(" \t\n|;&<>") != std::string::npos;
  error.member("message", why.text + (found  ? ""
                                      : line ? " (a line for a shell needs one: -- sh -c '…')"
                                             : " (a function or a builtin of the shell is no command: put it in a "
                                               "file, or write -- sh -c '…')"));
  return failure(job, error.end_object().text(), false, false, false);
}

// What it printed, as a result. One whose JSON is too large (bytes that are no text take more there) goes into the file
// too. False: it could not be kept.
bool keep_output(const HolderJob& job, CommandResult& result, std::string& document) {
  if (!result.spill.begun()) {
    document = as_result(result.out);
    if (document.size() <= limits::kDocumentBytes || job.output_file.empty()) return true;
    if (!result.spill.begin(job.output_file) || !result.spill.write(result.out)) return false;
    result.out.resize(limits::kKeptOfTooLarge);
  }
  if (!result.spill.finish()) return false;
  document = result.spill.document(result.out);
  return true;
}

std::string too_large(const HolderJob& job, CommandResult& result) {
  result.spill.drop();
  json::Writer error;
  error.begin_object().member("code", "ResultTooLarge");
  const std::string what = "stdout of " + job.command[0];
  error.member("message", result.why_lost.empty() ? what + " is over " + std::to_string(job.most_output) +
                                                        " bytes: write it to a file in the workspace, or --max-output"
                                                  : what + " could not be kept: " + result.why_lost);
  error.member_raw("stdout", as_result(std::string_view(result.out).substr(0, limits::kKeptOfTooLarge)));
  if (!result.err_end.empty()) error.member_raw("stderr", as_result(result.err_end));
  return failure(job, error.end_object().take(), false, false, true);
}

std::string failed(const HolderJob& job, CommandResult& result) {
  const std::string& command = job.command[0];
  json::Writer error;
  error.begin_object();
  const auto finish = [&] {
    std::string document;
    const bool printed = !result.out.empty() && job.keeps_output;
    if (printed && keep_output(job, result, document)) error.member_raw("stdout", document);
    if (!printed || document.empty()) result.spill.drop();
    if (!result.err_end.empty()) error.member_raw("stderr", as_result(result.err_end));
    return error.end_object().take();
  };
  if (result.timed_out) {
    error.member("code", "Timeout");
    error.member("message", command + " took longer than " + format_duration(job.timeout_ms) +
                                " and was ended with all its processes");
    return failure(job, finish(), true, job.unknown_at_timeout, true);
  }
  const std::string said = last_line(result.err_end);
  error.member("code", "CommandFailed");
  error.member("message", command + " " + describe(result.exit) + (said.empty() ? "" : ": " + said));
  if (!result.exit.signalled) error.member("exit_code", result.exit.code);
  const bool useless = is_among(result.exit.code, kNeverRetried) || is_among(result.exit.code, job.no_retry_on);
  return failure(job, finish(), result.exit.signalled || !useless, result.exit.signalled, true);
}

// It did what it does, and printed what nobody may keep [D4].
std::string tells_secret(const HolderJob& job, const std::string& name) {
  json::Writer error;
  error.begin_object().member("code", "SecretInResult");
  error.member("message", "stdout of " + job.command[0] + " holds the secret " + name +
                              ", and results are kept: print what the program needs without it, or write "
                              "--secret-result if the step may be repeated");
  return failure(job, error.end_object().text(), false, false, true);
}

// What is below a command that a signal ended goes on with half of an effect: it is ended too, before anybody is asked
// whether the effect happened.
void end_all_below() {
  const auto self = read_process(::getpid());
  const TreeScope scope{self ? self->key : ProcessKey{static_cast<int>(::getpid()), 0}, {}};
  for (int wait = limits::kEndLookMs; !kill_pass(scope).empty(); wait = std::min(wait * 2, limits::kEndLookMostMs)) {
    ::poll(nullptr, 0, wait);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

std::string run(const HolderJob& job) {
  SystemClock clock;
  CommandRequest request{job.command, job.environment, true, job.timeout_ms};
  request.spill_path = job.output_file;
  request.most_out = job.most_output;
  request.longest_secret = job.secrets.longest();
  CommandResult result = run_command(request, clock);
  result.err_end = job.secrets.scrubbed(std::string(job.secrets.last(result.err_end, limits::kKeptOfTooLarge)));
  const bool cut = result.spill.begun() || result.out_too_large;  // only its beginning is here
  if (cut) result.out = std::string(job.secrets.first(result.out, limits::kKeptOfTooLarge));
  if (result.not_started) return not_started(job, *result.not_started);
  if (result.exit.signalled) end_all_below();
  if (result.timed_out || result.exit != ExitStatus{}) {
    result.out = job.secrets.scrubbed(std::move(result.out));
    if (result.spill.secret_in(job.secrets)) result.spill.drop();  // its beginning is kept, scrubbed
    return failed(job, result);
  }
  auto told = job.secrets.find(result.out);
  if (!told) told = result.spill.secret_in(job.secrets);
  if (told) {
    result.spill.drop();
    return tells_secret(job, *told);
  }
  // It did what it does, and said too much [E9].
  if (result.out_too_large) return too_large(job, result);
  std::string document;
  if (!keep_output(job, result, document)) {
    result.why_lost = std::strerror(errno);
    return too_large(job, result);
  }
  json::Writer out;
  out.begin_object().member_raw("result", document);
  return out.member("left", !descendants(::getpid()).empty()).end_object().take();
}

// -- How it is handed in.

// Kept for whoever comes when this process is killed. Not synced yet: for as long as the agent answers at once that
// would be a second wait for the disk and save nothing; without it only a power cut loses the file, and us with it.
Fd keep(const std::string& path, const std::string& text) {
  const auto slash = path.rfind('/') + 1;
  const std::string making = path.substr(0, slash) + "." + path.substr(slash);
  Fd fd(::open(making.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  std::size_t done = 0;
  while (fd.valid() && done < text.size()) {
    const ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (fd.valid() && done == text.size() && ::rename(making.c_str(), path.c_str()) == 0) return fd;
  ::unlink(making.c_str());  // a full disk: it stays in memory
  return Fd();
}

void sync(const std::string& path, Fd& file) {
  const Fd folder(::open(path.substr(0, path.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.valid()) return;
  ::fsync(file.get());
  if (folder.valid()) ::fsync(folder.get());  // with run_as it may write there, and not read
  file.reset();
}

// A refusal that passes by itself: our own bounds, a full disk, a restart.
bool passes(int status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

void hand_in(const HolderJob& job, const std::string& text) {
  const char* agent = std::getenv("BIDE_AGENT");
  const char* token = std::getenv("BIDE_STEP");
  if (agent == nullptr || token == nullptr) return;
  const std::string nonce = std::string(token).substr(std::string(token).rfind('_') + 1);
  Fd file = keep(job.file, text);
  const bool kept = file.valid();
  int wait_ms = kFirstRetryMs;
  for (;;) {
    const auto reply = ask_agent(agent, "POST", "/v1/outcomes/" + nonce, token, text);
    if (reply && !passes(reply->status)) break;
    sync(job.file, file);
    // Whoever removes the file (with all of the agent's folder, say) wants it no more.
    if (kept && ::access(job.file.c_str(), F_OK) != 0 && errno == ENOENT) break;
    ::poll(nullptr, 0, wait_ms);
    wait_ms = std::min(wait_ms * 2, kSlowestRetryMs);
  }
  ::unlink(job.file.c_str());
}

// False: whoever was to say it is gone, and nothing has begun.
bool told_to_go() {
  char byte = 0;
  ssize_t n = 0;
  while ((n = ::read(kHearFd, &byte, 1)) < 0 && errno == EINTR) {
  }
  ::close(kHearFd);
  return n == 1 && byte == kGo;
}

}  // namespace

std::variant<HolderProcess, SpawnFailed> HolderProcess::start(const HolderJob& job) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return SpawnFailed{errno, "no descriptors left for a holder's pipe"};
  const Fd hears(ends[0]);
  Fd tells(ends[1]);
  SpawnRequest spawn;
  spawn.program = own_executable();
  spawn.argv = {spawn.program, kHolderMode, job_text(job)};
  spawn.argv.insert(spawn.argv.end(), job.command.begin(), job.command.end());
  spawn.environment = job.environment;
  spawn.group = ProcessGroup::own_session;
  spawn.stdout_path = "/dev/null";
  spawn.descriptors = {{hears.get(), kHearFd}};
  if (::fcntl(STDERR_FILENO, F_GETFD) >= 0) {
    spawn.descriptors.emplace_back(STDERR_FILENO, STDERR_FILENO);
  } else {
    spawn.stderr_path = "/dev/null";
  }
  Fd input;
  if (job.input) {
    input = file_with(*job.input);
    if (!input.valid()) return SpawnFailed{errno, "no memory left for the input of a step"};
    spawn.descriptors.emplace_back(input.get(), STDIN_FILENO);
  }
  auto outcome = spawn_process(spawn);
  if (auto* failure = std::get_if<SpawnFailed>(&outcome)) return std::move(*failure);
  const auto& spawned = std::get<Spawned>(outcome);
  if (spawned.key.start == 0) return SpawnFailed{ECHILD, "the holder of a step ended before it began"};
  return HolderProcess(spawned.key, std::move(tells));
}

void HolderProcess::go() {
  while (::write(tells_.get(), &kGo, 1) < 0 && errno == EINTR) {
  }
  tells_.reset();
}

int run_holder(char** argv) {
  // What ends the attempt, or a terminal, is not meant for it; the command gets its signals back.
  Attempt::ignore_signals();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const HolderJob job = read_job(argv);
  if (told_to_go()) {
    hand_in(job, run(job));
  } else {
    hand_in(job, failure(job, R"({"code":"NotBegun","message":"The attempt ended before the command was let go."})",
                         true, false, false));
  }
  return 0;
}

}  // namespace bide::verb
