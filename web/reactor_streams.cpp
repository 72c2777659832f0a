// The reactor's half of streams: bytes go out when there are some and the client takes them. What is on its way has
// one deadline, however it drips; a client that takes nothing is cut off and costs one buffer until then.
#include <sys/epoll.h>

#include <vector>

#include "agent/base/limits_api.h"
#include "web/reactor.h"

namespace bide::web {
namespace {

constexpr std::string_view kHeartbeat = ":\n\n";  // a comment: no reader takes it for an event

}  // namespace

void Reactor::ring_streams() {
  streams_rung_.store(true);
  wake();
}

void Reactor::recheck() {
  recheck_wanted_.store(true);
  wake();
}

void Reactor::begin_stream(Connection& connection) {
  connection.state = State::streaming;
  connection.in.clear();
  connection.in.shrink_to_fit();
  streams_.insert(connection.fd.get());
  set_deadline(connection, bounds_.write_ms);
  pump(connection);
}

void Reactor::pump(Connection& connection) {
  bool wrote = !connection.out.empty();
  while (true) {
    if (!flush(connection)) {
      if (connection.broken) {
        close(connection);
      } else {
        watch(connection, EPOLLOUT | EPOLLRDHUP);
      }
      return;
    }
    if (connection.source_over || !connection.source) {
      close(connection);
      return;
    }
    const auto state = connection.source->take(connection.out, limits::kStreamBytes);
    connection.source_over = state == StreamSource::State::over;
    if (!connection.out.empty()) {
      wrote = true;
      set_deadline(connection, bounds_.write_ms);
    } else if (!connection.source_over) {
      watch(connection, EPOLLRDHUP);
      if (wrote) set_deadline(connection, bounds_.heartbeat_ms);  // else the silence goes on
      return;
    }
  }
}

void Reactor::expire_stream(Connection& connection) {
  if (!connection.out.empty() || !desk_.still_admitted(connection)) {
    close(connection);
    return;
  }
  connection.out = kHeartbeat;
  set_deadline(connection, bounds_.write_ms);
  pump(connection);
}

void Reactor::look_at_streams() {
  const bool recheck = recheck_wanted_.exchange(false);
  if (!streams_rung_.exchange(false) && !recheck) return;
  const std::vector<int> streams(streams_.begin(), streams_.end());  // some may end
  for (const int fd : streams) {
    Connection& connection = *all_.at(fd);
    if (recheck && !desk_.still_admitted(connection)) {
      close(connection);
    } else if (connection.out.empty()) {
      pump(connection);
    }
  }
}

}  // namespace bide::web
