// HttpClient: a raw socket that speaks HTTP/1.1 byte for byte: what is sent is exactly what the test says, good or bad.
// Answers are read one by one, so that pipelining and keep-alive can be seen. One thread. Throws std::runtime_error
// when it cannot connect.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/fd.h"

namespace bide::test {

struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::string body;

  [[nodiscard]] const std::string* field(std::string_view name) const;
};

class HttpClient {
 public:
  [[nodiscard]] static HttpClient tcp(int port);  // 127.0.0.1
  [[nodiscard]] static HttpClient unix_socket(const std::string& path);

  // False: the other end closed.
  bool send(std::string_view bytes);
  // nullopt: closed, or not whole within the time. `head_only`: an answer to HEAD.
  [[nodiscard]] std::optional<HttpAnswer> read(std::chrono::milliseconds within = std::chrono::seconds(20),
                                               bool head_only = false);
  // Sends and reads; an answer with status 0 if none came. Host and, with a body, the other fields are written for you.
  HttpAnswer ask(std::string_view method, std::string_view target, std::string_view body = {},
                 std::string_view more_fields = {});
  // True: the other end closed within the time (what it still sends is thrown away).
  [[nodiscard]] bool closed_within(std::chrono::milliseconds within);
  void half_close();
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  HttpClient(Fd fd, std::string host) : fd_(std::move(fd)), host_(std::move(host)) {}
  bool receive(std::chrono::milliseconds within);  // more bytes into buffer_; false: closed or late

  Fd fd_;
  std::string host_;
  std::string buffer_;
  bool closed_ = false;
};

}  // namespace bide::test
