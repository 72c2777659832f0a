// A whole agent (`bide serve` of this build) in a folder of its own, for what is measured from outside. It ends with
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/base/random.h"
#include "agent/base/spawn.h"
#include "agent/cli/client.h"

namespace bide::bench {

class Agent {
 public:
  // `directory` is made anew; workflows are the scripts that `add` puts there first. Throws when it does not answer.
  explicit Agent(std::string directory);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void add(const std::string& name, const std::string& script) const;  // NAME.sh
  void start(const std::string& listen = "none");
  [[nodiscard]] cli::Client& client() { return client_; }
  [[nodiscard]] std::string socket() const { return directory_ + "/s"; }
  [[nodiscard]] std::string url();    // "http://127.0.0.1:40123", of its TCP door
  [[nodiscard]] std::string token();  // an admin's, for TCP
  std::string run(const std::string& workflow, const std::string& input = "{}");  // its number
  void until(const std::string& run, const std::string& status);
  // Asks again and again for two minutes; then it throws.
  void ask(const std::function<bool()>& condition) const;

 private:
  const std::string directory_;
  SystemRandom random_;
  cli::Client client_;
  Spawned process_;
};

}  // namespace bide::bench
