// GET /v1/doctor: what is wrong with the agent, its file and its disk, and what to do. It changes nothing; it reads the
// whole file once.
#include <sys/statvfs.h>

#include "agent/base/json.h"
#include "agent/base/limits_api.h"
#include "agent/base/time.h"
#include "agent/kernel/audit_chain.h"
#include "agent/kernel/metrics.h"
#include "agent/kernel/walls.h"
#include "db/inspect.h"
#include "db/shell.h"
#include "db/space.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

struct Finding {
  const char* code;
  const char* weight;  // error: act now; warn: look at it
  std::string text;
  std::string command;
};
using Findings = std::vector<Finding>;

std::string mib(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

void look_at_file(db::ReadTx& tx, Findings& found) {
  for (const std::string& line : db::check_file(tx)) {
    found.push_back({"file_damaged", "error", "the file is damaged: " + line, "bide restore"});
  }
  const auto audit = kernel::check_audit(tx, std::nullopt);
  if (audit.verdict == kernel::AuditCheck::Verdict::tampered) {
    found.push_back({"audit_tampered", "error", "the audit was tampered with: " + audit.why, "bide audit verify"});
  }
}

void look_at_work(const kernel::Metrics& m, Findings& found) {
  if (m.outbox_parked > 0) {
    found.push_back({"deliveries_parked", "warn", std::to_string(m.outbox_parked) + " deliveries wait for somebody",
                     "bide outbox --parked"});
  }
  if (m.in_doubt > 0) {
    found.push_back({"steps_in_doubt", "warn",
                     "of " + std::to_string(m.in_doubt) + " steps nobody can tell whether they ran", "bide inbox"});
  }
}

// Somebody else than the initiator shall decide, and the workflow's own processes could [A7].
void look_at_walls(db::ReadTx& tx, Findings& found) {
  constexpr std::int64_t kMost = 20;  // of a finding that names them all
  for (const std::string& name : kernel::gates_without_wall(tx, kMost)) {
    found.push_back({"gate_without_wall", "warn",
                     name + " asks for an approval by somebody else than its initiator, and its processes run as the "
                            "agent's own user, who could decide it: write run_as = \"USER\" into its manifest",
                     "bide inbox"});
  }
}

void look_at_agent(Ports& ports, Findings& found) {
  db::Store& store = ports.commands.store();
  const db::StoreHealth health = store.health();
  if (health.storage_full)
    found.push_back({"storage_full", "error", "the disk is full: nothing new is taken", "df -h"});
  if (health.foreign_writer_seen) {
    found.push_back({"foreign_writer", "error",
                     "another program wrote into the file while the agent ran: data can be lost that way",
                     "fuser " + store.directory() + "/bide.db"});
  }
  if (store.clock().held()) {
    found.push_back({"clock_held", "error",
                     "the clock is behind the file's: timers rest until it has caught up, or is accepted",
                     "bide clock accept"});
  }
  if (ports.commands.executor().door().is_shut()) {
    found.push_back({"draining", "warn", "the agent runs dry: no run and no task is claimed", "bide drain --off"});
  }
  if (ports.relaxed) {
    found.push_back({"durability_relaxed", "warn", "power loss may take the last commits: durability is relaxed",
                     "bide serve --durability full"});
  }
  const std::string sweep = ports.commands.sweep().last_report().first_error;
  if (!sweep.empty()) found.push_back({"sweep_failed", "error", "a duty of the sweep failed: " + sweep, "bide sweep"});
  struct statvfs disk {};
  if (::statvfs(store.directory().c_str(), &disk) == 0) {
    const auto left = static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
    if (left < limits::kLittleDiskBytes) {
      found.push_back({"disk_low", "warn", "the disk has " + mib(left) + " left", "df -h " + store.directory()});
    }
    if (disk.f_files > 0 && disk.f_favail < limits::kLittleDiskFiles) {
      found.push_back({"inodes_low", "warn", "the disk has room for few files more", "df -i " + store.directory()});
    }
  }
}

Response doctor(Ports& ports, Request&) {
  Findings found;
  look_at_agent(ports, found);
  db::FileSpace size;
  ports.commands.store().read([&](db::ReadTx& tx) {
    look_at_file(tx, found);
    look_at_work(kernel::read_metrics(tx), found);
    look_at_walls(tx, found);
    size = db::file_space(tx);
    return 0;
  });
  json::Writer out;
  out.begin_object().member("well", found.empty()).key("findings").begin_array();
  for (const Finding& one : found) {
    out.begin_object().member("code", one.code).member("weight", one.weight).member("text", one.text);
    out.member("command", one.command).end_object();
  }
  out.end_array().member("version", ports.version).member("sqlite", db::sqlite_version());
  out.member("file_bytes", size.bytes()).member("file_free_bytes", size.free_bytes());
  return json_response(200, out.end_object().take());
}

}  // namespace

void add_doctor_routes(Router& router, Ports& ports) {
  router.get(
      "/v1/doctor", kAdmin, [&ports](Request& request) { return doctor(ports, request); }, Lane::waits);
}

}  // namespace bide::web
