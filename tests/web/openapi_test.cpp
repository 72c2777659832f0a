// The API's document against the API: every route is in it and everything in it is a route, answers are as it says, and
// requests that are made from it meet no fault.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"
#include "tests/web/api_document.h"
#include "tests/web/front.h"
#include "web/auth.h"

using namespace bide;
using namespace bide::test;
using Json = nlohmann::json;

namespace {

std::string scope_of(const web::Route& route) {
  if (route.open) return "open";
  switch (route.scope) {
    case web::kNoScope: return "none";
    case web::kRead: return "read";
    case web::kStart: return "start";
    case web::kApprove: return "approve";
    case web::kWork: return "work";
    case web::kAdmin: return "admin";
    case web::kAttempt: return "attempt";
  }
  return "";
}

// The page's own files are no API.
bool is_page(const std::string& pattern) {
  return pattern == "/" || (pattern.find('.') != std::string::npos && pattern != "/openapi.json");
}

const char* const kSegments[] = {"1",
                                 "2",
                                 "3",
                                 "999",
                                 "0",
                                 "-1",
                                 "x",
                                 "9223372036854775807",
                                 "99999999999999999999",
                                 "a%20b",
                                 "go",
                                 "echo",
                                 "gate",
                                 "news",
                                 "%C3%A4",
                                 "admin",
                                 "..",
                                 "%2e",
                                 "run_not_found"};
const char* const kQueries[] = {"limit=1",
                                "limit=201",
                                "limit=x",
                                "cursor=1",
                                "cursor=-1",
                                "cursor=9223372036854775807",
                                "status=waiting",
                                "status=odd",
                                "workflow=gate",
                                "mission=m",
                                "label=a=b",
                                "kind=approval",
                                "run=1",
                                "run=x",
                                "inbox=true",
                                "verdict=accepted",
                                "head=1:ab",
                                "offset=10",
                                "offset=-1",
                                "x=%C3%A4",
                                "status=%00",
                                "by=admin",
                                "to=https://example.org"};

std::string target_of(const std::string& path, std::minstd_rand& chance) {
  std::string target;
  std::size_t at = 0;
  while (at < path.size()) {
    if (path[at] != '{') {
      target += path[at++];
      continue;
    }
    at = path.find('}', at) + 1;
    target += kSegments[chance() % std::size(kSegments)];
  }
  for (unsigned i = chance() % 3; i > 0; --i) {
    target +=
        (target.find('?') == std::string::npos ? "?" : "&") + std::string(kQueries[chance() % std::size(kQueries)]);
  }
  return target;
}

}  // namespace

TEST_CASE("[OpenAPI] every route is in the document, and everything in it is a route") {
  AgentFront front;
  std::set<std::string> routes;
  for (const web::Route& route : front.router().routes()) {
    if (is_page(route.pattern)) continue;
    const std::string name = route.method + " " + route.pattern;
    routes.insert(name);
    INFO(name);
    const auto* found = ApiDocument::get().find(route.method, route.pattern);
    REQUIRE(found != nullptr);
    CHECK(found->path == route.pattern);
    CHECK(found->scope == scope_of(route));
  }
  // What this front has no ports for stands in the document all the same.
  const std::set<std::string> elsewhere = {"/v1/environments", "/v1/outcomes"};
  std::set<std::string> ids;
  for (const auto& operation : ApiDocument::get().operations()) {
    const std::string name = operation.method + " " + operation.path;
    INFO(name);
    const std::string head = operation.path.substr(0, operation.path.find('/', 4));
    CHECK((routes.contains(name) || elsewhere.contains(head)));
    const Json parsed = Json::parse(operation.text);
    CHECK(ids.insert(parsed["operationId"].get<std::string>()).second);
    CHECK_FALSE(parsed["summary"].get<std::string>().empty());
    // Each place in the path has its parameter.
    for (std::size_t at = operation.path.find('{'); at != std::string::npos; at = operation.path.find('{', at + 1)) {
      const std::string place = operation.path.substr(at + 1, operation.path.find('}', at) - at - 1);
      bool described = false;
      for (const Json& one : parsed["parameters"]) described |= one["name"] == place && one["in"] == "path";
      CHECK(described);
    }
  }
  const HttpAnswer served = front.ask("GET", "/openapi.json");
  CHECK(served.status == 200);
  CHECK(Json::parse(served.body)["openapi"] == "3.1.0");
}

TEST_CASE("[OpenAPI] the answers of a run's life are as the document says") {
  AgentFront front;
  ApiDocument& document = ApiDocument::get();
  const auto ask = [&](const std::string& method, const std::string& target, const std::string& body = {}) {
    HttpAnswer answer = front.ask(method, target, body);
    const std::string wrong = document.check(method, target, answer);
    INFO(wrong);
    CHECK(wrong.empty());
    return answer;
  };
  const int before = document.checked();
  const HttpAnswer begun = ask("POST", "/v1/runs", R"({"workflow":"gate","mission":"m","labels":{"a":"b"}})");
  const std::string run = "/v1/runs/" + std::to_string(json::int_member(begun.body, "id").value());
  const std::string wait = std::to_string(front.wait_of(1));
  ask("GET", run);
  ask("GET", "/v1/runs?mission=m");
  ask("GET", "/v1/waits?status=pending");
  ask("GET", "/v1/waits/" + wait);
  ask("GET", run + "/explain");
  ask("POST", run + "/pause", "{}");
  ask("POST", run + "/resume", "{}");
  ask("POST", run + "/retry", "{}");
  ask("POST", run + "/signals/news", R"({"payload":1,"dedupe_key":"k"})");
  ask("POST", run + "/signals/news", R"({"payload":1,"dedupe_key":"k"})");
  ask("POST", "/v1/waits/" + wait + "/resolve", R"({"decision":"maybe"})");
  ask("POST", "/v1/waits/" + wait + "/resolve", R"({"decision":"approved"})");
  ask("POST", "/v1/waits/" + wait + "/resolve", R"({"decision":"denied"})");
  front.until(1, "completed");
  for (const char* rest : {"", "/journal", "/log", "/events", "/export", "/explain"}) ask("GET", run + rest);
  ask("POST", run + "/fork", R"({"from":0})");
  ask("POST", run + "/cancel", "{}");
  ask("DELETE", run);
  for (const char* target : {"/v1/events", "/v1/missions/m", "/v1/missions/none", "/v1/workflows", "/v1/workflows/gate",
                             "/v1/audit", "/v1/audit/verify", "/v1/info", "/v1/tokens", "/v1/session", "/healthz",
                             "/readyz", "/metrics", "/errors", "/errors/decided", "/openapi.json"}) {
    ask("GET", target);
  }
  ask("POST", "/v1/tokens", R"({"name":"t","scopes":"read"})");
  ask("POST", "/v1/tokens", R"({"name":"t","scopes":"odd"})");
  ask("DELETE", "/v1/tokens/t");
  ask("POST", "/v1/session/codes", "{}");
  ask("POST", "/v1/session", R"({"code":"x"})");
  ask("POST", "/v1/sweep", "{}");
  ask("GET", "/v1/drain");
  ask("POST", "/v1/drain", "{}");
  ask("POST", "/v1/drain", R"({"off":true})");
  ask("POST", "/v1/workflows/gate/check", "{}");
  ask("POST", "/v1/workflows/none/check", "{}");
  ask("POST", "/v1/runs/actions", R"({"action":"cancel","filter":{},"dry_run":true})");
  ask("POST", "/v1/missions/m/cancel", "{}");
  ask("POST", run + "/attempt/steps", "{}");
  CHECK(document.checked() - before >= 45);
}

TEST_CASE("[OpenAPI] requests that are made from the document meet no fault, and get what it describes") {
  AgentFront front;
  ApiDocument& document = ApiDocument::get();
  for (const char* workflow : {"gate", "echo", "ear"}) (void)front.start(workflow);
  front.until(1, "waiting");
  const char* wanted = std::getenv("BIDE_API_REQUESTS");
  const int requests = wanted == nullptr ? 1'000 : std::stoi(wanted);
  const unsigned seed = 20'261'130;
  std::minstd_rand chance(seed);
  HttpClient client = front.client();
  int understood = 0;
  for (int i = 0; i < requests; ++i) {
    const auto& operations = document.operations();
    const auto& operation = operations[chance() % operations.size()];
    const std::string target = target_of(operation.path, chance);
    const std::string body = document.make_body(operation, chance());
    std::string fields = chance() % 4 == 0 ? "Idempotency-Key: k" + std::to_string(chance() % 50) + "\r\n" : "";
    if (chance() % 10 == 0) fields += "If-Match: \"" + std::string(chance() % 2 == 0 ? 64 : 3, 'a') + "\"\r\n";
    INFO("request " << i << ": " << operation.method << " " << target << " " << body.substr(0, 500));
    HttpAnswer answer = client.ask(operation.method, target, body, fields);
    if (answer.status == 0) {  // a refusal closed the connection
      client = front.client();
      answer = client.ask(operation.method, target, body, fields);
    }
    const bool closing = answer.field("connection") != nullptr && *answer.field("connection") == "close";
    if (closing) client = front.client();
    const bool not_ready = operation.path == "/readyz";
    CHECK((answer.status >= 200 && (answer.status < 500 || (not_ready && answer.status == 503))));
    const std::string wrong = document.check(operation.method, target, answer);
    INFO(wrong);
    CHECK(wrong.empty());
    understood += answer.status < 300 ? 1 : 0;
  }
  CHECK(understood > requests / 10);  // they are not all refused at the door
  CHECK(front.ask("GET", "/healthz").status == 200);
}
