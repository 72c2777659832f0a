#include "agent/work/workflow_check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "agent/base/json.h"
#include "agent/base/limits_api.h"
#include "agent/base/text.h"

namespace bide::work {
namespace {

constexpr int kEndLookMs = 100;

// A file of a check, removed before and after it: what an agent that was killed has left counts for nothing.
class OwnFile {
 public:
  explicit OwnFile(std::string path) : path_(std::move(path)) { ::unlink(path_.c_str()); }
  ~OwnFile() { ::unlink(path_.c_str()); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& text) const {
    std::ofstream out(path_, std::ios::binary);
    ::chmod(path_.c_str(), 0600);
    out << text;
  }
  [[nodiscard]] std::string read() const {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

 private:
  const std::string path_;
};

std::string line_of(const char* key, const std::string& value) {
  return value.empty() ? "" : std::string(key) + " = " + json::quote(value) + "\n";
}

// Ends it and what it started, first so that it can clear up, then without mercy.
std::optional<ExitStatus> wait_for_end(const Spawned& process, BootMs until, Clock& clock,
                                       const std::function<bool()>& gone) {
  BootMs told = 0;
  for (;;) {
    pollfd ended{process.pidfd.get(), POLLIN, 0};
    if (::poll(&ended, 1, kEndLookMs) > 0) break;
    const BootMs now = clock.boot_ms();
    if (told == 0 && (gone() || now >= until)) {
      told = now;
      signal_process(process.key, SIGTERM);
    } else if (told != 0 && now - told > limits::kCheckGraceMs) {
      ::kill(-process.key.pid, SIGKILL);
    }
  }
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(process.pidfd.get()), &info, WEXITED) != 0 || told != 0) return std::nullopt;
  return ExitStatus{info.si_code != CLD_EXITED, info.si_status};
}

std::string first_line(const std::string& text) {
  const std::string_view line = trim(std::string_view(text).substr(0, text.find('\n')));
  return std::string(line.starts_with("bide: ") ? line.substr(6) : line);
}

}  // namespace

struct WorkflowCheck::Said {
  std::optional<ExitStatus> end;  // nullopt: it was ended
  std::string failure;            // it never ran
  std::string out;
  std::string err;
};

WorkflowCheck::Said WorkflowCheck::run(const std::string& name, const std::function<bool()>& gone) {
  const OwnFile config(settings_.data_dir + "/check.toml");
  const OwnFile out(settings_.data_dir + "/check.out");
  const OwnFile err(settings_.data_dir + "/check.err");
  config.write(line_of("data_dir", settings_.data_dir) + line_of("workflows_dir", settings_.workflows_dir) +
               line_of("path", settings_.path));
  SpawnRequest request;
  request.program = settings_.executable;
  request.argv = {settings_.executable, "check", name, "--json", "--config", config.path()};
  request.environment = {"BIDE_AGENT=" + settings_.socket, "HOME=" + settings_.home, "PATH=" + settings_.path,
                         "LANG=C.UTF-8"};
  request.stdout_path = out.path();
  request.stderr_path = err.path();
  const auto spawned = spawner_.spawn(request);
  if (const auto* failed = std::get_if<SpawnFailed>(&spawned)) return {std::nullopt, failed->text, "", ""};
  auto end = wait_for_end(std::get<Spawned>(spawned), clock_.boot_ms() + limits::kCheckMostMs, clock_, gone);
  return {end, "", out.read(), err.read()};
}

std::variant<std::string, Problem> WorkflowCheck::check(const std::string& name, const std::function<bool()>& gone) {
  {
    Lock lock(mutex_);
    if (running_) return problem("busy", "another check runs: there is one at a time");
    running_ = true;
  }
  struct Over {
    WorkflowCheck& of;
    ~Over() {
      Lock lock(of.mutex_);
      of.running_ = false;
    }
  } over{*this};
  Said said = run(name, gone);
  if (!said.failure.empty()) return problem("check_failed", said.failure);
  if (!said.end) return problem("check_failed", "it took too long, or was not waited for, and was ended");
  const std::string_view document = trim(said.out);
  // 0 and 1: well, and not well. Anything else has said why on stderr.
  const bool ran = !said.end->signalled && said.end->code <= 1 && !json::check(document);
  if (!ran) {
    const std::string why = first_line(said.err);
    return problem("check_failed", why.empty() ? "bide check " + describe(*said.end) : why, "bide check " + name);
  }
  return std::string(document);
}

}  // namespace bide::work
