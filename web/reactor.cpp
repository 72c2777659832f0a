#include "web/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "agent/base/log.h"

namespace bide::web {
namespace {

constexpr std::uint64_t kBellTag = ~std::uint64_t{0};
constexpr std::uint64_t kListenerTag = std::uint64_t{1} << 63;
constexpr std::size_t kReadChunk = 16 * 1024;
constexpr std::size_t kDiscardBytes = 8 << 20;  // what a refused client may still send before it is cut off
constexpr std::int64_t kNoDescriptorsMs = 100;
constexpr std::int64_t kWarnMs = 10'000;
constexpr std::int64_t kStopWriteMs = 1'000;
// Of a connection whose request is read or is in hand: nothing needs to be changed between the two.
constexpr std::uint32_t kListens = EPOLLIN | EPOLLRDHUP;

std::uint64_t tag(const Connection& connection) {
  return (std::uint64_t{connection.generation} & 0x7fffffff) << 32 | static_cast<std::uint32_t>(connection.fd.get());
}

}  // namespace

Reactor::Reactor(Desk& desk, Clock& clock, ReactorBounds bounds, std::vector<Listener> listeners,
                 const std::vector<std::string>& more_hosts)
    : desk_(desk),
      clock_(clock),
      bounds_(bounds),
      listeners_(std::move(listeners)),
      open_(listeners_.size(), 0),
      bodies_(listeners_.size(), 0),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.valid() || !bell_.valid()) throw ConfigFault("no descriptors left for the HTTP front");
  for (const Listener& listener : listeners_) rules_.push_back(listener.rules(more_hosts));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kBellTag;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &event);
}

Reactor::~Reactor() = default;

void Reactor::run() {
  watch_listeners(true);
  std::array<epoll_event, 128> events{};
  while (!(stopping_ && all_.empty())) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kBellTag) {
        std::uint64_t rings = 0;
        [[maybe_unused]] const ssize_t got = ::read(bell_.get(), &rings, sizeof rings);
        rung_.store(false);  // before what it was rung for is looked at
      } else if ((event.data.u64 & kListenerTag) != 0) {
        accept_from(event.data.u64 & ~kListenerTag);
      } else {
        // The descriptor may have been closed, and given anew, earlier in this round.
        const auto found = all_.find(static_cast<int>(event.data.u64 & 0xffffffff));
        if (found != all_.end() && tag(*found->second) == event.data.u64) on_event(*found->second, event.events);
      }
    }
    take_returned();
    look_soon_ = desk_.look();
    look_at_streams();
    if (stop_wanted_.load() && !stopping_) begin_stop();
    expire(clock_.boot_ms());
  }
}

void Reactor::stop() {
  stop_wanted_.store(true);
  wake();
}

void Reactor::wake() {
  if (rung_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(bell_.get(), &one, sizeof one);
}

void Reactor::give_back(Connection& connection) {
  {
    Lock lock(mutex_);
    returned_.push_back(&connection);
  }
  wake();
}

void Reactor::take_returned() {
  std::vector<Connection*> returned;
  {
    Lock lock(mutex_);
    returned.swap(returned_);
  }
  for (Connection* connection : returned) resume(*connection);
}

int Reactor::wait_ms() const {
  BootMs next = deadlines_.empty() ? 0 : deadlines_.begin()->first;
  if (listen_again_ != 0 && (next == 0 || listen_again_ < next)) next = listen_again_;
  const std::int64_t longest = look_soon_ ? 1 : 60'000;
  if (next == 0) return look_soon_ ? 1 : -1;
  return static_cast<int>(std::clamp<std::int64_t>(next - clock_.boot_ms(), 0, longest));
}

void Reactor::set_deadline(Connection& connection, std::int64_t in_ms) {
  if (connection.deadline != 0) deadlines_.erase({connection.deadline, connection.fd.get()});
  connection.deadline = in_ms == 0 ? 0 : clock_.boot_ms() + in_ms;
  if (connection.deadline != 0) deadlines_.insert({connection.deadline, connection.fd.get()});
}

void Reactor::watch(Connection& connection, std::uint32_t events) {
  if (connection.watched && connection.interest == events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag(connection);
  const int verb = connection.watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(epoll_.get(), verb, connection.fd.get(), &event) != 0) connection.broken = true;
  connection.watched = true;
  connection.interest = events;
}

void Reactor::watch_listeners(bool on) {
  if (listening_ == on) return;
  listening_ = on;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kListenerTag | i;
    ::epoll_ctl(epoll_.get(), on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listeners_[i].fd(), &event);
  }
}

void Reactor::accept_from(std::size_t listener) {
  // Not all at once: a flood of connections must not keep those that are here waiting.
  for (int taken = 0; taken < 64 && listening_; ++taken) {
    Peer peer;
    Fd fd = listeners_[listener].accept(peer);
    if (!fd.valid()) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
      if (make_room_anywhere()) continue;
      no_descriptors();
      return;
    }
    const std::size_t most = listeners_[listener].is_unix() ? bounds_.connections : bounds_.tcp_connections;
    const bool room = open_[listener] < most || make_room(listener);
    if (!room && open_[listener] >= most + limits::kRefusedAtOnce) continue;  // there are enough that are told why
    const int number = fd.get();
    auto connection = std::make_unique<Connection>();
    connection->fd = std::move(fd);
    connection->peer = peer;
    connection->listener = listener;
    connection->generation = ++generation_;
    Connection& there = *connection;
    all_[number] = std::move(connection);
    ++open_[listener];
    count_.store(all_.size(), std::memory_order_relaxed);
    if (!room) {
      refuse(there, desk_.refusal(503, "too_many_connections", "this agent has as many connections as it takes"),
             false);
      continue;
    }
    set_deadline(there, bounds_.idle_ms);
    watch(there, kListens);
  }
}

// No more connections are taken for a moment.
void Reactor::no_descriptors() {
  const BootMs now = clock_.boot_ms();
  if (warned_ == 0 || now - warned_ >= kWarnMs) log::warn("http.no_descriptors", {{"connections", all_.size()}});
  warned_ = now;
  watch_listeners(false);
  listen_again_ = now + kNoDescriptorsMs;
}

// At the expense of the network first: the socket is how the box's own programs live.
bool Reactor::make_room_anywhere() {
  for (const bool unix_socket : {false, true}) {
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (listeners_[i].is_unix() == unix_socket && make_room(i)) return true;
    }
  }
  return false;
}

// Closes the connection of that listener that has been idle for longest.
bool Reactor::make_room(std::size_t listener) {
  take_returned();  // what was answered is idle, also if its thread gave it back only just now
  for (const auto& [at, fd] : deadlines_) {
    Connection& connection = *all_.at(fd);
    if (connection.listener != listener || connection.state != State::idle) continue;
    close(connection);
    return true;
  }
  return false;
}

void Reactor::on_event(Connection& connection, std::uint32_t events) {
  switch (connection.state) {
    case State::idle:
    case State::head:
    case State::body: on_readable(connection); return;
    case State::busy:
      if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0) {  // pipelined: read when this one is answered
        watch(connection, EPOLLRDHUP);
        return;
      }
      // The peer hung up. It is looked at again when its thread gives it back.
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), nullptr);
      connection.watched = false;
      connection.hung_up.store(true);
      connection.stop.request_stop();
      return;
    case State::parked: close(connection); return;
    case State::writing:
      if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        close(connection);
        return;
      }
      go_on(connection);
      return;
    case State::streaming:
      if ((events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0) {
        close(connection);
      } else {
        pump(connection);
      }
      return;
    case State::lingering: discard(connection); return;
  }
}

void Reactor::on_readable(Connection& connection) {
  std::array<char, kReadChunk> chunk;
  const std::size_t wanted = connection.state == State::body ? connection.head.content_length : limits::kHeadBytes + 8;
  while (connection.in.size() < wanted) {
    const ssize_t got =
        ::recv(connection.fd.get(), chunk.data(), std::min(chunk.size(), wanted - connection.in.size()), 0);
    if (got > 0) {
      connection.in.append(chunk.data(), static_cast<std::size_t>(got));
      if (static_cast<std::size_t>(got) < chunk.size()) break;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    close(connection);  // gone; what came of a request is no request
    return;
  }
  advance(connection);
}

void Reactor::advance(Connection& connection) {
  while (step(connection)) {
  }
}

// One state further. False: nothing more to do now, or the connection is not ours any more, or has ended.
bool Reactor::step(Connection& connection) {
  switch (connection.state) {
    case State::idle:
      if (connection.in.empty()) {
        watch(connection, kListens);
        return false;
      }
      connection.state = State::head;
      set_deadline(connection, bounds_.head_ms);
      return true;
    case State::head: return read_next_head(connection);
    case State::body: return take_body(connection);
    case State::busy:
    case State::parked:
    case State::streaming:
    case State::writing:
    case State::lingering: return false;
  }
  return false;
}

bool Reactor::read_next_head(Connection& connection) {
  std::size_t used = 0;
  Reading reading = read_head(connection.in, used);
  if (std::holds_alternative<NeedMore>(reading)) {
    watch(connection, kListens);
    return false;
  }
  if (const auto* refused = std::get_if<Refused>(&reading)) {
    refuse(connection, desk_.refusal(refused->status, refused->code, refused->detail), false);
    return false;
  }
  connection.head = std::get<Head>(std::move(reading));
  connection.in.erase(0, used);
  if (const auto refused = judge(connection.head, rules_[connection.listener])) {
    refuse(connection, desk_.refusal(refused->status, refused->code, refused->detail), false);
    return false;
  }
  if (auto answer = desk_.receive(connection)) {
    // Its body, if it has one, stays unread: nothing can follow on this connection.
    const bool keep = connection.head.keep_alive && connection.head.content_length == 0 && !stopping_;
    const int fd = connection.fd.get();
    refuse(connection, std::move(*answer), keep);
    return all_.count(fd) != 0;
  }
  connection.state = State::body;
  set_deadline(connection, bounds_.body_ms);
  if (connection.head.expects_continue && connection.in.size() < connection.head.content_length) {
    connection.out = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!flush(connection)) {  // 25 bytes into an empty buffer: whoever has no room for them is not reading
      close(connection);
      return false;
    }
  }
  return true;
}

// What is announced costs nothing: only what came counts, each listener for itself. False: it is too much for all.
bool Reactor::claim(Connection& connection, std::size_t bytes) {
  std::size_t& all = bodies_[connection.listener];
  all += bytes - connection.claimed;
  connection.claimed = bytes;
  return all <= limits::kBodiesBytes;
}

bool Reactor::take_body(Connection& connection) {
  const std::size_t length = connection.head.content_length;
  if (!claim(connection, std::min(length, connection.in.size()))) {
    refuse(connection, busy(), false);
    return false;
  }
  if (connection.in.size() < length) {
    watch(connection, kListens);
    return false;
  }
  connection.body = connection.in.substr(0, length);
  connection.in.erase(0, length);
  set_deadline(connection, 0);
  connection.stop = std::stop_source();
  connection.hung_up.store(false);
  connection.state = State::busy;
  if (connection.interest != kListens) watch(connection, EPOLLRDHUP);
  if (desk_.hand_over(connection)) return false;
  refuse(connection, busy(), false);
  return false;
}

Response Reactor::busy() { return desk_.refusal(503, "busy", "this agent has as many requests in hand as it takes"); }

void Reactor::refuse(Connection& connection, Response&& response, bool keep_alive) {
  write_answer(connection, std::move(response), clock_.wall_ms(), connection.head.method == "HEAD", keep_alive);
  connection.linger_after = !keep_alive;
  connection.state = State::writing;
  set_deadline(connection, bounds_.write_ms);
  write_on(connection);
}

// A pool thread gave it back.
void Reactor::resume(Connection& connection) {
  connection.body.clear();
  (void)claim(connection, 0);
  if (connection.after == Response::After::stay_open && !stopping_ && !connection.stop.stop_requested()) {
    connection.state = State::parked;
    watch(connection, EPOLLRDHUP);
    return;
  }
  if (connection.after == Response::After::stream && !stopping_ && !connection.broken &&
      !connection.stop.stop_requested()) {
    begin_stream(connection);
    return;
  }
  if (connection.after != Response::After::answer || connection.broken) {
    close(connection);
    return;
  }
  connection.state = State::writing;
  if (!connection.out.empty() || connection.file) {
    set_deadline(connection, stopping_ ? kStopWriteMs : bounds_.write_ms);
  }
  go_on(connection);
}

// Writes, and takes up what was pipelined once all is written.
void Reactor::go_on(Connection& connection) {
  const int fd = connection.fd.get();
  write_on(connection);
  if (all_.count(fd) != 0) advance(connection);
}

void Reactor::write_on(Connection& connection) {
  if (flush(connection)) {
    after_answer(connection);
  } else if (connection.broken) {
    close(connection);
  } else {
    watch(connection, EPOLLOUT);
  }
}

void Reactor::after_answer(Connection& connection) {
  if (connection.close_after || stopping_) {
    if (connection.linger_after && !stopping_) {
      linger(connection);
    } else {
      close(connection);
    }
    return;
  }
  connection.head = Head{};
  connection.matched = Matched{};
  connection.principal = Principal{};
  connection.state = State::idle;
  set_deadline(connection, bounds_.idle_ms);
}

// A socket that is closed with unread bytes in it resets the connection, and the client never reads the refusal.
void Reactor::linger(Connection& connection) {
  (void)claim(connection, 0);
  ::shutdown(connection.fd.get(), SHUT_WR);
  connection.state = State::lingering;
  connection.in.clear();
  connection.in.shrink_to_fit();
  set_deadline(connection, bounds_.linger_ms);
  watch(connection, EPOLLIN);
}

void Reactor::discard(Connection& connection) {
  std::array<char, kReadChunk> chunk;
  const ssize_t got = ::recv(connection.fd.get(), chunk.data(), chunk.size(), 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  connection.discarded += got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got <= 0 || connection.discarded > kDiscardBytes) close(connection);
}

void Reactor::close(Connection& connection) {
  const int fd = connection.fd.get();
  if (connection.deadline != 0) deadlines_.erase({connection.deadline, fd});
  if (connection.state == State::streaming) streams_.erase(fd);
  --open_[connection.listener];
  (void)claim(connection, 0);
  all_.erase(fd);
  count_.store(all_.size(), std::memory_order_relaxed);
}

void Reactor::begin_stop() {
  stopping_ = true;
  watch_listeners(false);
  listen_again_ = 0;
  std::vector<Connection*> everyone;
  for (const auto& [fd, connection] : all_) everyone.push_back(connection.get());
  for (Connection* connection : everyone) {
    switch (connection->state) {
      case State::busy: connection->stop.request_stop(); break;
      case State::writing: set_deadline(*connection, kStopWriteMs); break;
      case State::idle:
      case State::head:
      case State::body:
      case State::parked:
      case State::streaming:
      case State::lingering: close(*connection); break;
    }
  }
}

void Reactor::expire(BootMs now) {
  if (listen_again_ != 0 && listen_again_ <= now && !stopping_) {
    listen_again_ = 0;
    watch_listeners(true);
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Connection& connection = *all_.at(deadlines_.begin()->second);
    const bool late = connection.state == State::head || connection.state == State::body;
    if (connection.state == State::streaming) {
      expire_stream(connection);
    } else if (late) {
      refuse(connection, desk_.refusal(408, "request_timeout", "the request did not come in time"), false);
    } else {
      close(connection);
    }
  }
}

}  // namespace bide::web
