// A body was counted against the bound of all bodies when it was announced, before a byte of it came: sixty connections
// without a credential that announced a megabyte each and sent nothing refused everybody's body, on the socket too, for
// as long as they liked. What came counts now, each listener for itself, and a route without a credential takes little.
#include <catch2/catch.hpp>

#include <chrono>
#include <list>

#include "tests/support/eventually.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kAnnounced = 1'000'000;

HttpClient announce(const Front& front, const std::string& target, const std::string& fields) {
  HttpClient client = front.tcp();
  client.send("POST " + target + " HTTP/1.1\r\nHost: " + front.host() + "\r\n" + fields +
              "Content-Type: application/json\r\nContent-Length: " + std::to_string(kAnnounced) + "\r\n\r\n");
  return client;
}

}  // namespace

TEST_CASE("issue: bodies that were announced and do not come keep nobody out") {
  const Front front;
  std::list<HttpClient> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(announce(front, "/v1/runs", Front::bearer()));
  eventually([&] { return front.server_connections() == 80; }, "they are there");
  CHECK(front.unix_socket().ask("POST", "/v1/runs", "{}").status == 201);
  CHECK(front.tcp().ask("POST", "/v1/runs", "{}", Front::bearer()).status == 201);
  for (HttpClient& client : silent) REQUIRE_FALSE(client.closed_within(0ms));
}

TEST_CASE("issue: bodies that fill one listener keep the other free, and make room when they go") {
  const Front front;
  std::list<HttpClient> slow;
  const std::string most(kAnnounced - 1, ' ');
  int refused = 0;
  for (int i = 0; i < 72; ++i) {  // 72 of them are more than 64 MiB
    slow.push_back(announce(front, "/v1/runs", Front::bearer()));
    slow.back().send(most);
    if (const auto answer = slow.back().read(i < 66 ? 0ms : 2000ms)) {
      CHECK(answer->status == 503);
      ++refused;
    }
  }
  CHECK(refused > 0);
  CHECK(front.unix_socket().ask("POST", "/v1/runs", "{}").status == 201);
  CHECK(slow.front().send("}"));
  slow.clear();
  eventually([&] { return front.tcp().ask("POST", "/v1/runs", "{}", Front::bearer()).status == 201; },
             "there is room again");
}

TEST_CASE("issue: without a credential a body is small") {
  const Front front({}, [](web::Router& router) {
    router.open_post("/open", [](web::Request&) { return web::json_response(200, "{}"); });
  });
  HttpClient client = announce(front, "/open", "");
  const auto answer = client.read(5s);
  REQUIRE(answer);
  CHECK(answer->status == 413);
  CHECK(front.tcp().ask("POST", "/open", "{\"code\":\"x\"}").status == 200);
}
