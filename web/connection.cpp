#include "web/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/base/errors.h"

namespace bide::web {
namespace {

constexpr std::size_t kFileChunk = 64 * 1024;

std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 428: return "Precondition Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
  }
  return "Status";
}

// RFC 9110 5.6.7, from the civil date that format_time writes.
std::string http_date(TimeMs now) {
  constexpr std::array<std::string_view, 7> kDays = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"};
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::string text = format_time(now);  // 2026-11-29T14:38:12.020Z
  const auto month = static_cast<std::size_t>((text[5] - '0') * 10 + text[6] - '0' - 1);
  const auto day = static_cast<std::size_t>(now / 86'400'000 % 7);  // 1970-01-01 was a Thursday
  std::string date(kDays[day]);
  date.append(", ").append(text, 8, 2).append(" ").append(kMonths.at(month)).append(" ").append(text, 0, 4);
  return date.append(" ").append(text, 11, 8).append(" GMT");
}

// What no browser may do with an answer of ours. The page has no inline script and no foreign source.
constexpr std::string_view kSecurity =
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n"
    "X-Frame-Options: DENY\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; base-uri 'none'; object-src 'none'; "
    "form-action 'self'\r\n";

void append_header(std::string& out, std::string_view name, std::string_view value) {
  const auto bad = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(value.begin(), value.end(), bad)) throw Bug("a control character in the header " + std::string(name));
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

void write_answer(Connection& connection, Response&& response, TimeMs now, bool head_only, bool keep_alive) {
  std::string& out = connection.out;
  const bool bodiless = response.status == 204 || response.status == 304;
  const bool endless = response.after == Response::After::stream;
  if (endless) keep_alive = false;
  const std::size_t length = response.file ? static_cast<std::size_t>(response.file->length) : response.body.size();
  out.reserve(out.size() + 640 + (head_only ? 0 : response.body.size()));
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ").append(reason(response.status));
  out.append("\r\nDate: ").append(http_date(now)).append("\r\n");
  if (!bodiless) {
    append_header(out, "Content-Type", response.content_type);
    if (!endless) out.append("Content-Length: ").append(std::to_string(length)).append("\r\n");
  }
  out.append("Connection: ").append(keep_alive ? "keep-alive" : "close").append("\r\n").append(kSecurity);
  for (const auto& [name, value] : response.headers) append_header(out, name, value);
  out.append("\r\n");
  connection.close_after = !keep_alive;
  if (head_only || bodiless) return;
  if (endless) {
    connection.source = std::move(response.stream);
  } else if (response.file) {
    connection.file = std::move(response.file);
  } else {
    out.append(response.body);
  }
}

bool flush(Connection& connection) {
  while (!connection.broken) {
    if (connection.sent == connection.out.size()) {
      connection.out.clear();
      connection.sent = 0;
      if (!connection.file || connection.file->length == 0) {
        connection.file.reset();
        return true;
      }
      FileBytes& file = *connection.file;
      connection.out.resize(std::min(kFileChunk, static_cast<std::size_t>(file.length)));
      const ssize_t got = ::pread(file.fd.get(), connection.out.data(), connection.out.size(), file.offset);
      if (got <= 0) {  // shorter than was said: the client must not take it for whole
        connection.broken = true;
        return false;
      }
      connection.out.resize(static_cast<std::size_t>(got));
      file.offset += got;
      file.length -= got;
    }
    const ssize_t sent = ::send(connection.fd.get(), connection.out.data() + connection.sent,
                                connection.out.size() - connection.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) connection.broken = true;
      return false;
    }
    connection.sent += static_cast<std::size_t>(sent);
  }
  return false;
}

}  // namespace bide::web
