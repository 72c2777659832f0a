// Who gets in: Host, Origin, content type, credentials, scopes; all of it before the body is read.
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/random.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using namespace bide::web;
using namespace std::chrono_literals;

namespace {

struct Asked {
  std::string method = "POST";
  std::string target = "/v1/runs";
  std::string host;
  std::string fields;
  std::string type = "Content-Type: application/json\r\n";
  bool send_body = false;
};

// The status; the body is announced and, unless the request is the good one, never sent: a refusal must not wait for
// it.
int ask(const Front& front, const Asked& asked) {
  HttpClient client = front.tcp();
  const bool write = asked.method == "POST";
  client.send(asked.method + " " + asked.target + " HTTP/1.1\r\n" + asked.host + asked.fields +
              (write ? asked.type + "Content-Length: 2\r\n" : "") + "\r\n" + (asked.send_body ? "{}" : ""));
  const auto answer = client.read(5s);
  if (!answer) return 0;
  CHECK(answer->field("access-control-allow-origin") == nullptr);
  CHECK(answer->field("access-control-allow-methods") == nullptr);
  return answer->status;
}

}  // namespace

TEST_CASE("[F08] no web page can press the button") {
  const Front front;
  const std::string port = std::to_string(front.port());
  const std::string host = "Host: " + front.host() + "\r\n";
  const std::string token = Front::bearer();
  struct Row {
    const char* what;
    Asked asked;
    int status;
  };
  const std::vector<Row> rows = {
      {"Host: evil.example", {"POST", "/v1/runs", "Host: evil.example\r\n", token}, 421},
      {"Host that resolves to us", {"POST", "/v1/runs", "Host: 127.0.0.1.nip.io:" + port + "\r\n", token}, 421},
      {"another port", {"POST", "/v1/runs", "Host: localhost:1\r\n", token}, 421},
      {"no Host", {"POST", "/v1/runs", "", token}, 400},
      {"two Hosts", {"POST", "/v1/runs", host + host, token}, 400},
      {"absolute form of a foreign host",
       {"POST", "http://evil.example/v1/runs", "Host: evil.example\r\n", token},
       421},
      {"absolute form over our Host", {"POST", "http://evil.example/v1/runs", host, token}, 400},
      {"Origin: null", {"POST", "/v1/runs", host, token + "Origin: null\r\n"}, 403},
      {"Origin of another port", {"POST", "/v1/runs", host, token + "Origin: http://localhost:9999\r\n"}, 403},
      {"text/plain", {"POST", "/v1/runs", host, token, "Content-Type: text/plain\r\n"}, 415},
      {"a form", {"POST", "/v1/runs", host, token, "Content-Type: application/x-www-form-urlencoded\r\n"}, 415},
      {"no content type", {"POST", "/v1/runs", host, token, ""}, 415},
      {"no token", {"POST", "/v1/runs", host, ""}, 401},
      {"a wrong token", {"POST", "/v1/runs", host, "Authorization: Bearer bide_WRONG\r\n"}, 401},
      {"Basic", {"POST", "/v1/runs", host, "Authorization: Basic YTpi\r\n"}, 401},
      {"token in the query", {"POST", "/v1/runs?token=" + kAdminToken, host, ""}, 401},
      {"token in the query, by another name", {"POST", "/v1/runs?access_token=" + kAdminToken, host, ""}, 401},
      {"GET with a foreign Host", {"GET", "/v1/waits", "Host: evil.example\r\n", token}, 421},
      {"preflight",
       {"OPTIONS", "/v1/runs", host, "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"},
       403},
      {"a scope too few", {"POST", "/v1/runs", host, "Authorization: Bearer bide_READER\r\n"}, 403},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(ask(front, row.asked) == row.status);
  }
  CHECK(front.runs() == 0);
  CHECK(ask(front, {"POST", "/v1/runs", host, token, "Content-Type: application/json\r\n", true}) == 201);
  CHECK(ask(front, {"POST", "/v1/runs", "Host: localhost:" + port + "\r\n",
                    token + "Origin: http://localhost:" + port + "\r\n", "Content-Type: application/json\r\n", true}) ==
        201);
  CHECK(front.runs() == 2);
}

TEST_CASE("[F08] the same on the socket: Host and Origin are looked at there too") {
  const Front front;
  const auto status = [&front](const std::string& fields) {
    HttpClient client = front.unix_socket();
    client.send("POST /v1/runs HTTP/1.1\r\n" + fields +
                "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    return client.read(5s)->status;
  };
  CHECK(status("Host: evil.example\r\n") == 421);
  CHECK(status("Host: localhost\r\nOrigin: http://localhost\r\n") == 403);
  CHECK(front.runs() == 0);
  CHECK(status("Host: localhost\r\n") == 201);
}

TEST_CASE("auth: the kernel says who a Unix peer is, and the handler hears it") {
  Front front;
  HttpClient client = front.unix_socket();
  const std::string me = "uid:" + std::to_string(::getuid());
  CHECK(client.ask("GET", "/seen").body.find("\"name\":\"" + me + "\"") != std::string::npos);
  const std::string token = client.ask("GET", "/seen", {}, "Authorization: Bearer bide_READER\r\n").body;
  CHECK(token.find("\"name\":\"reader\"") != std::string::npos);
}

TEST_CASE("[A7] a process of an attempt has that attempt's scope only, whatever it shows") {
  Front front;
  HttpClient client = front.unix_socket();
  REQUIRE(client.ask("POST", "/v1/runs", "{}").status == 201);
  const auto self = read_process(::getpid());
  REQUIRE(self);
  front.auth().set_attempt_of_process([&](const ProcessKey& peer) {
    return peer == self->key ? std::optional(web::Auth::OfAttempt{RunId(7)}) : std::nullopt;
  });
  CHECK(client.ask("POST", "/v1/runs", "{}").status == 403);
  CHECK(client.ask("POST", "/v1/runs", "{}", Front::bearer()).status == 403);
  CHECK(client.ask("GET", "/v1/waits").status == 200);
  CHECK(client.ask("GET", "/seen").body.find("\"attempt\":true") != std::string::npos);
  CHECK(front.runs() == 1);
}

TEST_CASE("auth: an attempt's token is taken apart as it was sent") {
  const auto token = parse_attempt_token("bat_12_3_S%2Bx_y");
  REQUIRE(token);
  CHECK(token->run == RunId(12));
  CHECK(token->epoch == 3);
  CHECK(token->secret == "S%2Bx_y");
  for (const char* bad :
       {"", "bat_", "bat_1", "bat_1_2", "bat_1_2_", "bat_a_2_s", "bat_1_-2_s", "bat__2_s", "xat_1_2_s"}) {
    INFO(bad);
    CHECK_FALSE(parse_attempt_token(bad));
  }
  const Front front;
  const HttpAnswer answer = front.tcp().ask("POST", "/v1/runs", "{}", "Authorization: Bearer bat_1_2_s\r\n");
  CHECK(answer.status == 403);
  CHECK(front.tcp().ask("GET", "/v1/waits", {}, "Authorization: Bearer bat_1_x\r\n").status == 401);
}

TEST_CASE("auth: another user's peer is nobody") {
  Auth auth(4711);
  Head head;
  const Peer peer{true, 1, 4712, 4712};
  const auto admitted = auth.admit(head, peer);
  REQUIRE(std::holds_alternative<Problem>(admitted));
  CHECK(std::get<Problem>(admitted).code == "forbidden");
  CHECK(std::holds_alternative<Principal>(auth.admit(head, {true, 1, 4711, 1})));
  CHECK(std::holds_alternative<Principal>(auth.admit(head, {true, 1, 0, 0})));
}

TEST_CASE("auth: the admin's token is made once, 0600, and refused when others may read it") {
  const TempDir folder;
  const std::string file = folder.str("admin.token");
  SystemRandom random;
  const std::string token = ensure_admin_token(file, random);
  CHECK(token.size() > 40);
  CHECK(ensure_admin_token(file, random) == token);
  struct stat there {};
  REQUIRE(::stat(file.c_str(), &there) == 0);
  CHECK((there.st_mode & 0777) == 0600);
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  CHECK_THROWS_AS(ensure_admin_token(file, random), ConfigFault);
}

TEST_CASE("auth: scopes") {
  CHECK(parse_scopes("read, start") == (kRead | kStart));
  CHECK(parse_scopes("") == kNoScope);
  CHECK_FALSE(parse_scopes("attempt"));
  CHECK_FALSE(parse_scopes("raed"));
  Principal admin;
  admin.scopes = kAdmin;
  CHECK(admin.may(kApprove));
  CHECK_FALSE(admin.may(kAttempt));
}
