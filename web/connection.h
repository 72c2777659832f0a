// One accepted connection. It belongs to the reactor's thread, but for the time it is `busy`: then a pool thread has
// it, and the reactor touches only `stop` and its own book-keeping. Handed back through Reactor::give_back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "agent/base/fd.h"
#include "agent/base/time.h"
#include "web/gate.h"
#include "web/request.h"
#include "web/router.h"

namespace bide::web {

struct Connection {
  enum class State {
    idle,       // between requests: nothing read yet
    head,       // some of a head is here
    body,       // its head was accepted, its body is coming
    busy,       // a pool thread has it
    parked,     // answered never: ends with its peer [V1]
    writing,    // an answer that did not fit into the socket's buffer
    streaming,  // an answer without an end: bytes go out as they come
    lingering,  // refused: what the client still sends is thrown away, so that it can read why
  };

  Fd fd;
  Peer peer;
  std::size_t listener = 0;  // index of the one that it came through
  State state = State::idle;

  std::string in;   // read and not used yet; keeps what was pipelined
  std::string out;  // to be written; `sent` bytes of it are
  std::size_t sent = 0;
  std::optional<FileBytes> file;         // follows `out`
  std::unique_ptr<StreamSource> source;  // follows `out`, of a stream
  bool source_over = false;
  bool close_after = false;
  bool linger_after = false;  // the client may still be sending
  bool broken = false;        // a write failed
  Response::After after = Response::After::answer;

  // The request in hand.
  Head head;
  Matched matched;
  Principal principal;
  std::string body;
  std::stop_source stop{std::nostopstate};
  std::atomic<bool> hung_up{false};  // its peer did, while it was busy

  // The reactor's book-keeping.
  std::uint32_t generation = 0;
  bool watched = false;  // is in the epoll set
  std::uint32_t interest = 0;
  BootMs deadline = 0;  // 0: none
  std::size_t discarded = 0;
  std::size_t claimed = 0;  // bytes of its body that are here
};

// Puts an answer into connection.out (and file, or source), with the headers that stand on every answer. `now`: for
// Date. A stream has no length: its end is the connection's.
// `head_only`: without the body.
void write_answer(Connection& connection, Response&& response, TimeMs now, bool head_only, bool keep_alive);

// Sends what there is without blocking. True: all of it is sent. False: the rest later, or `broken`.
[[nodiscard]] bool flush(Connection& connection);

}  // namespace bide::web
