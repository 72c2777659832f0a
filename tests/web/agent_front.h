// AgentFront: the floors of a Rig with the whole HTTP front and all routes over it; native workflows are driven by the
// executor's own threads. The store's clock is the rig's.
#pragma once

#include <memory>
#include <string>

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
  // signal "news"; "nap" sleeps an hour.
  AgentFront();
  ~AgentFront();

  [[nodiscard]] HttpClient client() const { return HttpClient::unix_socket(socket_); }
  [[nodiscard]] HttpClient page() const { return HttpClient::tcp(port_); }
  // Over the socket, on a connection of its own.
  HttpAnswer ask(const std::string& method, const std::string& target, const std::string& body = {},
                 const std::string& fields = {}) const {
    return client().ask(method, target, body, fields);
  }
  // Starts a run; its number.
  std::int64_t start(const std::string& workflow, const std::string& input = "{}") const;
  // Waits until the run has this status.
  void until(std::int64_t run, const std::string& status) const;
  // The number of the pending wait of the run.
  std::int64_t wait_of(std::int64_t run) const;

  Rig rig{Rig::Mode::threaded};
  web::Auth auth;

 private:
  TempDir folder_;
  std::string socket_;
  int port_ = 0;
  SystemClock clock_;
  SystemRandom random_;
  web::Sessions sessions_{clock_, random_};
  std::unique_ptr<web::Ports> ports_;
  web::Router router_;
  std::unique_ptr<web::Server> server_;
};

}  // namespace bide::test
