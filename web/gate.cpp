#include "web/gate.h"

#include <algorithm>
#include <array>
#include <limits>

#include "agent/base/text.h"

namespace bide::web {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::size_t kMethodBytes = 16;

Refused bad(std::string detail) { return {400, "bad_request", std::move(detail)}; }

// RFC 9110 5.6.2.
bool is_token_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_token(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char); }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

// A %XX that stands for a control character: somebody behind us might decode it, and then it ends a line.
bool hides_control(std::string_view text) {
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    if (at + 2 >= text.size()) return false;
    const int high = hex_value(text[at + 1]);
    const int low = hex_value(text[at + 2]);
    if (high >= 0 && low >= 0 && is_control(static_cast<unsigned char>(high * 16 + low))) return true;
  }
  return false;
}

// Every '%' has two hexadecimal digits after it.
bool well_encoded(std::string_view text) {
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    if (at + 2 >= text.size() || hex_value(text[at + 1]) < 0 || hex_value(text[at + 2]) < 0) return false;
  }
  return true;
}

bool visible_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

// RFC 9112 3.2: origin form, absolute form (its authority takes the place of Host), or "*" with OPTIONS.
std::optional<Refused> read_target(std::string_view target, Head& head) {
  if (target.empty() || !visible_ascii(target)) return bad("the request target holds characters that must be encoded");
  if (target.find('#') != std::string_view::npos) return bad("the request target holds a fragment");
  if (target == "*") {
    if (head.method != "OPTIONS") return bad("the target * is for OPTIONS only");
    head.path = "*";
    return std::nullopt;
  }
  if (target.front() != '/') {
    constexpr std::string_view kScheme = "http://";
    if (lower(target.substr(0, kScheme.size())) != kScheme) return bad("the request target must begin with /");
    target.remove_prefix(kScheme.size());
    const std::size_t slash = std::min(target.find_first_of("/?"), target.size());
    head.authority = lower(target.substr(0, slash));
    target.remove_prefix(slash);
    if (head.authority.empty()) return bad("the request target names no host");
  }
  const std::size_t mark = target.find('?');
  head.path = target.substr(0, mark);
  if (head.path.empty()) head.path = "/";
  if (mark != std::string_view::npos) head.query = target.substr(mark + 1);
  if (!well_encoded(head.path) || !well_encoded(head.query)) return bad("a % in the target lacks its two digits");
  if (hides_control(head.path)) return bad("the target's path holds an encoded control character");
  return std::nullopt;
}

std::optional<Refused> read_request_line(std::string_view line, Head& head) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return bad("the request line is not METHOD TARGET VERSION");
  const std::string_view method = line.substr(0, first);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || method.size() > kMethodBytes) return bad("the method is not a token");
  if (version.substr(0, 5) != "HTTP/") return bad("the request line does not end with a version");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return Refused{505, "http_version", "this agent speaks HTTP/1.1"};
  }
  head.method = method;
  head.keep_alive = version == "HTTP/1.1";
  return read_target(line.substr(first + 1, last - first - 1), head);
}

std::optional<Refused> read_field(std::string_view line, Head& head) {
  if (line.front() == ' ' || line.front() == '\t') return bad("a header field is folded over two lines");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bad("a header line has no colon");
  const std::string_view name = line.substr(0, colon);
  if (!is_token(name)) return bad("a header name holds characters that are not allowed");
  const std::string_view value = trim(line.substr(colon + 1));
  const bool clean = std::all_of(value.begin(), value.end(),
                                 [](char c) { return c == '\t' || !is_control(static_cast<unsigned char>(c)); });
  if (!clean || hides_control(value)) return bad("a header value holds a control character, plain or encoded");
  std::string small = lower(name);
  // What a CGI-like layer would set itself: whoever sends it wants to be somebody else.
  if (small.rfind("remote_", 0) == 0 || small.rfind("local_", 0) == 0) {
    return bad("header names that begin with REMOTE_ or LOCAL_ are not taken from clients");
  }
  head.fields.push_back({std::move(small), std::string(value)});
  return std::nullopt;
}

bool has_list_member(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (lower(trim(list.substr(0, comma))) == wanted) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::optional<Refused> read_length(const std::string& text, Head& head) {
  if (text.empty() || text.size() > 18) return bad("Content-Length is not a number");
  std::size_t length = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return bad("Content-Length is not a number");
    length = length * 10 + static_cast<std::size_t>(c - '0');
  }
  head.content_length = length;
  head.has_length = true;
  return std::nullopt;
}

// Fields that would mean two things if they were there twice.
constexpr std::array<std::string_view, 7> kOnce = {"host",         "content-length", "authorization", "origin",
                                                   "content-type", "expect",         "cookie"};

std::optional<Refused> check_once(const Head& head) {
  for (const std::string_view name : kOnce) {
    const auto seen = std::count_if(head.fields.begin(), head.fields.end(),
                                    [name](const Field& field) { return field.name == name; });
    if (seen > 1) return bad("the header field " + std::string(name) + " is there " + std::to_string(seen) + " times");
  }
  return std::nullopt;
}

// Whose request it is and where it ends: what smuggling plays with.
std::optional<Refused> read_framing(Head& head) {
  if (auto refused = check_once(head)) return refused;
  const std::string* host = head.field("host");
  if (host == nullptr || host->empty()) return bad("the header field Host is missing");
  if (!visible_ascii(*host)) return bad("Host is not a host");
  if (head.authority.empty()) {
    head.authority = lower(*host);
  } else if (head.authority != lower(*host)) {
    return bad("Host and the request target name two hosts");
  }
  const std::string* length = head.field("content-length");
  if (head.field("transfer-encoding") != nullptr) {
    if (length != nullptr) return bad("both Content-Length and Transfer-Encoding are there");
    return Refused{411, "length_required", "send a Content-Length; transfer codings are not read"};
  }
  if (length != nullptr) {
    if (auto refused = read_length(*length, head)) return refused;
  }
  if (head.field("range") != nullptr) return bad("ranges are not served: ask without Range");
  if (const std::string* expect = head.field("expect")) {
    if (lower(*expect) != "100-continue") return Refused{417, "expectation_failed", "only 100-continue is understood"};
    head.expects_continue = true;
  }
  if (const std::string* connection = head.field("connection")) {
    if (has_list_member(*connection, "close")) {
      head.keep_alive = false;
    } else if (has_list_member(*connection, "keep-alive")) {
      head.keep_alive = true;
    }
  }
  return std::nullopt;
}

Refused too_large() {
  return {431, "headers_too_large",
          "a request's head may have " + std::to_string(limits::kHeadFields) + " fields and " +
              std::to_string(limits::kHeadBytes) + " bytes"};
}

// A line feed alone ends a line for some parsers and not for others; so do a carriage return alone and a NUL.
std::optional<Refused> check_line_ends(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char c = bytes[at];
    if (c == '\n' && (at == 0 || bytes[at - 1] != '\r')) return bad("a line ends without a carriage return");
    if (c == '\r' && at + 1 < bytes.size() && bytes[at + 1] != '\n') return bad("a carriage return stands alone");
    if (c == '\0') return bad("the head holds a zero byte");
  }
  return std::nullopt;
}

bool is_ours(std::string_view authority, const GateRules& rules) {
  std::string_view name = authority;
  if (rules.any_port) {
    const std::size_t colon = authority.rfind(':');
    const std::string_view port = colon == std::string_view::npos ? "" : authority.substr(colon + 1);
    const bool digits =
        port.size() <= 5 && std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (colon != std::string_view::npos && digits) name = authority.substr(0, colon);
  }
  return std::any_of(rules.hosts.begin(), rules.hosts.end(), [name](const std::string& host) { return host == name; });
}

bool is_json(std::string_view content_type) {
  const std::size_t semicolon = std::min(content_type.find(';'), content_type.size());
  return lower(trim(content_type.substr(0, semicolon))) == "application/json";
}

}  // namespace

const std::string* Head::field(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

bool is_safe_method(std::string_view method) { return method == "GET" || method == "HEAD" || method == "OPTIONS"; }

Reading read_head(std::string_view bytes, std::size_t& used) {
  // RFC 9112 2.2: one empty line before the request line is let pass.
  const std::size_t skipped = bytes.substr(0, 2) == kLineEnd ? 2 : 0;
  bytes.remove_prefix(skipped);
  const std::size_t end = bytes.find("\r\n\r\n");
  // With the empty line: a carriage return before it must be seen to stand alone.
  const std::size_t whole = end == std::string_view::npos ? bytes.size() : end + 4;
  const std::string_view seen = bytes.substr(0, std::min(whole, limits::kHeadBytes));
  if (auto refused = check_line_ends(seen)) return *refused;
  if (end == std::string_view::npos) {
    if (bytes.size() > limits::kHeadBytes) return too_large();
    return NeedMore{};
  }
  if (end + 4 > limits::kHeadBytes) return too_large();
  used = skipped + end + 4;

  Head head;
  std::string_view rest = bytes.substr(0, end + 2);
  bool first = true;
  while (!rest.empty()) {
    const std::size_t stop = rest.find(kLineEnd);
    const std::string_view line = rest.substr(0, stop);
    rest.remove_prefix(stop + 2);
    if (first) {
      if (auto refused = read_request_line(line, head)) return *refused;
      first = false;
      continue;
    }
    if (head.fields.size() == limits::kHeadFields) return too_large();
    if (auto refused = read_field(line, head)) return *refused;
  }
  if (auto refused = read_framing(head)) return *refused;
  return head;
}

std::optional<Refused> judge(const Head& head, const GateRules& rules) {
  if (!is_ours(head.authority, rules)) {
    return Refused{421, "foreign_host", "the Host of this request is not one that this agent serves"};
  }
  if (const std::string* origin = head.field("origin")) {
    constexpr std::string_view kScheme = "http://";
    const std::string small = lower(*origin);
    const bool http = small.rfind(kScheme, 0) == 0;
    if (!rules.origins || !http || !is_ours(std::string_view(small).substr(kScheme.size()), rules)) {
      return Refused{403, "foreign_origin", "the Origin of this request is not this agent's page"};
    }
  }
  if (head.field("content-encoding") != nullptr) {
    return Refused{415, "unsupported_media_type", "send the body as it is, without Content-Encoding"};
  }
  if (is_safe_method(head.method)) {
    if (head.content_length > 0) return bad(head.method + " must not have a body");
    return std::nullopt;
  }
  // A browser says where a request comes from, also when it leaves the Origin out; another port is another site's page.
  const std::string* site = head.field("sec-fetch-site");
  if (site != nullptr && *site != "same-origin" && *site != "none") {
    return Refused{403, "foreign_origin", "the browser says that this request is not of this agent's page"};
  }
  const bool may_be_empty = head.method == "DELETE";
  if (!head.has_length && !may_be_empty) return Refused{411, "length_required", "send a Content-Length"};
  const std::string* type = head.field("content-type");
  if ((type == nullptr && !(may_be_empty && head.content_length == 0)) || (type != nullptr && !is_json(*type))) {
    return Refused{415, "unsupported_media_type", "send the header Content-Type: application/json"};
  }
  if (head.content_length > rules.body_bytes) {
    return Refused{413, "too_large", "a body may have " + std::to_string(rules.body_bytes) + " bytes"};
  }
  return std::nullopt;
}

}  // namespace bide::web
