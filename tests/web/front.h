// Front: a whole HTTP front on a Unix socket and a TCP port of its own, with a few routes that show what a handler saw.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "agent/base/clock.h"
#include "agent/base/hash.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"
#include "web/server.h"

namespace bide::test {

inline const std::string kAdminToken = "bide_TESTTOKENTESTTOKENTESTTOKEN";

class Front {
 public:
  explicit Front(web::ServerOptions options = {}, const std::function<void(web::Router&)>& more = {});
  ~Front();

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string socket() const { return folder_.str("bide.sock"); }
  [[nodiscard]] HttpClient tcp() const { return HttpClient::tcp(port_); }
  [[nodiscard]] HttpClient unix_socket() const { return HttpClient::unix_socket(socket()); }
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] static std::string bearer() { return "Authorization: Bearer " + kAdminToken + "\r\n"; }
  [[nodiscard]] int runs() const { return runs_.load(); }        // POST /v1/runs that reached their handler
  [[nodiscard]] int holding() const { return holding_.load(); }  // GET /hold that wait
  [[nodiscard]] web::Auth& auth() { return auth_; }
  [[nodiscard]] std::size_t server_connections() const { return server_.counts().connections; }
  [[nodiscard]] web::Server& server() { return server_; }
  void stop() { server_.stop(); }

 private:
  void add_routes();

  TempDir folder_;
  SystemClock clock_;
  web::Router router_;
  web::Auth auth_;
  std::atomic<int> runs_{0};
  std::atomic<int> holding_{0};
  web::Server server_;
  int port_ = 0;
};

}  // namespace bide::test
