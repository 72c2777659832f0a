#include "tests/support/sink.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <stdexcept>

#include "agent/base/text.h"

namespace bide::test {

std::string Sink::Request::field(const std::string& name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return {};
}

Sink::Reply Sink::status(int code, const std::string& fields) {
  Reply reply;
  reply.bytes = "HTTP/1.1 " + std::to_string(code) + " So\r\nContent-Length: 0\r\n" + fields + "\r\n";
  return reply;
}

Sink::Reply Sink::act(Reply::Act what) {
  Reply reply;
  reply.act = what;
  return reply;
}

Sink::Sink(Script script) : Sink(Down{}) {
  this->script(std::move(script));
  open();
}

Sink::Sink(Down) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), end_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("sink: no port");
  port_ = ntohs(address.sin_port);
}

void Sink::open() {
  if (::listen(listener_.get(), 512) != 0) throw std::runtime_error("sink: cannot listen");
  acceptor_ = std::jthread([this] { accept_loop(); });
}

Sink::~Sink() {
  const std::uint64_t one = 1;
  (void)!::write(end_.get(), &one, sizeof one);
  if (acceptor_.joinable()) acceptor_.join();
  std::vector<Serving> threads;
  {
    Lock lock(mutex_);
    threads.swap(threads_);
  }
  threads.clear();
}

void Sink::script(Script next) {
  Lock lock(mutex_);
  script_ = std::move(next);
}

std::vector<Sink::Request> Sink::requests() const {
  Lock lock(mutex_);
  return requests_;
}

Sink::Request Sink::last() const {
  Lock lock(mutex_);
  return requests_.empty() ? Request{} : requests_.back();
}

std::size_t Sink::count() const {
  Lock lock(mutex_);
  return requests_.size();
}

int Sink::most_at_once() const {
  Lock lock(mutex_);
  return most_;
}

void Sink::take_in_hand(int fd) {
  in_hand_.push_back(fd);
  const auto goes_on = [](int one) {
    pollfd closed{one, POLLRDHUP, 0};
    return ::poll(&closed, 1, 0) == 0;
  };
  most_ = std::max(most_, static_cast<int>(std::count_if(in_hand_.begin(), in_hand_.end(), goes_on)));
}

void Sink::let_go(int fd) {
  Lock lock(mutex_);
  std::erase(in_hand_, fd);
}

bool Sink::wait(int fd, short events, std::chrono::milliseconds longest) const {
  pollfd fds[] = {{fd, events, 0}, {end_.get(), POLLIN, 0}};
  const int ready = ::poll(fds, 2, static_cast<int>(longest.count()));
  return ready > 0 && fds[1].revents == 0;
}

void Sink::accept_loop() {
  while (wait(listener_.get(), POLLIN, std::chrono::milliseconds(-1))) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++connections_;
    Lock lock(mutex_);
    // Those that are over are joined now and then: a storm has more connections than a process may have threads.
    if (threads_.size() >= 256) std::erase_if(threads_, [](const Serving& one) { return one.over->load(); });
    auto over = std::make_shared<std::atomic<bool>>(false);
    threads_.push_back({over, std::jthread([this, fd, over] {
                          serve(fd);
                          over->store(true);
                        })});
  }
}

void Sink::serve(int raw) {
  const Fd fd(raw);
  struct LetGo {  // before it is closed
    Sink& sink;
    int fd;
    ~LetGo() { sink.let_go(fd); }
  } over{*this, raw};
  constexpr std::chrono::milliseconds kPatience{60'000};
  std::string bytes;
  const auto more = [&] {
    char buffer[65'536];
    if (!wait(fd.get(), POLLIN, kPatience)) return false;
    const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (got > 0) bytes.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  };
  std::size_t head = std::string::npos;
  while ((head = bytes.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return;
  }
  Request request;
  request.line = bytes.substr(0, bytes.find("\r\n"));
  for (std::size_t at = bytes.find("\r\n") + 2; at < head + 2;) {
    const std::size_t end = bytes.find("\r\n", at);
    const std::string line = bytes.substr(at, end - at);
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos)
      request.fields.emplace_back(lower(line.substr(0, colon)), std::string(trim(line.substr(colon + 1))));
    at = end + 2;
  }
  const auto length = static_cast<std::size_t>(parse_number(request.field("content-length")).value_or(0));
  while (bytes.size() < head + 4 + length) {
    if (!more()) return;
  }
  request.body = bytes.substr(head + 4, length);
  Reply reply;
  {
    Lock lock(mutex_);
    requests_.push_back(request);
    take_in_hand(fd.get());
    if (script_) reply = script_(request, static_cast<int>(requests_.size()));
  }
  if (reply.after.count() > 0) {
    pollfd end{end_.get(), POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(reply.after.count())) > 0) return;
  }
  switch (reply.act) {
    case Reply::Act::send:
      (void)!::send(fd.get(), reply.bytes.data(), reply.bytes.size(), MSG_NOSIGNAL);
      (void)::shutdown(fd.get(), SHUT_WR);
      while (more()) {
      }
      return;
    case Reply::Act::reset: {
      const linger now{1, 0};
      (void)::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
      return;
    }
    case Reply::Act::hang:
      while (more()) {
      }
      return;
    case Reply::Act::drip:
      for (const char c : reply.bytes) {
        if (::send(fd.get(), &c, 1, MSG_NOSIGNAL) != 1) return;
        // Until the sender has given up, too: it may have begun another request by then.
        pollfd fds[] = {{end_.get(), POLLIN, 0}, {fd.get(), POLLRDHUP, 0}};
        if (::poll(fds, 2, static_cast<int>(reply.every.count())) > 0) return;
      }
      return;
  }
}

}  // namespace bide::test
