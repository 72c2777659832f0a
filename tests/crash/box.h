// CrashBox: a real agent over a folder of its own, that can be killed, stopped and started again, with workflows that
// write what they do into a ledger outside of it: one line an effect, appended (O_APPEND), "WHAT RUN KEY".
// One thread. A request that fails or a wait that is missed fails the running test case. At the end of the scope all
// processes of the agent and of its attempts are killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/process_tree.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::test {

class CrashBox {
 public:
  using Json = nlohmann::json;

  // `executable`: another agent than the shipped one, with workflows of its own.
  explicit CrashBox(std::string executable = BIDE_EXECUTABLE);
  ~CrashBox();
  CrashBox(const CrashBox&) = delete;
  CrashBox& operator=(const CrashBox&) = delete;

  // A workflow in sh (set -eu). In it `$OUT` is folder(), and `effect WHAT` writes a line into the ledger.
  void program(const std::string& name, const std::string& body);
  std::vector<std::string> flags;  // of the agent's next starts, beside those that every box needs
  // Starts the agent (with more in its environment) and returns when it is ready.
  void serve(const std::vector<std::pair<std::string, std::string>>& more = {});
  // `elsewhere` is added to the name of the socket.
  [[nodiscard]] Command serve_command(const std::string& elsewhere = "") const;
  [[nodiscard]] Process& agent() { return *agent_; }
  // SIGKILL, and reaped.
  void kill_agent() { agent_->kill(); }
  // SIGKILL to the agent, and to every process of every attempt: nobody has the time to end anything in order.
  void kill_all();
  // All that was started by this agent and lives: guards, programs, verbs, commands of steps.
  [[nodiscard]] std::vector<ProcessInfo> attempt_processes() const;

  [[nodiscard]] Finished bide(std::vector<std::string> words) const;
  // One request on a connection of its own; the status and the document. Status 0: the agent is away.
  [[nodiscard]] std::pair<int, Json> ask(const std::string& method, const std::string& target,
                                         const Json& body = nullptr) const;
  [[nodiscard]] Json get(const std::string& target) const;  // 200, or the test case fails
  [[nodiscard]] std::int64_t start(const std::string& workflow, const Json& input = Json::object()) const;
  [[nodiscard]] Json show(std::int64_t run) const { return get("/v1/runs/" + std::to_string(run)); }
  [[nodiscard]] std::string status(std::int64_t run) const { return show(run)["status"]; }
  void until_status(std::int64_t run, const std::string& status,
                    std::chrono::milliseconds deadline = std::chrono::seconds(60)) const;
  // The waits of the run that are pending, of this kind.
  [[nodiscard]] std::vector<Json> pending(std::int64_t run, const std::string& kind) const;
  // Waits until there is one, and gives its number.
  [[nodiscard]] std::int64_t wait_of(std::int64_t run, const std::string& kind) const;
  void answer(std::int64_t wait, const Json& body) const;
  // The step's entry in the journal; null if there is none.
  [[nodiscard]] Json step(std::int64_t run, const std::string& name) const;
  [[nodiscard]] int events(std::int64_t run, const std::string& kind) const;

  // First column of the first row, read from the file as any shell would.
  [[nodiscard]] std::string sql(const std::string& query) const;
  [[nodiscard]] std::vector<std::string> ledger() const;
  // Lines that begin with these words ("pay 7", or "pay" for those of all runs).
  [[nodiscard]] int effects(const std::string& words) const;
  void until_effects(const std::string& words, int count) const;

  [[nodiscard]] std::string folder() const { return dir_.str("out"); }
  [[nodiscard]] std::string data() const { return dir_.str("data"); }
  [[nodiscard]] std::string socket() const { return dir_.str("s"); }
  // Lets a command go on that waits for this file: `until [ -e "$OUT/NAME" ]; do sleep 0.02; done`.
  void touch(const std::string& name) const { write_file(dir_ / ("out/" + name), ""); }

 private:
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const;

  const std::string executable_;
  TempDir dir_;
  std::optional<Process> agent_;
};

}  // namespace bide::test
