// AgentFront: the floors of a Rig with the whole HTTP front and all routes over it; native workflows are driven by the
// executor's own threads. The store's clock is the rig's.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "agent/work/delivery_commands.h"
#include "agent/work/remote_tasks.h"
#include "agent/work/remotes.h"
#include "tests/support/http_client.h"
#include "tests/support/rig.h"
#include "web/auth.h"
#include "web/routes.h"
#include "web/server.h"
#include "web/session.h"

namespace bide::test {

class AgentFront {
 public:
  // Workflows: "echo" gives its input back; "gate" waits for an approval "go" and gives the decision; "ear" waits for a
  // signal "news"; "nap" sleeps an hour; "chore" has its input done by whoever has the function "shrink".
  explicit AgentFront(web::ServerOptions options = {}, web::StreamBounds bounds = {});
  ~AgentFront();

  [[nodiscard]] HttpClient client() const { return HttpClient::unix_socket(socket_); }
  [[nodiscard]] HttpClient page() const { return HttpClient::tcp(port_); }
  // Over the socket, on a connection of its own.
  HttpAnswer ask(const std::string& method, const std::string& target, const std::string& body = {},
                 const std::string& fields = {}) const {
    return client().ask(method, target, body, fields);
  }
  // What drives remote runs is gone and made anew, as with the agent's process; the rest stays.
  void restart();
  [[nodiscard]] web::ServerCounts counts() const { return server_->counts(); }
  // Starts a run; its number.
  std::int64_t start(const std::string& workflow, const std::string& input = "{}") const;
  // Waits until the run has this status.
  void until(std::int64_t run, const std::string& status) const;
  // The number of the pending wait of the run.
  std::int64_t wait_of(std::int64_t run) const;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] const std::string& socket() const { return socket_; }
  [[nodiscard]] web::Streams& streams() { return *streams_; }
  [[nodiscard]] web::Server& server() { return *server_; }
  [[nodiscard]] const web::Router& router() const { return router_; }
  [[nodiscard]] web::Sessions& sessions() { return sessions_; }
  // The tokens of the file, and those that every AgentFront has: kAdminToken, bide_READER.
  void load_tokens();

  Rig rig{Rig::Mode::threaded};
  std::unique_ptr<work::Remotes> remotes;
  web::Auth auth;

 private:
  TempDir folder_;
  std::string socket_;
  int port_ = 0;
  SystemClock clock_;
  SystemRandom random_;
  web::Sessions sessions_{clock_, random_};
  std::optional<work::RemoteTasks> remote_tasks_;
  std::optional<work::DeliveryCommands> deliveries_;  // what goes out does so when a test calls rig.deliver()
  std::atomic<web::Streams*> hearing_{nullptr};
  std::unique_ptr<web::Streams> streams_;
  std::unique_ptr<web::Ports> ports_;
  web::Router router_;
  std::unique_ptr<web::Server> server_;
};

}  // namespace bide::test
