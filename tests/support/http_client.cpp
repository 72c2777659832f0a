#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "agent/base/text.h"

namespace bide::test {
namespace {

using Moment = std::chrono::steady_clock::time_point;

Fd connected(int family, const sockaddr* address, socklen_t size) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), address, size) != 0) {
    throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
  }
  return fd;
}

HttpAnswer parse_head(std::string_view head) {
  HttpAnswer answer;
  std::size_t end = head.find("\r\n");
  const std::string_view line = head.substr(0, end);
  answer.status = static_cast<int>(parse_number(line.size() > 12 ? line.substr(9, 3) : "").value_or(0));
  while (end != std::string_view::npos) {
    head.remove_prefix(end + 2);
    end = head.find("\r\n");
    const std::string_view one = head.substr(0, end);
    const std::size_t colon = one.find(':');
    if (colon == std::string_view::npos) continue;
    answer.fields.emplace_back(lower(one.substr(0, colon)), std::string(trim(one.substr(colon + 1))));
  }
  return answer;
}

}  // namespace

const std::string* HttpAnswer::field(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

HttpClient HttpClient::tcp(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return HttpClient(connected(AF_INET, reinterpret_cast<const sockaddr*>(&address), sizeof address),
                    "127.0.0.1:" + std::to_string(port));
}

HttpClient HttpClient::unix_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("the path of the socket is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  return HttpClient(connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address), "localhost");
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool HttpClient::receive(std::chrono::milliseconds within) {
  pollfd waiting{fd_.get(), POLLIN, 0};
  if (closed_ || ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(within.count(), 0))) <= 0) return false;
  std::array<char, 65536> chunk;
  const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
  if (got <= 0) {
    closed_ = true;
    return false;
  }
  buffer_.append(chunk.data(), static_cast<std::size_t>(got));
  return true;
}

std::optional<HttpAnswer> HttpClient::read(std::chrono::milliseconds within, bool head_only) {
  const Moment end = std::chrono::steady_clock::now() + within;
  const auto left = [end] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  };
  std::size_t stop = 0;
  while ((stop = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!receive(left())) return std::nullopt;
  }
  HttpAnswer answer = parse_head(std::string_view(buffer_).substr(0, stop));
  buffer_.erase(0, stop + 4);
  const std::string* length = answer.field("content-length");
  if (head_only || length == nullptr) return answer;
  const auto wanted = static_cast<std::size_t>(parse_number(*length).value_or(0));
  while (buffer_.size() < wanted) {
    if (!receive(left())) return std::nullopt;
  }
  answer.body = buffer_.substr(0, wanted);
  buffer_.erase(0, wanted);
  return answer;
}

HttpAnswer HttpClient::ask(std::string_view method, std::string_view target, std::string_view body,
                           std::string_view more_fields) {
  std::string bytes(method);
  bytes.append(" ").append(target).append(" HTTP/1.1\r\nHost: ").append(host_).append("\r\n").append(more_fields);
  if (method != "GET" && method != "HEAD" && method != "OPTIONS") {
    bytes.append("Content-Type: application/json\r\nContent-Length: ")
        .append(std::to_string(body.size()))
        .append("\r\n");
  }
  bytes.append("\r\n").append(body);
  if (!send(bytes)) return {};
  return read(std::chrono::seconds(20), method == "HEAD").value_or(HttpAnswer{});
}

bool HttpClient::closed_within(std::chrono::milliseconds within) {
  const Moment end = std::chrono::steady_clock::now() + within;
  while (!closed_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    buffer_.clear();
    (void)receive(left);
  }
  return true;
}

void HttpClient::half_close() { ::shutdown(fd_.get(), SHUT_WR); }

}  // namespace bide::test
