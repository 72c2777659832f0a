// Reach: from a URL to the addresses that may be connected to, the same for every protocol [O6]: the name is resolved
// once, and one address that is not allowed refuses them all.
// Thread-safe. Failures are values, as a transport answers them. Ownership: Clock and Resolver outlive it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/work/targets.h"
#include "agent/work/transport.h"

namespace bide::work {

struct Reach {
  Clock& clock;
  Resolver& resolver;
  std::optional<Address> own;  // where the agent itself listens: never a target
  std::function<bool()> has_network = work::has_network;

  [[nodiscard]] std::variant<std::vector<Address>, Answered> addresses_of(const Url& url,
                                                                          const std::vector<std::string>& allow,
                                                                          BootMs deadline) const;
  // A failure, or no network if the box has none [O5].
  [[nodiscard]] Answered unreachable(const std::string& why) const;
};

}  // namespace bide::work
