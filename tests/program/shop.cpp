#include "tests/program/shop.h"

#include <filesystem>

namespace bide::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

const std::string kExamples = std::string(BIDE_SOURCE_DIR) + "/packaging/examples";

void write_executable(const std::string& path, const std::string& text) {
  write_file(path, text);
  fs::permissions(path, fs::perms(0755));
}

}  // namespace

void Shop::take(const std::string& name) const {
  for (const auto& entry : fs::directory_iterator(kExamples)) {
    const std::string file = entry.path().filename();
    if (file != name && file.substr(0, file.find('.')) != name) continue;
    fs::copy(entry.path(), box.flows() + "/" + file, fs::copy_options::recursive);
  }
}

void Shop::stand_in(const std::string& example, const std::string& command, const std::string& script) const {
  std::string whole = script;
  for (auto at = whole.find("OUT"); at != std::string::npos; at = whole.find("OUT", at + 1))
    whole.replace(at, 3, box.out(""));
  write_executable(box.flows() + "/" + example + "/bin/" + command, "#!/bin/sh\nset -eu\n" + whole);
}

std::string Shop::gated(const std::string& name, const std::string& command) const {
  return "echo begun >>" + box.out(name) + "; until [ -e " + box.out("go") + " ]; do sleep 0.02; done; " + command;
}

void Shop::gate(const std::string& example, const std::string& command) const {
  const std::string path = box.flows() + "/" + example + "/bin/" + command;
  fs::rename(path, path + "-itself");
  write_executable(path, "#!/bin/sh\n" + gated(command, "exec " + command + "-itself \"$@\"") + "\n");
}

void Shop::begun(const std::string& name, int times) const {
  eventually([&] { return box.lines(name) >= times; }, [&] { return name + " was begun"; }, 60s);
  held(times);
}

// An intent that rides, and its holder's row, are in the file a little later [J1]: until then its command ends with the
// attempt, and is begun again.
void Shop::held(int steps) const {
  const std::string count = "SELECT count(*) FROM processes WHERE step_id IS NOT NULL AND status = 'running'";
  eventually([&] { return box.sql(count)[0][0].get<int>() >= steps; }, "the holders are recorded", 60s);
}

void Shop::each_step_once(const std::string& run) const {
  const Json journal = box.json({"journal", run});
  CHECK_FALSE(journal["items"].empty());
  for (const Json& step : journal["items"]) {
    INFO(step.dump());
    CHECK(step["executions"].get<int>() <= 1);
  }
}

}  // namespace bide::test
