// What asvs.md lists and no other test checks: each route over TCP, as a browser or a program elsewhere meets it.
#include <catch2/catch.hpp>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/kernel/links.h"
#include "agent/kernel/webhooks.h"
#include "tests/web/agent_front.h"
#include "tests/web/api_document.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using Json = nlohmann::json;

namespace {

// A path of the route that names nothing which is there.
std::string path_of(const std::string& pattern) {
  std::string path;
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] != '{') {
      path += pattern[at++];
      continue;
    }
    const std::size_t end = pattern.find('}', at);
    path += pattern.substr(at, end - at) == "{id" ? "999" : "none";
    at = end + 1;
  }
  return path;
}
bool writes(const std::string& method) { return method != "GET" && method != "HEAD" && method != "OPTIONS"; }
// On a connection of its own: a refusal may end it.
HttpAnswer ask(const AgentFront& front, const std::string& method, const std::string& path, const std::string& fields) {
  HttpClient client = front.page();
  return client.ask(method, path, writes(method) ? "{}" : "", fields);
}
std::set<std::string> paths_of(const AgentFront& front) {
  std::set<std::string> paths;
  for (const web::Route& route : front.router().routes()) paths.insert(path_of(route.pattern));
  return paths;
}

// What is wrong with the type that an answer says it has; empty: nothing.
std::string wrong_type(const HttpAnswer& answer) {
  const std::string* type = answer.field("content-type");
  if (answer.body.empty()) return "";
  if (type == nullptr) return "a body without a type";
  if (*type == "application/json" || *type == "application/problem+json")
    return json::check(answer.body) ? "no JSON" : "";
  if (type->starts_with("text/html")) return answer.body.starts_with("<!doctype html>") ? "" : "no HTML";
  if (*type == "image/svg+xml") return answer.body.starts_with("<svg") ? "" : "no SVG";
  const bool text = type->starts_with("text/") || type->starts_with("application/openmetrics-text");
  if (!text) return "an unexpected type " + *type;
  return type->ends_with("; charset=utf-8") ? "" : "no charset in " + *type;
}
std::string wrong_headers(const HttpAnswer& answer) {
  static const std::map<std::string, std::string> kWanted = {{"x-content-type-options", "nosniff"},
                                                             {"referrer-policy", "no-referrer"},
                                                             {"cache-control", "no-store"},
                                                             {"x-frame-options", "DENY"}};
  for (const auto& [name, value] : kWanted) {
    const std::string* is = answer.field(name);
    if (is == nullptr || *is != value) return name + " is " + (is == nullptr ? "missing" : *is);
  }
  const std::string* policy = answer.field("content-security-policy");
  if (policy == nullptr) return "no content security policy";
  for (const char* part : {"default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"}) {
    if (policy->find(part) == std::string::npos) return std::string("the policy lacks ") + part;
  }
  for (const char* never : {"'unsafe-inline'", "'unsafe-eval'", "data:", "*"}) {
    if (policy->find(never) != std::string::npos) return std::string("the policy has ") + never;
  }
  for (const auto& [name, value] : answer.fields) {
    if (name.starts_with("access-control-")) return "it allows another origin: " + name;
  }
  return "";
}

}  // namespace

TEST_CASE("[ASVS] each answer of each route says what it is, and what a browser must not do with it") {
  AgentFront front;
  front.until(front.start("echo"), "completed");
  std::map<int, int> seen;
  for (const std::string& path : paths_of(front)) {
    for (const std::string& fields :
         {std::string(), Front::bearer(), Front::bearer() + "Origin: http://evil.example\r\n",
          Front::bearer() + "Accept: text/html\r\nOrigin: http://" + front.host() + "\r\n"}) {
      for (const char* method : {"GET", "POST"}) {
        const HttpAnswer answer = ask(front, method, path, fields);
        INFO(method << " " << path << " " << fields << "-> " << answer.status << " " << answer.body.substr(0, 200));
        REQUIRE(answer.status != 0);
        const std::string wrong = wrong_headers(answer) + wrong_type(answer);
        INFO(wrong);
        CHECK(wrong.empty());
        ++seen[answer.status];
      }
    }
  }
  // Of each kind there were some: what is there, what is refused, what is not found.
  for (const int status : {200, 401, 403, 404, 405, 422}) {
    INFO(status);
    CHECK(seen[status] > 0);
  }
}

TEST_CASE("[ASVS] a method that a path does not have is refused, TRACE and made-up ones on all") {
  AgentFront front;
  int refused = 0;
  for (const std::string& path : paths_of(front)) {
    const std::string allow = front.router().allow(path);
    for (const std::string method : {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "MADEUP"}) {
      if ((", " + allow + ",").find(", " + method + ",") != std::string::npos) continue;
      const HttpAnswer answer = ask(front, method, path, Front::bearer() + "X-Echo: canary\r\n");
      INFO(method << " " << path << " -> " << answer.status);
      CHECK(answer.status == 405);
      REQUIRE(answer.field("allow") != nullptr);
      CHECK(*answer.field("allow") == allow);
      CHECK(answer.body.find("canary") == std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > 300);
}

TEST_CASE("[ASVS] each route asks for its scope: another one is not enough, and no credential is nobody") {
  AgentFront front;
  const std::map<std::string, web::Scope> kScopes = {{"read", web::kRead},
                                                     {"start", web::kStart},
                                                     {"approve", web::kApprove},
                                                     {"work", web::kWork},
                                                     {"admin", web::kAdmin}};
  std::map<std::string, std::string> bearers;
  for (const auto& [name, scope] : kScopes) {
    const HttpAnswer made = front.ask("POST", "/v1/tokens", Json{{"name", "only-" + name}, {"scopes", name}}.dump());
    REQUIRE(made.status == 201);
    bearers[name] = "Authorization: Bearer " + json::string_member(made.body, "token").value() + "\r\n";
  }
  int asked = 0;
  int admitted = 0;
  for (const web::Route& route : front.router().routes()) {
    if (route.open || route.scope == web::kNoScope) continue;
    const std::string path = path_of(route.pattern);
    INFO(route.method << " " << path);
    CHECK(ask(front, route.method, path, "").status == 401);
    for (const auto& [name, scope] : kScopes) {
      INFO(name);
      // Admin stands for all but the scope of an attempt, which is its own run's.
      const bool may = route.scope != web::kAttempt && (scope == route.scope || scope == web::kAdmin);
      const int status = ask(front, route.method, path, bearers[name]).status;
      if (may) {
        CHECK(status != 401);
        CHECK(status != 403);
        ++admitted;
      } else {
        CHECK(status == 403);
      }
      ++asked;
    }
  }
  CHECK(asked > 300);
  CHECK(admitted > 80);
}

TEST_CASE("[ASVS] a call that takes a body refuses members that it does not know, and does nothing") {
  AgentFront front;
  (void)front.start("gate");
  (void)front.wait_of(1);
  const auto changes = [&] {
    return front.rig.number(
        "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM signals) + (SELECT count(*) FROM tokens) + "
        "(SELECT count(*) FROM workflow_versions) + (SELECT count(*) FROM waits WHERE status <> 'pending') + "
        "(SELECT count(*) FROM events WHERE kind >= 'control.' AND kind < 'control/')");
  };
  const std::int64_t before = changes();
  std::set<std::string> understood;
  for (const auto& operation : ApiDocument::get().operations()) {
    if (operation.method != "POST" || operation.scope == "attempt") continue;
    for (const char* body : {R"({"no_such_member":1})", "[]", "1", "\"x\"", "{\"a\":1,\"a\":2}", "{"}) {
      HttpClient client = front.client();
      std::string path = path_of(operation.path);
      if (const auto id = path.find("999"); id != std::string::npos) path.replace(id, 3, "1");
      const HttpAnswer answer = client.ask("POST", path, body);
      INFO(operation.path << " " << body << " -> " << answer.status << " " << answer.body);
      CHECK(answer.status / 100 == 4);
      if (answer.status == 422) {
        const Json problem = Json::parse(answer.body);
        CHECK_FALSE(problem["detail"].get<std::string>().empty());
        understood.insert(operation.path);
      }
    }
  }
  CHECK(changes() == before);
  CHECK(understood.size() >= 20);  // by their members, not for another reason
}

TEST_CASE("[ASVS] SQL in a text is text, wherever a text is taken") {
  AgentFront front;
  const std::vector<std::string> kTexts = {"'",
                                           "\"",
                                           "''; DROP TABLE runs; --",
                                           "'; DELETE FROM runs WHERE '1'='1",
                                           "\"; DROP TABLE steps; --",
                                           "' OR '1'='1",
                                           "1 OR 1=1",
                                           "' UNION SELECT hash FROM tokens --",
                                           "x' AND sleep(5) --",
                                           "); DROP TABLE waits; --",
                                           "%' OR name LIKE '%",
                                           "_%",
                                           "?1",
                                           ":a",
                                           "$x",
                                           "@x",
                                           "[runs]",
                                           "`runs`",
                                           "/* */ runs",
                                           "x'00",
                                           "attach database '/tmp/x' as x"};
  const std::int64_t schema = front.rig.number("SELECT count(*) FROM sqlite_master");
  std::int64_t runs = 0;
  for (const std::string& text : kTexts) {
    INFO(text);
    const Json start = {{"workflow", "gate"}, {"mission", text}, {"key", text}, {"labels", {{"l", text}}}};
    CHECK(front.ask("POST", "/v1/runs", start.dump()).status == 201);
    ++runs;
    const std::string encoded = percent_encode(text);
    const auto found = [&](const std::string& query) {
      const HttpAnswer answer = front.ask("GET", "/v1/runs?" + query);
      return answer.status == 200 ? static_cast<int>(Json::parse(answer.body)["items"].size()) : -answer.status;
    };
    CHECK(found("mission=" + encoded) == 1);
    CHECK(found("label=l%3D" + encoded) == 1);
    CHECK(found("workflow=" + encoded) == 0);
    CHECK(found("status=" + encoded) == -400);
    CHECK(found("cursor=" + encoded) == -400);
    const HttpAnswer mission = front.ask("GET", "/v1/missions/" + encoded);
    CHECK(Json::parse(mission.body)["total"] == 1);
    CHECK(front.ask("POST", "/v1/runs/1/signals/" + encoded, R"({"payload":1})").status / 100 == 2);
    CHECK(front.ask("POST", "/v1/runs", Json{{"workflow", text}}.dump()).status == 404);
    CHECK(front.ask("DELETE", "/v1/tokens/" + encoded).status == 404);
    CHECK(front.ask("GET", "/v1/audit?by=" + encoded).status == 200);
    const Json filter = {{"action", "pause"}, {"filter", {{"mission", text}}}, {"dry_run", true}};
    CHECK(Json::parse(front.ask("POST", "/v1/runs/actions", filter.dump()).body)["matched"] == 1);
  }
  CHECK(front.rig.number("SELECT count(*) FROM runs") == runs);
  CHECK(front.rig.number("SELECT count(*) FROM signals") == static_cast<std::int64_t>(kTexts.size()));
  CHECK(front.rig.number("SELECT count(*) FROM sqlite_master") == schema);
}

TEST_CASE("[ASVS] 200 hostile strings on the page of a link are text") {
  const Json strings = Json::parse(read_file(std::string(kSourceDirectory) + "/tests/browser/hostile.json"));
  REQUIRE(strings.size() == 200);
  AgentFront front;
  (void)front.start("gate");
  const std::int64_t wait = front.wait_of(1);
  const std::string path = front.rig.store->write([&](db::Tx& tx) {
    kernel::ensure_link_key(tx, "SECRET");
    kernel::NewWebhook add;
    add.url = "https://a.example/hook";
    add.secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
    add.decision_links = true;
    const auto made = kernel::add_webhook(tx, add, "ada", tx.now());
    return "/decide/" + kernel::decision_token(tx, WaitId(wait), std::get<kernel::WebhookAdded>(made).row.id, tx.now());
  });
  HttpClient browser = front.page();
  const auto page_with = [&](const std::string& text) {
    front.rig.store->write([&](db::Tx& tx) {
      const std::string asks = "{\"text\":" + json::quote(text) + "}";
      db::Query(tx, "UPDATE waits SET name = ?2, payload = ?3 WHERE id = ?1").bind(WaitId(wait), text, asks).run();
    });
    const HttpAnswer page = browser.ask("GET", path);
    REQUIRE(page.status == 200);
    return page.body;
  };
  // The names of all that begins like an element.
  const auto tags = [](const std::string& body) {
    std::vector<std::string> names;
    for (std::size_t at = body.find('<'); at != std::string::npos; at = body.find('<', at + 1))
      names.push_back(body.substr(at, body.find_first_of(" >", at) - at));
    return names;
  };
  const std::string plain = page_with("plain words");
  CHECK(plain.find("<h1>plain words</h1>") != std::string::npos);
  for (const Json& one : strings) {
    const std::string text = one.get<std::string>();
    INFO(text);
    const std::string body = page_with(text);
    CHECK(body.size() > plain.size());
    CHECK(tags(body) == tags(plain));
  }
}
