// The HTTP front: listeners, the reactor that owns slow clients, and the pools on which handlers run. Verbs that wait
// have a pool of their own, those that others wait for too, and readers' long polls and health: none of these stops
// another, however full it is.
// Order at the door: form and framing, Host, Origin, content type, length, route, credential, scope; only then is the
// body read. What a handler throws ends here: a fault is logged, and the client gets a document without its text.
// Threads: listen() and start() before, stop() from any thread but a handler's. It must outlive nobody: the router,
// the credentials and the clock are owned by the caller and outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/limits_api.h"
#include "web/auth.h"
#include "web/listener.h"
#include "web/router.h"

namespace bide::web {

struct ServerOptions {
  std::vector<std::string> hosts;  // further names for Host and Origin, without port
  std::int64_t head_ms = limits::kHeadMs;
  std::int64_t body_ms = limits::kBodyMs;
  std::int64_t write_ms = limits::kWriteMs;
  std::int64_t idle_ms = limits::kIdleMs;
  std::int64_t linger_ms = limits::kCloseLingerMs;
  std::int64_t heartbeat_ms = limits::kHeartbeatMs;
  std::size_t connections = limits::kConnections;  // of a Unix socket
  std::size_t tcp_connections = limits::kConnections;
  int request_threads = limits::kRequestThreads;
  std::size_t queued_requests = limits::kQueuedRequests;
  int wait_threads = limits::kWaitThreads;
  int act_threads = limits::kActThreads;
  int poll_threads = limits::kPollThreads;
  int health_threads = limits::kHealthThreads;
};

struct ServerCounts {
  std::size_t connections = 0;
  int short_requests = 0;
  int waiting_requests = 0;
};

class Server {
 public:
  Server(const Router& router, const Auth& auth, Clock& clock, ServerOptions options = {});
  ~Server();  // as stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void listen(Listener listener);  // before start()
  void start();
  // Takes no more connections, closes those that are idle, tells handlers that wait, lets what is in hand answer, and
  // joins. Returns when the last handler has: stop the executor first, it ends those that wait for an attempt.
  // Idempotent.
  void stop();
  // After start() and before stop(), on any thread: streams may have something to send; a credential was taken back.
  void ring_streams();
  void recheck();
  [[nodiscard]] ServerCounts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::web
