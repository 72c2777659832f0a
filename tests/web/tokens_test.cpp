// Tokens: made once and shown once, scopes, expiry, revocation at once; who signed in with one; wrong ones.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/base/json.h"
#include "agent/base/limits_api.h"
#include "tests/web/agent_front.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using Json = nlohmann::json;

namespace {

std::string bearer(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }

std::string make(AgentFront& front, const std::string& body, const std::string& fields = {}) {
  const HttpAnswer made = front.ask("POST", "/v1/tokens", body, fields);
  INFO(made.body);
  REQUIRE(made.status == 201);
  return json::string_member(made.body, "token").value_or("");
}

int status(AgentFront& front, const std::string& token, const std::string& method, const std::string& target,
           const std::string& body = {}) {
  HttpClient client = front.page();
  return client.ask(method, target, body, bearer(token)).status;
}

}  // namespace

TEST_CASE("tokens: made, shown once, used within its scopes, revoked at once") {
  AgentFront front;
  const HttpAnswer made =
      front.ask("POST", "/v1/tokens", R"({"name":"ci","scopes":"start read"})", "Idempotency-Key: k1\r\n");
  REQUIRE(made.status == 201);
  CHECK(*made.field("location") == "/v1/tokens/ci");
  const std::string token = json::string_member(made.body, "token").value();
  CHECK(token.size() > 40);
  CHECK(json::string_member(made.body, "scopes") == "read start");
  // The same again makes no second one, and does not show the first [D4].
  const HttpAnswer again =
      front.ask("POST", "/v1/tokens", R"({"name":"ci","scopes":"start read"})", "Idempotency-Key: k1\r\n");
  CHECK(again.status == 201);
  CHECK(*again.field("idempotent-replayed") == "true");
  CHECK(again.body.find("token\"") == std::string::npos);
  CHECK(front.rig.number("SELECT count(*) FROM tokens WHERE name = 'ci'") == 1);
  CHECK(front.rig.number("SELECT count(*) FROM idempotency WHERE instr(response, '" + token + "') > 0") == 0);
  CHECK(front.rig.number("SELECT count(*) FROM tokens WHERE instr(hex(hash), hex('" + token + "')) > 0") == 0);
  CHECK(json::string_member(front.ask("POST", "/v1/tokens", R"({"name":"ci","scopes":"read"})").body, "code") ==
        "token_exists");

  CHECK(status(front, token, "POST", "/v1/runs", R"({"workflow":"echo"})") == 201);
  CHECK(status(front, token, "GET", "/v1/runs") == 200);
  CHECK(status(front, token, "GET", "/v1/tokens") == 403);
  CHECK(status(front, token, "POST", "/v1/sweep", "{}") == 403);
  const auto run = Json::parse(front.ask("GET", "/v1/runs/1").body);
  CHECK(run["created_by"] == "ci");

  CHECK(front.ask("DELETE", "/v1/tokens/ci").status == 200);
  CHECK(status(front, token, "GET", "/v1/runs") == 401);
  CHECK(front.ask("DELETE", "/v1/tokens/ci").status == 404);
  const auto list = Json::parse(front.ask("GET", "/v1/tokens").body);
  REQUIRE(list["items"].size() == 1);
  CHECK(list["items"][0]["revoked_at"].is_string());
  CHECK_FALSE(list["items"][0].contains("hash"));
  // The name may be given again: whoever acts is the same.
  const std::string newer = make(front, R"({"name":"ci","scopes":"read"})");
  CHECK(newer != token);
  CHECK(status(front, newer, "GET", "/v1/runs") == 200);
  CHECK(status(front, token, "GET", "/v1/runs") == 401);
}

TEST_CASE("tokens: one expires by the agent's clock") {
  AgentFront front;
  const std::string token = make(front, R"({"name":"short","scopes":"read","expires_in":"1h"})");
  CHECK(status(front, token, "GET", "/v1/runs") == 200);
  front.rig.clock.advance(3'599'000);
  CHECK(status(front, token, "GET", "/v1/runs") == 200);
  front.rig.clock.advance(2'000);
  CHECK(status(front, token, "GET", "/v1/runs") == 401);
  (void)make(front, R"({"name":"short","scopes":"read"})");  // its name is free
}

TEST_CASE("tokens: what is no token is refused, with a pointer") {
  AgentFront front;
  const std::vector<std::pair<const char*, const char*>> rows = {
      {R"({"name":"a b","scopes":"read"})", "/name"},
      {R"({"name":"uid:0","scopes":"read"})", "/name"},
      {R"({"name":"","scopes":"read"})", "/name"},
      {R"({"name":"a","scopes":""})", "/scopes"},
      {R"({"name":"a","scopes":"attempt"})", "/scopes"},
      {R"({"name":"a","scopes":"read write"})", "/scopes"},
      {R"({"name":"a"})", "/scopes"},
      {R"({"name":"a","scopes":"read","expires_in":"soon"})", "/expires_in"},
      {R"({"name":"a","scopes":"read","expires_at":"1999-01-01T00:00:00Z"})", "/expires_at"},
  };
  for (const auto& [body, pointer] : rows) {
    INFO(body);
    const HttpAnswer refused = front.ask("POST", "/v1/tokens", body);
    CHECK(refused.status == 422);
    CHECK(Json::parse(refused.body)["errors"][0]["pointer"] == pointer);
  }
  CHECK(front.rig.number("SELECT count(*) FROM tokens") == 0);
}

TEST_CASE("tokens: too many wrong ones are told to slow down, and a right one is not held up") {
  AgentFront front;
  HttpClient client = front.page();
  int unauthorized = 0;
  HttpAnswer last;
  for (int i = 0; i < 30; ++i) {
    last = client.ask("GET", "/v1/runs", {}, bearer("bide_guess" + std::to_string(i)));
    unauthorized += last.status == 401 ? 1 : 0;
    CHECK((last.status == 401 || last.status == 429));
  }
  CHECK(unauthorized == limits::kWrongTokens);
  CHECK(last.status == 429);
  CHECK(json::string_member(last.body, "code") == "too_many_failures");
  CHECK(*last.field("retry-after") == "10");
  CHECK(client.ask("GET", "/v1/runs", {}, bearer(kAdminToken)).status == 200);
}

TEST_CASE("tokens: a session that was signed in with one ends with it") {
  AgentFront front;
  const std::string token = make(front, R"({"name":"lead","scopes":"admin"})");
  HttpClient page = front.page();
  const HttpAnswer code = page.ask("POST", "/v1/session/codes", "{}", bearer(token));
  REQUIRE(code.status == 201);
  const auto made =
      page.ask("POST", "/v1/session", "{\"code\":\"" + json::string_member(code.body, "code").value() + "\"}");
  REQUIRE(made.status == 201);
  const std::string* set = made.field("set-cookie");
  CHECK(set->find("HttpOnly") != std::string::npos);
  CHECK(set->find("SameSite=Strict") != std::string::npos);
  const std::string cookie = "Cookie: " + set->substr(0, set->find(';')) + "\r\n";
  CHECK(page.ask("GET", "/v1/runs", {}, cookie).status == 200);
  // A cookie alone writes nothing.
  CHECK(page.ask("POST", "/v1/runs", R"({"workflow":"echo"})", cookie).status == 403);
  CHECK(front.ask("DELETE", "/v1/tokens/lead").status == 200);
  HttpClient later = front.page();
  CHECK(later.ask("GET", "/v1/runs", {}, cookie).status == 401);
}

TEST_CASE("auth: members of the socket's group have the scopes that the configuration names, others none") {
  web::Auth auth(1000);
  web::Head head;
  head.method = "GET";
  web::Peer member;
  member.unix_socket = true;
  member.uid = 1234;
  member.in_group = true;
  web::Peer stranger = member;
  stranger.in_group = false;
  CHECK(std::holds_alternative<Problem>(auth.admit(head, member)));
  auth.set_group_scopes(web::kRead | web::kApprove);
  const auto admitted = auth.admit(head, member);
  REQUIRE(std::holds_alternative<web::Principal>(admitted));
  const auto& principal = std::get<web::Principal>(admitted);
  CHECK(principal.name == "uid:1234");
  CHECK(principal.may(web::kApprove));
  CHECK_FALSE(principal.may(web::kStart));
  CHECK_FALSE(principal.may(web::kAdmin));
  CHECK(std::holds_alternative<Problem>(auth.admit(head, stranger)));
}
