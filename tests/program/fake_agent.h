// FakeAgent: a small HTTP server on a Unix socket that plays the agent for verbs, by a function of the test.
// Threads: one per connection; the function is called under a lock, so it may keep state. Requests are recorded.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/fd.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::test {

struct AgentRequest {
  std::string method;
  std::string operation;  // the path below /v1/runs/7/attempt/, or "outcomes/NONCE"
  std::string token;
  bool has_read = false;  // it says that it holds what was read
  nlohmann::json body;
};
struct AgentAnswer {
  int status = 200;
  nlohmann::json body;
};

class FakeAgent {
 public:
  // nullopt: the request stays open until the agent stops. A status of 0 closes the connection without an answer, one
  // of kLater asks the function again in a moment.
  static constexpr int kLater = -1;
  using Handler = std::function<std::optional<AgentAnswer>(const AgentRequest&)>;

  explicit FakeAgent(Handler handler);
  ~FakeAgent();
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

  void stop();   // as if it were killed: all connections end, nobody listens
  void start();  // again, on the same socket

  [[nodiscard]] std::vector<AgentRequest> requests();
  // Those of an operation: "steps", "end", …
  [[nodiscard]] std::vector<AgentRequest> requests(const std::string& operation);
  [[nodiscard]] std::string socket() const { return dir_.str("agent.sock"); }
  [[nodiscard]] const TempDir& dir() const { return dir_; }
  // A script with sh in the attempt's environment, in dir(), killed with its group at the end.
  [[nodiscard]] Command script(const std::string& text) const;

 private:
  void accept_all(int listener);
  void serve(int connection);

  TempDir dir_;
  Handler handler_;
  std::mutex mutex_;
  std::vector<AgentRequest> requests_;
  std::vector<int> connections_;
  Fd listener_;
  std::atomic<bool> stopping_{false};
  std::thread accepting_;
  std::vector<std::thread> serving_;
};

// A journal of one attempt in memory, enough for verbs: steps run once under their holders, retries as asked, and what
// fails without --try stays open, as do `end` and what is not answered in `answers` (by the wait's name).
struct FakeJournal {
  std::map<std::string, nlohmann::json> results;  // settled steps by name/key
  std::map<std::string, nlohmann::json> answers;  // {"outcome":…,"result":…}
  std::map<std::string, std::string> probes;      // name of a step in doubt → its probe is asked at the next begin
  std::string folder;                             // for the files of holders
  std::optional<AgentAnswer> operator()(const AgentRequest& request);

 private:
  struct Entry {
    std::string name;
    nlohmann::json begun;
    int left = 0;
    std::string nonce;                      // of the present execution
    std::optional<nlohmann::json> outcome;  // of it, as its holder handed it in
  };
  AgentAnswer execute(int id, const char* state);
  std::optional<AgentAnswer> of_step(int id, const AgentRequest& request);
  std::optional<AgentAnswer> awaited(int id);
  AgentAnswer settled(const std::string& name);
  std::map<int, Entry> entries_;
  int executions_ = 0;
};

}  // namespace bide::test
