#include "agent/cli/verb_usage.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "agent/base/spawn.h"
#include "agent/base/text.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

constexpr std::string_view kPrefix = "bide: ";

// What it says of the call; empty: nothing.
std::string complaint(const std::string& front, const std::vector<std::string>& argv) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw ConfigFault("bide check: no descriptors are left");
  const Fd hears(ends[0]);
  Fd says(ends[1]);
  SpawnRequest request;
  request.program = front;
  request.argv = argv;
  request.environment = {"BIDE_CHECK=1"};
  request.stdout_path = "/dev/null";
  request.descriptors = {{says.get(), STDERR_FILENO}};
  auto spawned = spawn_process(request);
  if (const auto* failed = std::get_if<SpawnFailed>(&spawned)) throw ConfigFault("bide check: " + failed->text);
  says.reset();
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(hears.get(), buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  int status = 0;
  while (::waitpid(std::get<Spawned>(spawned).key.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return "";
  return std::string(trim(text.starts_with(kPrefix) ? std::string_view(text).substr(kPrefix.size()) : text));
}

}  // namespace

std::vector<work::ScriptFinding> check_usage(const std::string& file, const std::vector<work::VerbCall>& calls) {
  const std::string front = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "bide").string();
  std::vector<work::ScriptFinding> found;
  for (const work::VerbCall& call : calls) {
    const std::string what = complaint(front, call.argv);
    if (what.empty() || what.find(work::kUnknownWord) != std::string::npos) continue;
    found.push_back({file, call.line, "usage", call.text, "the run would end here: " + what,
                     what.find("has no verb") == std::string::npos
                         ? "bide " + call.argv[1] + " --help says how it is called"
                         : "bide --help lists the verbs"});
  }
  return found;
}

}  // namespace bide::cli
