#include "tests/program/process_support.h"

#include <algorithm>
#include <filesystem>

#include "agent/base/random.h"
#include "tests/support/temp_dir.h"

namespace bide::test {

std::string unique_tag() { return std::to_string(SystemRandom().next() % 900'000'000 + 100'000'000); }

std::vector<int> running_with(const std::string& text, const std::string& name) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string number = entry.path().filename();
    if (!std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    const int pid = std::stoi(number);
    const auto process = read_process(pid);
    if (!process || process->name != name) continue;
    if (read_file(entry.path() / "cmdline").find(text) != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::vector<std::string> attempt_environment(const std::string& socket, int run, int epoch) {
  return {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "BIDE_AGENT=" + socket, "BIDE_RUN=" + std::to_string(run),
          "BIDE_ATTEMPT=bat_" + std::to_string(run) + "_" + std::to_string(epoch) + "_secret"};
}

}  // namespace bide::test
