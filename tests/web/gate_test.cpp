// The gate alone: bytes in, head or refusal out.
#include <catch2/catch.hpp>

#include "web/gate.h"

using namespace bide;
using namespace bide::web;

namespace {

constexpr int kGood = 200;
constexpr int kMore = 0;

GateRules tcp_rules() {
  GateRules rules;
  rules.hosts = {"127.0.0.1:7433", "localhost:7433"};
  return rules;
}

// The status of the refusal, kGood or kMore.
int verdict(const std::string& bytes, const GateRules& rules = tcp_rules()) {
  std::size_t used = 0;
  const Reading reading = read_head(bytes, used);
  if (std::holds_alternative<NeedMore>(reading)) return kMore;
  if (const auto* refused = std::get_if<Refused>(&reading)) return refused->status;
  const auto refused = judge(std::get<Head>(reading), rules);
  return refused ? refused->status : kGood;
}

std::string get(const std::string& more, const std::string& target = "/v1/runs") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost:7433\r\n" + more + "\r\n";
}
std::string post(const std::string& more) {
  return "POST /v1/runs HTTP/1.1\r\nHost: localhost:7433\r\n" + more + "\r\n";
}

const std::string kJson = "Content-Type: application/json\r\n";

struct Row {
  const char* what;
  std::string bytes;
  int status;
};

}  // namespace

TEST_CASE("the gate: each form of a head has one verdict") {
  const std::vector<Row> rows = {
      {"plain", get(""), kGood},
      {"HTTP/1.0", "GET / HTTP/1.0\r\nHost: localhost:7433\r\n\r\n", kGood},
      {"one empty line before", "\r\n" + get(""), kGood},
      {"two empty lines before", "\r\n\r\n" + get(""), 400},
      {"host in capitals", "GET / HTTP/1.1\r\nHOST: LocalHost:7433\r\n\r\n", kGood},
      {"absolute form of ours", "GET http://localhost:7433/v1/runs HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", kGood},
      {"absolute form, two hosts", "GET http://localhost:7433/ HTTP/1.1\r\nHost: 127.0.0.1:7433\r\n\r\n", 400},
      {"absolute form of another", "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
      {"another scheme", "GET ftp://localhost:7433/ HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", 400},
      {"no slash", get("", "v1"), 400},
      {"fragment", get("", "/a#b"), 400},
      {"star without OPTIONS", get("", "*"), 400},
      {"star with OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", kGood},
      {"authority form", "CONNECT localhost:7433 HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", 400},
      {"bad percent", get("", "/a%2"), 400},
      {"bad percent in the query", get("", "/a?b=%zz"), 400},
      {"encoded zero", get("", "/a%00"), 400},
      {"encoded line end", get("", "/a%0d%0aX:1"), 400},
      {"encoded line end in the query", get("", "/a?b=%0A"), kGood},
      {"not ASCII", get("", "/\xc3\xa4"), 400},
      {"two spaces", "GET  / HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", 400},
      {"space in the target", "GET /a b HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", 400},
      {"no version", "GET /\r\nHost: localhost:7433\r\n\r\n", 400},
      {"HTTP/2", "GET / HTTP/2.0\r\nHost: localhost:7433\r\n\r\n", 505},
      {"HTTP/1.10", "GET / HTTP/1.10\r\nHost: localhost:7433\r\n\r\n", 505},
      {"method no token", "G@T / HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", 400},
      {"method too long", std::string(17, 'A') + " / HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", 400},
      {"a TLS hello", std::string("\x16\x03\x01\x00\xa5", 5), 400},
      {"no Host", "GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", 400},
      {"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
      {"two Hosts", get("Host: localhost:7433\r\n"), 400},
      {"Host evil.example", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
      {"Host that begins like ours", "GET / HTTP/1.1\r\nHost: 127.0.0.1.nip.io:7433\r\n\r\n", 421},
      {"Host with another port", "GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 421},
      {"Host without port", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 421},
      {"Host with a user", "GET / HTTP/1.1\r\nHost: x@localhost:7433\r\n\r\n", 421},
      {"our Origin", get("Origin: http://localhost:7433\r\n"), kGood},
      {"Origin null", get("Origin: null\r\n"), 403},
      {"Origin of another port", get("Origin: http://localhost:9999\r\n"), 403},
      {"Origin by https", get("Origin: https://localhost:7433\r\n"), 403},
      {"empty Origin", get("Origin:\r\n"), 403},
      {"two Origins", get("Origin: http://localhost:7433\r\nOrigin: http://evil.example\r\n"), 400},
      {"space before the colon", get("Accept : x\r\n"), 400},
      {"empty name", get(": x\r\n"), 400},
      {"no colon", get("Accept\r\n"), 400},
      {"folded", get("Accept: a\r\n b\r\n"), 400},
      {"name with a control character", get("Acc\x01pt: a\r\n"), 400},
      {"name with bytes beyond ASCII", get("Acc\xc3\xa9pt: a\r\n"), 400},
      {"value with a control character", get("Accept: a\x01\r\n"), 400},
      {"value with a tab", get("Accept: a\tb\r\n"), kGood},
      {"value with a zero", get(std::string("Accept: a\0b\r\n", 13)), 400},
      {"value with an encoded line end", get("X-A: a%0d%0aB: c\r\n"), 400},
      {"value with an encoded space", get("X-A: a%20b\r\n"), kGood},
      {"REMOTE_ADDR", get("REMOTE_ADDR: 127.0.0.1\r\n"), 400},
      {"Local_Port", get("Local_Port: 1\r\n"), 400},
      {"bare LF", "GET / HTTP/1.1\nHost: localhost:7433\n\n", 400},
      {"bare LF in the fields", "GET / HTTP/1.1\r\nHost: localhost:7433\nX: y\r\n\r\n", 400},
      {"bare CR", "GET / HTTP/1.1\r\nHost: localhost:7433\r\nX: a\rb\r\n\r\n", 400},
      {"Range", get("Range: bytes=0-0\r\n"), 400},
      {"Expect something", get("Expect: magic\r\n"), 417},
      {"GET with a body", get("Content-Length: 3\r\n"), 400},
      {"GET with length 0", get("Content-Length: 0\r\n"), kGood},
      {"POST", post(kJson + "Content-Length: 2\r\n"), kGood},
      {"POST with charset", post("Content-Type: Application/JSON; charset=utf-8\r\nContent-Length: 2\r\n"), kGood},
      {"POST without length", post(kJson), 411},
      {"POST without type", post("Content-Length: 0\r\n"), 415},
      {"POST text/plain", post("Content-Type: text/plain\r\nContent-Length: 2\r\n"), 415},
      {"POST form", post("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n"), 415},
      {"POST multipart", post("Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 2\r\n"), 415},
      {"POST two types", post(kJson + kJson + "Content-Length: 2\r\n"), 400},
      {"POST gzip", post(kJson + "Content-Encoding: gzip\r\nContent-Length: 2\r\n"), 415},
      {"POST chunked", post(kJson + "Transfer-Encoding: chunked\r\n"), 411},
      {"POST identity coding", post(kJson + "Transfer-Encoding: identity\r\n"), 411},
      {"CL with TE", post(kJson + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), 400},
      {"two CLs", post(kJson + "Content-Length: 2\r\nContent-Length: 3\r\n"), 400},
      {"two equal CLs", post(kJson + "Content-Length: 2\r\nContent-Length: 2\r\n"), 400},
      {"CL list", post(kJson + "Content-Length: 2, 2\r\n"), 400},
      {"CL -1", post(kJson + "Content-Length: -1\r\n"), 400},
      {"CL +1", post(kJson + "Content-Length: +1\r\n"), 400},
      {"CL 3abc", post(kJson + "Content-Length: 3abc\r\n"), 400},
      {"CL 0x2", post(kJson + "Content-Length: 0x2\r\n"), 400},
      {"CL empty", post(kJson + "Content-Length:\r\n"), 400},
      {"CL that overflows", post(kJson + "Content-Length: 18446744073709551618\r\n"), 400},
      {"CL 1 MiB", post(kJson + "Content-Length: 1048576\r\n"), kGood},
      {"CL 1 MiB + 1", post(kJson + "Content-Length: 1048577\r\n"), 413},
      {"DELETE without a body", "DELETE /v1/runs/1 HTTP/1.1\r\nHost: localhost:7433\r\n\r\n", kGood},
      {"DELETE with a body that is no JSON",
       "DELETE /v1/runs/1 HTTP/1.1\r\nHost: localhost:7433\r\nContent-Length: 2\r\n\r\n", 415},
      {"half a head", "GET / HTTP/1.1\r\nHost: loc", kMore},
      {"nothing", "", kMore},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(verdict(row.bytes) == row.status);
  }
}

TEST_CASE("the gate: 64 fields and 16 KiB, not one more") {
  std::string fields;
  for (int i = 0; i < 63; ++i) fields += "X-" + std::to_string(i) + ": y\r\n";
  CHECK(verdict(get(fields)) == kGood);
  CHECK(verdict(get(fields + "X-63: y\r\n")) == 431);

  const std::size_t rest = limits::kHeadBytes - get("X: \r\n").size();
  CHECK(verdict(get("X: " + std::string(rest, 'a') + "\r\n")) == kGood);
  CHECK(verdict(get("X: " + std::string(rest + 1, 'a') + "\r\n")) == 431);
  // Without its end it is refused as soon as it is too long.
  CHECK(verdict("GET / HTTP/1.1\r\nX: " + std::string(limits::kHeadBytes, 'a')) == 431);
}

TEST_CASE("the gate: what a head says comes out as it went in") {
  std::size_t used = 0;
  const std::string bytes = get("Authorization: Bearer ab%2Bcd\r\nConnection: keep-alive, close\r\n", "/a%20b?x=%2F&y");
  const Reading reading = read_head(bytes + "GET", used);
  REQUIRE(std::holds_alternative<Head>(reading));
  const Head& head = std::get<Head>(reading);
  CHECK(used == bytes.size());
  CHECK(head.method == "GET");
  CHECK(head.path == "/a%20b");
  CHECK(head.query == "x=%2F&y");
  CHECK(head.authority == "localhost:7433");
  CHECK(*head.field("authorization") == "Bearer ab%2Bcd");
  CHECK_FALSE(head.keep_alive);
  CHECK(head.field("x") == nullptr);
}

TEST_CASE("the gate: on a Unix socket the port means nothing and no Origin is ours") {
  GateRules rules;
  rules.hosts = {"localhost", "bide"};
  rules.any_port = true;
  rules.origins = false;
  const auto with_host = [](const std::string& host) { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"; };
  CHECK(verdict(with_host("localhost"), rules) == kGood);
  CHECK(verdict(with_host("localhost:80"), rules) == kGood);
  CHECK(verdict(with_host("bide"), rules) == kGood);
  CHECK(verdict(with_host("localhost:80x"), rules) == 421);
  CHECK(verdict(with_host("evil.example"), rules) == 421);
  CHECK(verdict("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n", rules) == 403);
}
