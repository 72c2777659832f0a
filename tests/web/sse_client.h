// SseClient: reads server-sent events from a raw socket, message by message. One thread.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>

#include "agent/base/text.h"
#include "tests/support/http_client.h"

namespace bide::test {

struct SseMessage {
  std::string id;
  std::string event;  // empty: a plain message
  std::string data;
  bool comment = false;
};

class SseClient {
 public:
  // Sends the request; `fields`: further lines, each with its CR LF.
  SseClient(HttpClient client, const std::string& target, const std::string& fields = {},
            const std::string& host = "localhost")
      : client_(std::move(client)) {
    client_.send("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: text/event-stream\r\n" + fields +
                 "\r\n");
  }

  // The head of the answer; empty: none came.
  const std::string& head(std::chrono::milliseconds within = std::chrono::seconds(20)) {
    if (head_.empty()) {
      const auto text = until("\r\n\r\n", within);
      if (text) head_ = *text;
    }
    return head_;
  }
  [[nodiscard]] int status() { return head().size() > 12 ? std::stoi(head().substr(9, 3)) : 0; }
  // The next message; nullopt: closed, or none within the time.
  std::optional<SseMessage> next(std::chrono::milliseconds within = std::chrono::seconds(20)) {
    if (head(within).empty()) return std::nullopt;
    const auto block = until("\n\n", within);
    if (!block) return std::nullopt;
    SseMessage message;
    message.comment = block->front() == ':';
    std::size_t at = 0;
    while (at < block->size()) {
      const std::size_t end = std::min(block->find('\n', at), block->size());
      const std::string line = block->substr(at, end - at);
      at = end + 1;
      if (line.starts_with("id: ")) message.id = line.substr(4);
      if (line.starts_with("event: ")) message.event = line.substr(7);
      if (line.starts_with("data: ")) message.data += (message.data.empty() ? "" : "\n") + line.substr(6);
    }
    return message;
  }
  // What is there of the rest until the end of the connection; nullopt: it did not end within the time.
  std::optional<std::string> rest(std::chrono::milliseconds within = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + within;
    while (!closed_) {
      if (!receive(end)) return closed_ ? std::optional(buffer_) : std::nullopt;
    }
    return buffer_;
  }
  [[nodiscard]] bool closed_within(std::chrono::milliseconds within) { return rest(within).has_value(); }
  [[nodiscard]] int fd() const { return client_.fd(); }

 private:
  std::optional<std::string> until(const std::string& mark, std::chrono::milliseconds within) {
    const auto end = std::chrono::steady_clock::now() + within;
    std::size_t at = 0;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!receive(end)) return std::nullopt;
    }
    const std::string text = buffer_.substr(0, at);
    buffer_.erase(0, at + mark.size());
    return text;
  }
  bool receive(std::chrono::steady_clock::time_point end) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd asked{client_.fd(), POLLIN, 0};
    if (closed_ || left.count() <= 0 || ::poll(&asked, 1, static_cast<int>(left.count())) <= 0) return false;
    char bytes[65536];
    const ssize_t got = ::recv(client_.fd(), bytes, sizeof bytes, 0);
    if (got <= 0) {
      closed_ = true;
      return false;
    }
    buffer_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  HttpClient client_;
  std::string head_;
  std::string buffer_;
  bool closed_ = false;
};

}  // namespace bide::test
