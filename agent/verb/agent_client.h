// One request to the agent over its Unix socket: one connect, one write, one answer, close. HTTP/1.1, nothing else.
// One thread. A failure of any kind (nobody listens, the connection ends early, what comes is no HTTP) is nullopt:
// whoever asked tries again [V2].
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bide::verb {

struct AgentReply {
  int status = 0;
  std::string body;
};

// Waits for the answer as long as it takes: a request that waits stays open for days. `has_read`: says so to the agent,
// in the field Bide-Read.
[[nodiscard]] std::optional<AgentReply> ask_agent(const std::string& socket_path, std::string_view method,
                                                  std::string_view path, std::string_view token, std::string_view body,
                                                  bool has_read = false);

}  // namespace bide::verb
