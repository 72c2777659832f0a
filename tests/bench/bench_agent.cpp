#include "tests/bench/bench_agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include "agent/base/json.h"
#include "tests/bench/bench.h"

extern char** environ;

namespace bide::bench {

namespace fs = std::filesystem;

Agent::Agent(std::string directory) : directory_(std::move(directory)), client_(directory_ + "/s", "", random_) {
  fs::remove_all(directory_);
  fs::create_directories(directory_ + "/flows");
  fs::permissions(directory_ + "/flows", fs::perms(0755));
}

Agent::~Agent() {
  if (process_.key.pid != 0) {
    ::kill(process_.key.pid, SIGTERM);
    ::waitpid(process_.key.pid, nullptr, 0);
  }
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(directory_, ignored), end; !ignored && it != end; it.increment(ignored)) {
    std::error_code no_matter;  // versions are laid out read-only
    if (it->is_directory(no_matter)) fs::permissions(it->path(), fs::perms::owner_all, no_matter);
  }
  fs::remove_all(directory_, ignored);
}

void Agent::add(const std::string& name, const std::string& script) const {
  const std::string file = directory_ + "/flows/" + name + ".sh";
  std::ofstream(file) << script;
  fs::permissions(file, fs::perms(0755));
}

void Agent::start(const std::string& listen) {
  SpawnRequest spawn;
  spawn.program = BIDE_FRONT;
  spawn.argv = {"bide",   "serve",    "--data", directory_ + "/data", "--workflows", directory_ + "/flows", "--socket",
                socket(), "--listen", listen};
  for (char** entry = environ; *entry != nullptr; ++entry) spawn.environment.emplace_back(*entry);
  spawn.stdout_path = spawn.stderr_path = directory_ + "/agent.log";
  auto started = spawn_process(spawn);
  if (const auto* failed = std::get_if<SpawnFailed>(&started)) throw std::runtime_error(failed->text);
  process_ = std::move(std::get<Spawned>(started));
  ask([&] { return client_.get("/v1/info").ok(); });
}

void Agent::ask(const std::function<bool()>& condition) const {
  const double until = now_seconds() + 120;
  for (;;) {
    try {
      if (condition()) return;
    } catch (const cli::Unreachable&) {
      // it is not up yet
    }
    if (now_seconds() > until) throw std::runtime_error("the agent did not answer: " + directory_ + "/agent.log");
    ::poll(nullptr, 0, 20);
  }
}

std::string Agent::url() {
  const auto link = json::string_member(client_.post("/v1/session/codes", "{}").body, "url").value_or("");
  return link.substr(0, link.find("/#"));
}

std::string Agent::token() {
  std::ifstream in(directory_ + "/data/admin.token");
  std::string token;
  in >> token;
  return token;
}

std::string Agent::run(const std::string& workflow, const std::string& input) {
  const auto started = client_.post("/v1/runs", "{\"workflow\":" + json::quote(workflow) + ",\"input\":" + input + "}");
  if (!started.ok()) throw std::runtime_error("not started: " + started.body);
  return std::to_string(json::int_member(started.body, "id").value_or(0));
}

void Agent::until(const std::string& run, const std::string& status) {
  ask([&] { return json::string_member(client_.get("/v1/runs/" + run).body, "status") == status; });
}

}  // namespace bide::bench
