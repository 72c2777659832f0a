// ProgramDriver::prepare(): user, environment, folders, the program's tree and secrets, before its guard is started.
// What lacks, or cannot be made now, hands the run back with its reason.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "agent/base/fd.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/log.h"
#include "agent/work/holder_watch.h"
#include "agent/work/manifest.h"
#include "agent/work/program_running.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

// For us alone, or for whom it is given to.
void write_whole(const std::string& path, std::string_view text) {
  (void)Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.flush();
  if (!out) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

// False: there is no such user now, and the run was handed back. It was there when the run was started.
bool ProgramDriver::become_user(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running) {
  const std::string name = json::string_member(version.manifest, "run_as").value_or("");
  if (name.empty() || rehearsal_ != nullptr) return true;
  auto user = find_run_as(name);
  if (const auto* why = std::get_if<std::string>(&user)) {
    log::warn("program.run_as_refused", {{"run", attempt.run().id.value}, {"why", *why}});
    attempt.hand_back(store_.now() + limits::kEnvironmentStalledMs, "run_as_refused", flow::Closing::finished);
    return false;
  }
  running.user = std::move(std::get<RunAsUser>(user));
  return true;
}

// False: it is not there, and the run was handed back. Rung when it is; looked for again all the same.
bool ProgramDriver::enter_environment(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running) {
  const auto name = json::string_member(version.manifest, "environment");
  if (!name) return true;
  std::string why = "environment_missing";
  if (environments_ != nullptr) {
    auto found = environments_->use(*name);
    if (auto* there = std::get_if<Environments::Use>(&found)) {
      running.shared.emplace(std::move(*there));
      return true;
    }
    why = std::get<std::string>(found);
  }
  attempt.hand_back(store_.now() + limits::kEnvironmentStalledMs, why, flow::Closing::finished);
  return false;
}

// False: one is not there, and the run was handed back.
bool ProgramDriver::hand_out_secrets(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running) {
  const std::vector<std::string> names = manifest_of_json(version.manifest).secrets;
  if (names.empty()) return true;
  std::variant<std::string, Secrets::Missing> folder = Secrets::Missing{"no secrets are kept here"};
  if (secrets_ != nullptr) folder = secrets_->hand_out(names, {attempt.run().id, attempt.fence().epoch});
  if (const auto* missing = std::get_if<Secrets::Missing>(&folder)) {
    log::warn("program.secret_missing", {{"run", attempt.run().id.value}, {"why", missing->why}});
    attempt.hand_back(store_.now() + limits::kEnvironmentStalledMs, "secret_missing", flow::Closing::finished);
    return false;
  }
  running.secrets = std::get<std::string>(folder);
  return true;
}

// All that the program finds when it starts. False: the run was handed back.
bool ProgramDriver::prepare(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running,
                            ProgramHome& home) {
  const std::string run = std::to_string(attempt.run().id.value);
  running.workspace = settings_.directory + "/workspaces/" + run;
  running.log_path = settings_.directory + "/logs/" + run + ".log";
  if (!become_user(attempt, version, running) || !enter_environment(attempt, version, running)) return false;
  try {
    fs::create_directories(settings_.directory + "/workspaces");
    fs::create_directories(settings_.directory + "/logs");
    holders_.make_directory();
    const std::string input = running.workspace + ".input.json";
    write_whole(input, attempt.run().input);
    home = lay_out_(version);
    if (!hand_out_secrets(attempt, version, running)) return false;
    // Before the log is measured: what a dead one wrote is in there.
    running.outlived = HolderWatch(attempt, holders_).alive() > 0;
    if (running.user) {  // its guard makes TMPDIR
      run_as_.open_ways(*running.user);
      run_as_.own_folder(running.workspace, *running.user);
      run_as_.own_folder(settings_.directory + "/outputs/" + run, *running.user);
      run_as_.own_file(input, *running.user);
      run_as_.own_file(running.log_path, *running.user);
      if (!running.secrets.empty()) run_as_.lend(running.secrets, *running.user);
    } else {
      ::mkdir(running.workspace.c_str(), 0700);  // also from other users who may pass through DIR
      fs::create_directories(running.workspace + "/tmp");
    }
  } catch (const std::exception& e) {  // a full workspace, no descriptors: faults of ours [E8]
    log::warn("program.prepare_failed", {{"run", attempt.run().id.value}, {"error", e.what()}});
    attempt.hand_back(store_.now() + limits::kUnclaimedSpawnBackoffMs, "workspace_failed", flow::Closing::finished);
    return false;
  }
  return true;
}

}  // namespace bide::work
