// What the routes work with: made by the wiring, outlives the server. Nothing here belongs to a single request.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/errors.h"
#include "agent/base/random.h"
#include "agent/work/commands.h"
#include "agent/work/delivery_commands.h"
#include "agent/work/environments.h"
#include "agent/work/holders.h"
#include "agent/work/remote_tasks.h"
#include "agent/work/remotes.h"
#include "agent/work/secrets.h"
#include "web/session.h"
#include "web/streams.h"

namespace bide::web {

struct Ports {
  work::Commands& commands;
  Clock& clock;
  Random& random;
  Sessions& sessions;
  std::string version;                         // of bide
  std::string page_url;                        // "http://127.0.0.1:7433/", empty: no TCP listener
  std::function<std::string(RunId)> log_file;  // path of a run's log; empty text: it has none
  std::function<std::string()> not_ready;      // why no work is done (a clock that is held …), empty: it is
  // /v1/outbox and /v1/webhooks; null: an agent that sends nothing has neither.
  work::DeliveryCommands* deliveries = nullptr;
  work::Environments* environments = nullptr;  // /v1/environments; null: none
  // Whom a step's command runs under; null: programs run it themselves.
  work::Holders* holders = nullptr;
  work::Remotes* remotes = nullptr;  // apps that drive runs; null: none may
  work::RemoteTasks* remote_tasks = nullptr;
  work::Secrets* secrets = nullptr;                     // null: none are known
  Streams* streams = nullptr;                           // events as they come; null: pages only
  std::function<std::vector<std::string>()> installed;  // names of the programs in the workflows' folder; may be empty
  // POST /v1/workflows/{name}/check: work::WorkflowCheck::check; null: no programs.
  std::function<std::variant<std::string, Problem>(const std::string& name, const std::function<bool()>& gone)> check;
  bool relaxed = false;  // durability: said by doctor
  // A token was added or revoked, a session ended: the front looks at its credentials again, and ends streams.
  std::function<void()> credentials_changed;
};

// Addresses inside that apps may be asked at [O6].
[[nodiscard]] inline std::vector<std::string> allowed_targets(const Ports& ports) {
  return ports.deliveries != nullptr ? ports.deliveries->allow() : std::vector<std::string>();
}

}  // namespace bide::web
