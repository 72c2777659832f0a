// What a handler gets and gives: our own types, so that no handler sees a socket or an HTTP package.
// A Request belongs to the pool thread that runs its handler; `stop` may be asked from any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/fd.h"
#include "agent/base/ids.h"
#include "web/gate.h"
#include "web/stream_source.h"

namespace bide::web {

// Who is at the other end, from the kernel.
struct Peer {
  bool unix_socket = false;
  pid_t pid = 0;  // of a Unix peer (SO_PEERCRED): the process that connected
  uid_t uid = 0;
  gid_t gid = 0;
  std::uint64_t pid_start = 0;  // when that process was started (ProcessKey); 0: it was gone when we accepted
  bool in_group = false;        // another's process, but its user is of the socket's group
};

// Scopes of a credential. admin stands for all of them but attempt.
enum Scope : unsigned {
  kNoScope = 0,
  kRead = 1,
  kStart = 2,
  kApprove = 4,
  kWork = 8,
  kAdmin = 16,
  kAttempt = 32,  // the routes below /v1/runs/{id}/attempt/, of its own run and epoch only
};

// Who asks. `name` is what stands in created_by and resolved_by: a token's name, or "uid:1000".
struct Principal {
  std::string name;
  unsigned scopes = kNoScope;
  std::optional<RunId> run;    // a process of an attempt: of this run
  std::int64_t epoch = 0;      // of an attempt token, as it says; the kernel compares it [K2]
  std::string attempt_secret;  // of an attempt token: whoever drives the attempt compares it
  std::int64_t step = 0;       // of a step's token: attempt_secret is the nonce of its execution
  bool by_cookie = false;      // the page
  std::string credential;      // sha256 of the token or cookie: whether it still holds [Auth::holds]

  [[nodiscard]] bool may(Scope scope) const {
    if (scope == kNoScope) return true;
    if ((scopes & kAdmin) != 0 && scope != kAttempt) return true;
    return (scopes & scope) != 0;
  }
  [[nodiscard]] bool is_attempt() const { return run.has_value(); }
  [[nodiscard]] bool is_step() const { return run.has_value() && step != 0; }
};

struct Request {
  std::string method;                                         // HEAD arrives as GET: the front leaves the body out
  std::string path;                                           // as sent, percent-encoded
  std::vector<std::pair<std::string, std::string>> captures;  // decoded
  std::vector<std::pair<std::string, std::string>> query;     // decoded
  std::vector<Field> fields;
  std::string body;
  Peer peer;
  Principal principal;
  std::stop_token stop;  // asked when the peer hung up or the agent closes: whoever waits returns then

  const std::atomic<bool>* hung_up = nullptr;  // of the connection; lives as long as the handler runs

  // The peer, and not we, ended it: a verb that was killed is another thing than an agent that closes.
  [[nodiscard]] bool peer_gone() const { return hung_up != nullptr && hung_up->load(); }
  // A captured {name}. Throws Bug if the route has none of that name.
  [[nodiscard]] const std::string& capture(std::string_view name) const;
  // A captured {name} as a positive number; nullopt: not one.
  [[nodiscard]] std::optional<std::int64_t> capture_id(std::string_view name) const;
  [[nodiscard]] const std::string* query_value(std::string_view name) const;
  [[nodiscard]] const std::string* field(std::string_view name) const;  // name in lower case
  // Milliseconds of `Prefer: wait=30` (RFC 7240), at most limits::kPreferWaitMs; 0: none asked for.
  [[nodiscard]] std::int64_t prefer_wait_ms() const;
};

// Bytes of a file, from `offset`: sent without being read into memory.
struct FileBytes {
  Fd fd;
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

struct Response {
  enum class After {
    answer,     // send it
    hang_up,    // close without an answer: the outcome is unknown [C4]
    stay_open,  // never answer, hold no thread: the connection ends with its peer or with us [V1]
    stream,     // a head, then what `stream` brings, until it is over: holds no thread
  };
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // none of those that the front writes itself
  std::string content_type = "application/json";
  std::string body;
  std::optional<FileBytes> file;  // takes the place of body
  std::unique_ptr<StreamSource> stream;
  After after = After::answer;
  // If there: what was asked goes on among those that wait. Called with the same request on a thread of theirs; its
  // response is the answer, and the rest of this one counts for nothing.
  std::function<Response(Request&)> rest;

  Response& with(std::string name, std::string value) & {
    headers.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  Response&& with(std::string name, std::string value) && {
    headers.emplace_back(std::move(name), std::move(value));
    return std::move(*this);
  }
};

[[nodiscard]] inline Response json_response(int status, std::string body) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}
[[nodiscard]] inline Response hang_up() {
  Response response;
  response.after = Response::After::hang_up;
  return response;
}
[[nodiscard]] inline Response stream_response(std::string content_type, std::unique_ptr<StreamSource> source) {
  Response response;
  response.content_type = std::move(content_type);
  response.after = Response::After::stream;
  response.stream = std::move(source);
  return response;
}
[[nodiscard]] inline Response stay_open() {
  Response response;
  response.after = Response::After::stay_open;
  return response;
}

// "a=1&b=%20" → pairs, decoded ('+' stays a plus). nullopt: a bad percent form or bytes that are not UTF-8.
[[nodiscard]] std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view text);

// The value of `wait` in a Prefer field, in ms, capped; 0 without one.
[[nodiscard]] std::int64_t prefer_wait_ms(std::string_view prefer);

}  // namespace bide::web
