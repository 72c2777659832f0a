#include "agent/verb/agent_client.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "agent/base/fd.h"
#include "agent/base/text.h"

namespace bide::verb {
namespace {

// An answer is a document of at most 1 MiB in base64 and JSON escapes; more is not ours.
constexpr std::size_t kLargestAnswer = 16 << 20;

Fd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return Fd();
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINTR) return Fd();
  }
  return fd;
}

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// False: end of file or an error.
bool receive_more(int fd, std::string& into) {
  char buffer[16 * 1024];
  ssize_t n = 0;
  while ((n = ::recv(fd, buffer, sizeof buffer, 0)) < 0 && errno == EINTR) {
  }
  if (n <= 0 || into.size() > kLargestAnswer) return false;
  into.append(buffer, static_cast<std::size_t>(n));
  return true;
}

// The value of a header field in a head of lines that end with CR LF; nullopt: not there.
std::optional<std::string> field(std::string_view head, std::string_view name) {
  for (auto at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at + 2)) {
    const auto line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    const auto colon = line.find(':');
    if (colon != std::string_view::npos && lower(line.substr(0, colon)) == name) {
      return std::string(trim(line.substr(colon + 1)));
    }
  }
  return std::nullopt;
}

std::optional<AgentReply> read_reply(int fd) {
  std::string text;
  std::size_t head_end = std::string::npos;
  while ((head_end = text.find("\r\n\r\n")) == std::string::npos) {
    if (!receive_more(fd, text)) return std::nullopt;
  }
  const std::string_view head = std::string_view(text).substr(0, head_end + 2);
  if (!head.starts_with("HTTP/1.") || head.size() < 12) return std::nullopt;
  const auto status = parse_number(head.substr(9, 3));
  const auto length = parse_number(field(head, "content-length").value_or(""));
  if (!status || !length) return std::nullopt;
  const std::size_t whole = head_end + 4 + static_cast<std::size_t>(*length);
  while (text.size() < whole) {
    if (!receive_more(fd, text)) return std::nullopt;
  }
  return AgentReply{static_cast<int>(*status), text.substr(head_end + 4, static_cast<std::size_t>(*length))};
}

}  // namespace

std::optional<AgentReply> ask_agent(const std::string& socket_path, std::string_view method, std::string_view path,
                                    std::string_view token, std::string_view body, bool has_read) {
  const Fd fd = connect_to(socket_path);
  if (!fd.valid()) return std::nullopt;
  std::string request;
  request.reserve(256 + body.size());
  request.append(method).append(" ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ");
  request.append(token).append("\r\nConnection: close\r\n");
  if (has_read) request.append("Bide-Read: true\r\n");
  if (method != "GET") {
    request.append("Content-Type: application/json\r\nContent-Length: ")
        .append(std::to_string(body.size()))
        .append("\r\n");
  }
  request.append("\r\n").append(body);
  if (!send_all(fd.get(), request)) return std::nullopt;
  return read_reply(fd.get());
}

}  // namespace bide::verb
