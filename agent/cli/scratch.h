// Scratch: a folder for an agent that tries something out and leaves nothing; and that agent's configuration. One
// thread.
#pragma once

#include <string>

#include "agent/config.h"

namespace bide::cli {

class Scratch {
 public:
  // `keep`: a folder that stays, new or empty; empty: one that is removed with all in it. Throws ConfigFault.
  explicit Scratch(const std::string& keep);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  // The agent's folder, socket and so on lie here; it has no TCP listener, and the secrets of the one that was
  // configured.
  void take_in(Config& config) const;

 private:
  const bool kept_;
  std::string path_;
};

// SIGTERM or SIGINT is pending; these are blocked (Service::block_signals).
[[nodiscard]] bool was_signalled();

}  // namespace bide::cli
