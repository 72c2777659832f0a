// A DELETE with an Idempotency-Key and no body was a fault (500): the key's fingerprint asked for the canonical form of
// a body that nobody had read. Found by requests that are made from the API's document. A body that is no JSON is said
// to be that, wherever a key is.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/web/agent_front.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("issue: a DELETE with an Idempotency-Key and no body is done, once") {
  AgentFront front;
  const std::int64_t run = front.start("echo");
  front.until(run, "completed");
  const std::string path = "/v1/runs/" + std::to_string(run);
  const auto ask = [&](const std::string& key, const std::string& body) {
    HttpClient one = front.client();
    one.send("DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: " + key +
             "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
             body);
    return one.read();
  };
  const auto broken = ask("a", "{\"x\":");
  REQUIRE(broken);
  CHECK(broken->status == 400);
  CHECK(json::string_member(broken->body, "code") == "bad_json");
  const auto done = ask("b", "");
  REQUIRE(done);
  CHECK(done->status == 200);
  const auto again = ask("b", "");
  REQUIRE(again);
  CHECK(again->status == 200);
  CHECK(again->body == done->body);
  CHECK(again->field("idempotent-replayed") != nullptr);
  const auto other = ask("c", "");
  REQUIRE(other);
  CHECK(other->status == 404);
}
