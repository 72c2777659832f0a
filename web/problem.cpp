#include "web/problem.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits_api.h"
#include "agent/base/log.h"

namespace bide::web {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

namespace {

bool wants_html(const Request& request) {
  const std::string* accept = request.field("accept");
  return accept != nullptr && accept->find("text/html") != std::string::npos;
}

Response html(std::string_view title, const std::string& inside) {
  Response response;
  response.content_type = "text/html; charset=utf-8";
  response.body = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>bide: " + escape_html(title) +
                  "</title>\n<main>\n" + inside + "</main>\n</html>\n";
  return response;
}

void members(json::Writer& out, const ProblemKind& kind) {
  out.member("code", kind.code).member("status", kind.status).member("title", kind.title);
  out.member("meaning", kind.meaning).member("action", kind.action);
}

}  // namespace

const ProblemKind& problem_kind(std::string_view code) {
  const auto kinds = problem_kinds();
  const auto found =
      std::lower_bound(kinds.begin(), kinds.end(), code,
                       [](const ProblemKind& kind, std::string_view wanted) { return kind.code < wanted; });
  if (found != kinds.end() && found->code == code) return *found;
  if (code == "internal") throw Bug("the table of problems lost its last resort");
  log::error("http.unknown_problem_code", {{"code", code}});
  return problem_kind("internal");
}

Response problem_response(const Problem& problem) {
  const ProblemKind& kind = problem_kind(problem.code);
  json::Writer out;
  out.begin_object();
  out.member("type", "/errors/" + std::string(kind.code)).member("title", kind.title).member("status", kind.status);
  out.member("code", kind.code).member("detail", problem.detail);
  if (!problem.hint.empty()) out.member("hint", problem.hint);
  if (!problem.errors.empty()) {
    out.key("errors").begin_array();
    for (const PointerError& error : problem.errors) {
      out.begin_object().member("pointer", error.pointer).member("detail", error.detail).end_object();
    }
    out.end_array();
  }
  out.end_object();
  Response response = json_response(kind.status, out.take());
  response.content_type = "application/problem+json";
  if (!problem.extra.empty()) {
    response.body.pop_back();
    response.body.append(",").append(problem.extra).append("}");
  }
  if (kind.status == 401) response.with("WWW-Authenticate", "Bearer realm=\"bide\"");
  if (kind.status == 503) response.with("Retry-After", "1");
  if (kind.code == "too_many_failures") {
    response.with("Retry-After", std::to_string(limits::kWrongTokensMs / 1000));
  }
  return response;
}

Response problem_page(const Request& request) {
  const std::string& code = request.capture("code");
  const auto kinds = problem_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&code](const ProblemKind& kind) { return kind.code == code; });
  if (found == kinds.end()) return problem_response(problem("not_found", "there is no such error code", "GET /errors"));
  if (!wants_html(request)) {
    json::Writer out;
    out.begin_object();
    members(out, *found);
    out.end_object();
    return json_response(200, out.take());
  }
  const std::string head = std::to_string(found->status) + " " + std::string(found->title);
  return html(code, "<h1>" + escape_html(head) + "</h1>\n<p><code>" + escape_html(code) +
                        "</code></p>\n<h2>What it means</h2>\n<p>" + escape_html(found->meaning) +
                        "</p>\n<h2>What to do</h2>\n<p>" + escape_html(found->action) + "</p>\n");
}

Response problem_list(const Request& request) {
  if (wants_html(request)) {
    std::string rows;
    for (const ProblemKind& kind : problem_kinds()) {
      const std::string code = escape_html(kind.code);
      rows +=
          "<li><a href=\"/errors/" + code + "\"><code>" + code + "</code></a> " + escape_html(kind.title) + "</li>\n";
    }
    return html("errors", "<h1>Errors</h1>\n<ul>\n" + rows + "</ul>\n");
  }
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const ProblemKind& kind : problem_kinds()) {
    out.begin_object();
    members(out, kind);
    out.end_object();
  }
  out.end_array().member_raw("next", "null").end_object();
  return json_response(200, out.take());
}

}  // namespace bide::web
