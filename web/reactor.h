// The reactor: one thread that owns every connection while nobody works on it. It accepts, reads heads and bodies
// without blocking, and writes what did not fit at once; so a slow client costs a buffer, never a thread. Each part of
// a request has one deadline for the whole of it, however the bytes drip.
// A complete request is handed to the Desk, which gives it to a pool; that thread gives the connection back.
// A stream stays with the reactor from its first byte on: it asks the connection's StreamSource for more when all was
// sent, and has one deadline for what is on its way; between, a heartbeat (reactor_streams.cpp).
// Faults: none leave it; a connection that breaks is closed. run() is called on one thread, give_back, ring_streams,
// recheck and stop on any.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/mutex.h"
#include "web/connection.h"
#include "web/listener.h"

namespace bide::web {

// What the reactor asks, on its own thread: must answer from memory, without waiting.
class Desk {
 public:
  virtual ~Desk() = default;
  // A head came in that the gate let pass: sets the connection's route and principal, or says why not.
  [[nodiscard]] virtual std::optional<Response> receive(Connection& connection) = 0;
  // The whole request is here. True: a pool thread will give the connection back. False: no room.
  [[nodiscard]] virtual bool hand_over(Connection& connection) = 0;
  // After each round: looks after requests that were handed over and wait for a thread. True: ask again in 1 ms.
  [[nodiscard]] virtual bool look() = 0;
  [[nodiscard]] virtual Response refusal(int status, const std::string& code, const std::string& detail) = 0;
  // Whether a stream's reader may go on: its token may have been revoked since.
  [[nodiscard]] virtual bool still_admitted(const Connection& connection) = 0;
};

struct ReactorBounds {
  std::int64_t head_ms;       // a whole head, from its first byte: 408
  std::int64_t body_ms;       // a whole body: 408
  std::int64_t write_ms;      // a whole answer
  std::int64_t idle_ms;       // between requests
  std::int64_t linger_ms;     // after a refusal
  std::int64_t heartbeat_ms;  // of a stream that has nothing to say
  std::size_t connections;    // of a Unix socket
  std::size_t tcp_connections;
};

class Reactor {
 public:
  Reactor(Desk& desk, Clock& clock, ReactorBounds bounds, std::vector<Listener> listeners,
          const std::vector<std::string>& more_hosts);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Until stop() was called and every connection has ended.
  void run();
  // Closes listeners and what is idle at once; what is busy is told, answers, and ends.
  void stop();
  // A pool thread is done with it: its answer stands in connection.out, or connection.after says what else.
  void give_back(Connection& connection) EXCLUDES(mutex_);
  // Streams may have something to send.
  void ring_streams();
  // A credential was taken back: streams that were opened with it end.
  void recheck();
  [[nodiscard]] std::size_t connections() const { return count_.load(std::memory_order_relaxed); }
  [[nodiscard]] const std::vector<Listener>& listeners() const { return listeners_; }

 private:
  using State = Connection::State;

  void accept_from(std::size_t listener);
  bool make_room(std::size_t listener);
  bool make_room_anywhere();
  void no_descriptors();
  void on_event(Connection& connection, std::uint32_t events);
  void on_readable(Connection& connection);
  void advance(Connection& connection);
  bool step(Connection& connection);
  bool read_next_head(Connection& connection);
  bool take_body(Connection& connection);
  [[nodiscard]] Response busy();
  bool claim(Connection& connection, std::size_t bytes);
  void refuse(Connection& connection, Response&& response, bool keep_alive);
  void resume(Connection& connection);
  void go_on(Connection& connection);
  void write_on(Connection& connection);
  void after_answer(Connection& connection);
  void linger(Connection& connection);
  void discard(Connection& connection);
  void close(Connection& connection);
  void begin_stream(Connection& connection);
  void pump(Connection& connection);
  void expire_stream(Connection& connection);
  void look_at_streams();
  void wake();
  void begin_stop();
  void expire(BootMs now);
  void take_returned();
  void set_deadline(Connection& connection, std::int64_t in_ms);
  void watch(Connection& connection, std::uint32_t events);
  void watch_listeners(bool on);
  [[nodiscard]] int wait_ms() const;

  Desk& desk_;
  Clock& clock_;
  const ReactorBounds bounds_;
  std::vector<Listener> listeners_;
  std::vector<GateRules> rules_;
  std::vector<std::size_t> open_;    // connections a listener
  std::vector<std::size_t> bodies_;  // a listener: bytes of bodies that came and are not done with
  Fd epoll_;
  Fd bell_;
  std::unordered_map<int, std::unique_ptr<Connection>> all_;
  std::set<std::pair<BootMs, int>> deadlines_;
  std::set<int> streams_;
  std::uint32_t generation_ = 0;
  bool listening_ = false;
  BootMs listen_again_ = 0;  // no descriptors were left: then
  BootMs warned_ = 0;
  bool stopping_ = false;
  bool look_soon_ = false;         // the desk wants to be asked again
  std::atomic<bool> rung_{false};  // the bell; its reader will see all that was done before
  std::atomic<bool> stop_wanted_{false};
  std::atomic<bool> streams_rung_{false};
  std::atomic<bool> recheck_wanted_{false};
  std::atomic<std::size_t> count_{0};

  Mutex mutex_;
  std::vector<Connection*> returned_ GUARDED_BY(mutex_);
};

}  // namespace bide::web
