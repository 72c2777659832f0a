// The table of routes: method and path pattern → handler. "/v1/runs/{id}/journal" captures one whole segment as `id`.
// Filled while the agent is wired together, then constant: any thread may ask.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "web/request.h"

namespace bide::web {

using Handler = std::function<Response(Request&)>;

// Which threads a route's requests run on. Those that wait are counted apart, so that they never starve the others.
enum class Lane {
  shorts,     // answers in the time of a commit
  acts,       // of a verb that holds a slot others wait for: answers in the time of a commit, or a full disk's
  waits,      // of a verb: may stay open for long
  preferred,  // of a reader: as long as `Prefer: wait=…` says
  health,     // keeps its own threads: answers when everything else is full
};

struct Route {
  std::string method;
  std::string pattern;
  Handler handler;
  Scope scope = kAdmin;
  Lane lane = Lane::shorts;
  bool open = false;     // true: no credential is asked for
  bool by_step = false;  // a step's command may too: the handler sees to it that it does nothing twice
  std::size_t body_bytes = limits::kDocumentBytes + limits::kEnvelopeBytes;
  std::vector<std::string> segments;
};

struct Matched {
  const Route* route = nullptr;
  std::vector<std::pair<std::string, std::string>> captures;
};
struct NoSuchPath {};
struct NoSuchMethod {
  std::string allow;  // "GET, HEAD, OPTIONS"
};

class Router {
 public:
  void get(std::string pattern, Scope scope, Handler handler, Lane lane = Lane::shorts);
  void post(std::string pattern, Scope scope, Handler handler, Lane lane = Lane::shorts);
  void del(std::string pattern, Scope scope, Handler handler);
  // Without a credential: the page's files, health, the meaning of errors.
  void open(std::string pattern, Handler handler, Lane lane = Lane::shorts);
  void open_post(std::string pattern, Handler handler);
  // A program's verb or an attempt's app: may stay open, and hands in outputs.
  void verb(std::string method, std::string pattern, Handler handler, Lane lane = Lane::waits);
  void add(Route route);
  // Puts something around a route's handler, if there is such a route.
  void wrap(std::string_view method, std::string_view pattern, const std::function<Handler(Handler)>& around);

  // `path` as sent. A segment that does not decode to UTF-8 matches nothing. HEAD finds GET's routes.
  [[nodiscard]] std::variant<Matched, NoSuchPath, NoSuchMethod> match(std::string_view method,
                                                                      std::string_view path) const;
  // Methods of a path, with HEAD and OPTIONS; empty if there is no such path.
  [[nodiscard]] std::string allow(std::string_view path) const;
  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }
  // Asked before each handler of a route that is added from here on and takes a body; its answer goes out instead.
  void set_guard(std::function<std::optional<Response>(Request&)> guard) { guard_ = std::move(guard); }

 private:
  std::function<std::optional<Response>(Request&)> guard_;
  std::vector<Route> routes_;
};

}  // namespace bide::web
