// Remote workflows: versions that an app registered, and the leases of those who drive their runs [K1, K2, K4].
// Pure transitions, any transaction. Refusals are Problems: workflow_taken 409.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

struct NewRemote {
  std::string name;
  std::string version;
  std::vector<std::string> accepts;  // older versions whose runs this code goes on with [K1]
  std::optional<std::string> url;    // where its runs' wakes go; absent: its workers come by themselves
  int max_running = 0;               // 0: no limit
  std::string description;
};
struct RemoteVersion {
  VersionId id;
  WorkflowId workflow;
  std::string name;
  std::string version;
  std::vector<std::string> accepts;
  std::optional<std::string> url;
  int max_running = 0;
};
// The version, made or changed. The URL holds for the versions that it accepts too: their runs are its to drive.
[[nodiscard]] std::variant<RemoteVersion, Problem> register_remote(db::Tx& tx, const NewRemote& remote, TimeMs now);
// Newest first; empty: no remote workflow of that name.
[[nodiscard]] std::vector<RemoteVersion> remote_versions(db::ReadTx& tx, std::string_view name);
// Pinned versions whose runs this one drives: itself and those that it accepts.
[[nodiscard]] std::vector<VersionId> versions_driven_by(db::ReadTx& tx, const RemoteVersion& version);

// Owners of remote attempts begin with this, those of this process with "local:".
inline constexpr std::string_view kRemoteOwner = "remote:";

struct RemoteLease {
  Fence fence;
  std::optional<TimeMs> lease_until;
};
[[nodiscard]] std::vector<RemoteLease> remote_leases(db::ReadTx& tx);
// False: it is another's by now.
[[nodiscard]] bool renew_lease(db::Tx& tx, const Fence& fence, TimeMs until);

// The secret from which tokens of attempts follow (they survive a restart of the agent, and no row holds them):
// `fresh` if there is none yet. With the file's incarnation [X6].
[[nodiscard]] std::string attempt_key(db::Tx& tx, std::string_view fresh);

}  // namespace bide::kernel
