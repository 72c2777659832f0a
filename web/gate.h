// The gate: bytes of a request's head in, a Head or a refusal out. Pure: no sockets, no clock, no HTTP package; any
// thread. It is stricter than RFC 9112 asks for, because what two parsers read differently is how requests are
// smuggled. Every refusal closes the connection; nothing of the body has been read by then. This is what is fuzzed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/limits.h"

namespace bide::web {

struct Field {
  std::string name;   // lower case
  std::string value;  // as sent, without the white space around it; never percent-decoded
};

struct Head {
  std::string method;     // as sent: methods are case-sensitive
  std::string path;       // the target's path, as sent (percent-encoded); begins with '/', or is "*"
  std::string query;      // without '?', as sent
  std::string authority;  // lower case: whom the request is for (Host, or the absolute form's)
  std::vector<Field> fields;
  std::size_t content_length = 0;
  bool has_length = false;
  bool keep_alive = true;
  bool expects_continue = false;

  // The value of a field that is there; nullptr without one. `name` in lower case.
  [[nodiscard]] const std::string* field(std::string_view name) const;
};

struct Refused {
  int status = 400;
  std::string code;    // one of problem.cpp's table
  std::string detail;  // what was wrong with it, without the bytes that the client sent
};
struct NeedMore {};

using Reading = std::variant<NeedMore, Refused, Head>;

// Reads one head from the front of `bytes`; `used` is then its length with the empty line. NeedMore: not all of it is
// there, and what is there is acceptable so far. Refuses with 431 beyond limits::kHeadBytes or kHeadFields.
// What is checked here needs no knowledge of who we are: form, framing (Content-Length, Transfer-Encoding), names.
[[nodiscard]] Reading read_head(std::string_view bytes, std::size_t& used);

// Who we are on the listener that a request came through.
struct GateRules {
  std::vector<std::string> hosts;  // lower case, with our port: "127.0.0.1:7433", "localhost:7433"
  bool any_port = false;           // a Unix socket: `hosts` are names, and a port after them means nothing
  bool origins = true;             // false: no Origin is ours (no page is served over a Unix socket)
  std::size_t body_bytes = limits::kDocumentBytes;  // [D5]
};

// Whether a request may go on to have its body read: Host ours (421), Origin ours if there (403), writes not from
// another site as the browser says (403), in JSON (415),
// length known (411) and small enough (413).
[[nodiscard]] std::optional<Refused> judge(const Head& head, const GateRules& rules);

// Methods that change nothing and have no body.
[[nodiscard]] bool is_safe_method(std::string_view method);

}  // namespace bide::web
