#include "web/router.h"

#include <algorithm>

#include "agent/base/errors.h"
#include "agent/base/text.h"

namespace bide::web {
namespace {

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> segments;
  if (path.empty() || path.front() != '/') return segments;  // "*" is no path: it fits no route
  path.remove_prefix(1);
  while (true) {
    const std::size_t slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool is_capture(std::string_view segment) { return segment.size() > 2 && segment.front() == '{'; }

std::optional<std::string> decode(std::string_view segment) {
  auto text = percent_decode(segment);
  if (!text || text->empty() || invalid_utf8(*text) != std::string::npos) return std::nullopt;
  return text;
}

std::optional<std::vector<std::pair<std::string, std::string>>> fit(const Route& route,
                                                                    const std::vector<std::string_view>& path) {
  if (route.segments.size() != path.size()) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> captures;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::string& wanted = route.segments[i];
    if (!is_capture(wanted)) {
      if (wanted != path[i]) return std::nullopt;
      continue;
    }
    auto value = decode(path[i]);
    if (!value) return std::nullopt;
    captures.emplace_back(wanted.substr(1, wanted.size() - 2), std::move(*value));
  }
  return captures;
}

}  // namespace

void Router::add(Route route) {
  for (const std::string_view segment : split(route.pattern)) route.segments.emplace_back(segment);
  for (const Route& other : routes_) {
    if (other.method == route.method && other.pattern == route.pattern) throw Bug("two routes for " + route.pattern);
  }
  if (guard_ && route.method != "GET") {
    route.handler = [guard = guard_, inner = std::move(route.handler)](Request& request) {
      auto refused = guard(request);
      return refused ? std::move(*refused) : inner(request);
    };
  }
  routes_.push_back(std::move(route));
}

void Router::wrap(std::string_view method, std::string_view pattern, const std::function<Handler(Handler)>& around) {
  for (Route& route : routes_) {
    if (route.method == method && route.pattern == pattern) route.handler = around(std::move(route.handler));
  }
}

void Router::get(std::string pattern, Scope scope, Handler handler, Lane lane) {
  add({.method = "GET", .pattern = std::move(pattern), .handler = std::move(handler), .scope = scope, .lane = lane});
}
void Router::post(std::string pattern, Scope scope, Handler handler, Lane lane) {
  add({.method = "POST", .pattern = std::move(pattern), .handler = std::move(handler), .scope = scope, .lane = lane});
}
void Router::del(std::string pattern, Scope scope, Handler handler) {
  add({.method = "DELETE", .pattern = std::move(pattern), .handler = std::move(handler), .scope = scope});
}
void Router::open(std::string pattern, Handler handler, Lane lane) {
  add({.method = "GET", .pattern = std::move(pattern), .handler = std::move(handler), .lane = lane, .open = true});
}
void Router::open_post(std::string pattern, Handler handler) {
  add({.method = "POST",
       .pattern = std::move(pattern),
       .handler = std::move(handler),
       .open = true,
       .body_bytes = limits::kOpenBodyBytes});
}
void Router::verb(std::string method, std::string pattern, Handler handler, Lane lane) {
  add({.method = std::move(method),
       .pattern = std::move(pattern),
       .handler = std::move(handler),
       .scope = kAttempt,
       .lane = lane,
       .body_bytes = limits::kVerbBytes});
}

std::variant<Matched, NoSuchPath, NoSuchMethod> Router::match(std::string_view method, std::string_view path) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  const auto segments = split(path);
  Matched best;
  bool path_known = false;
  for (const Route& route : routes_) {
    auto captures = fit(route, segments);
    if (!captures) continue;
    path_known = true;
    if (route.method != wanted) continue;
    // A literal segment is nearer than a captured one.
    if (best.route == nullptr || captures->size() < best.captures.size()) best = {&route, std::move(*captures)};
  }
  if (best.route != nullptr) return best;
  if (path_known) return NoSuchMethod{allow(path)};
  return NoSuchPath{};
}

std::string Router::allow(std::string_view path) const {
  const auto segments = split(path);
  std::vector<std::string> methods;
  for (const Route& route : routes_) {
    if (!fit(route, segments)) continue;
    methods.push_back(route.method);
    if (route.method == "GET") methods.push_back("HEAD");
  }
  if (methods.empty()) return {};
  methods.push_back("OPTIONS");
  std::sort(methods.begin(), methods.end());
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  std::string text;
  for (const std::string& one : methods) text += (text.empty() ? "" : ", ") + one;
  return text;
}

}  // namespace bide::web
