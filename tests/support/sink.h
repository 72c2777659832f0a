// Sink: a recording HTTP receiver on 127.0.0.1, byte by byte, that does what a script says: answers, resets after
// reading, hangs, drips, sends what it likes. A thread a connection; all are ended with it. The script is asked from
// these threads, one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/base/fd.h"
#include "agent/base/mutex.h"

namespace bide::test {

class Sink {
 public:
  struct Request {
    std::string line;                                         // "POST /hook HTTP/1.1"
    std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
    std::string body;
    [[nodiscard]] std::string field(const std::string& name) const;
  };
  struct Reply {
    enum class Act { send, reset, hang, drip };
    Act act = Act::send;
    std::string bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    std::chrono::milliseconds after{0};   // before it acts
    std::chrono::milliseconds every{50};  // drip: a byte each
  };
  using Script = std::function<Reply(const Request&, int nth)>;  // nth from 1, over all connections

  static Reply status(int code, const std::string& fields = {});
  static Reply act(Reply::Act what);

  explicit Sink(Script script = {});
  // Has its port and refuses connections until open().
  struct Down {};
  explicit Sink(Down);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void open();
  void script(Script next);
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url(const std::string& path = "/hook") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::vector<Request> requests() const;
  [[nodiscard]] Request last() const;
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] int connections() const { return connections_.load(); }
  // Most requests that were in hand at one time. One is over when its sender has closed the connection, not when this
  // receiver has found the time to see that.
  [[nodiscard]] int most_at_once() const;

 private:
  void accept_loop();
  void serve(int fd);
  void take_in_hand(int fd) REQUIRES(mutex_);
  void let_go(int fd);
  [[nodiscard]] bool wait(int fd, short events, std::chrono::milliseconds longest) const;  // false: time, or the end

  Fd listener_;
  Fd end_;
  int port_ = 0;
  std::atomic<int> connections_{0};
  mutable Mutex mutex_;
  Script script_ GUARDED_BY(mutex_);
  std::vector<Request> requests_ GUARDED_BY(mutex_);
  std::vector<int> in_hand_ GUARDED_BY(mutex_);  // connections whose request is whole
  int most_ GUARDED_BY(mutex_) = 0;
  struct Serving {
    std::shared_ptr<std::atomic<bool>> over;
    std::jthread thread;
  };
  std::vector<Serving> threads_ GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace bide::test
