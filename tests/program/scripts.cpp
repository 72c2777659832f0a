#include "tests/program/scripts.h"

#include <algorithm>
#include <filesystem>

namespace bide::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

Scripts::Scripts(const std::string& kind) {
  for (const auto& entry : fs::directory_iterator(fs::path(kSourceDirectory) / "tests/program/rehearse" / kind)) {
    add(entry.path().filename().string(), read_file(entry.path()));
  }
  std::sort(names_.begin(), names_.end());
}

Scripts::Scripts(const std::string& name, const std::string& text) {
  add(name, "#!/bin/sh\nset -eu\nOUT=" + dir_.str() + "\n" + text);
}

// Where nobody else may write.
void Scripts::add(const std::string& name, const std::string& text) {
  write_file(dir_ / "flows" / name, text);
  fs::permissions(dir_ / "flows", fs::perms(0755));
  fs::permissions(dir_ / "flows" / name, fs::perms(0755));
  fs::create_directories(dir_ / "scratch");
  names_.push_back(name);
}

int Scripts::lines(const std::string& name) const {
  const std::string text = read_file(out(name));
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

Finished Scripts::bide(const std::string& verb, const std::string& name, const std::vector<std::string>& more) const {
  std::vector<std::string> words = {kBideExecutable, verb, dir_.str("flows/" + name)};
  words.insert(words.end(), more.begin(), more.end());
  return run({.argv = std::move(words),
              .env = {{"HOME", dir_.str()},
                      {"XDG_CONFIG_HOME", dir_.str("config")},
                      {"BIDE_AGENT", dir_.str("nobody")},
                      {"TMPDIR", scratch()}}},
             240s);
}

}  // namespace bide::test
