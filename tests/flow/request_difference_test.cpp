// What NonDeterminism says of a request that is another one: the place, both sides, and what to write instead [J4, V3].
#include <catch2/catch.hpp>

#include <string>

#include "agent/flow/nondeterminism.h"
#include "agent/flow/request_difference.h"

using namespace bide::flow;

TEST_CASE("[J4] the difference of two requests names the argument, what it was and is, and what to write instead") {
  const auto of = [](const char* a, const char* b) { return request_difference("fetch", a, b); };
  CHECK(of(R"({"argv":["cp","-v","x","/tmp/tmp.A"]})", R"({"argv":["cp","-v","x","/tmp/tmp.B"]})") ==
        "argument 3 of fetch was /tmp/tmp.A and is /tmp/tmp.B: use a file in the workspace, or `bide value tmpdir`");
  CHECK(of(R"({"argv":["log","2026-11-29"]})", R"({"argv":["log","2026-11-30"]})") ==
        "argument 1 of fetch was 2026-11-29 and is 2026-11-30: take the time from `bide value now`, or from a step, "
        "which are the same at every attempt");
  CHECK(of(R"({"argv":["curl","a"]})", R"({"argv":["wget","a"]})") ==
        "the command of fetch was curl and is wget: take it from a step or from `bide value`, which are the same at "
        "every attempt");
  CHECK(of(R"({"argv":["ls","a"]})", R"({"argv":["ls","a","b"]})") == "fetch had 1 argument and has 2: \"b\" is new");
  CHECK(of(R"({"argv":["ls","a","b"]})", R"({"argv":["ls","a"]})") == "fetch had 2 arguments and has 1: \"b\" is gone");
  CHECK(of(R"({"argv":["ls"],"stdin":"1\n"})", R"({"argv":["ls"],"stdin":"2\n"})")
            .starts_with("the stdin of fetch was "));
  CHECK(of(R"({"argv":["ls"],"stdin":"1"})", R"({"argv":["ls"]})") ==
        "the stdin of fetch was 1 and is not given any more");
  CHECK(of(R"({"argv":["ls"]})", R"({"argv":["ls"],"stdin":"1"})") == "the stdin of fetch was not given and is 1");
  CHECK(of(R"({"sleep_ms":1000})", R"({"sleep_ms":2000})").starts_with("the length of fetch was 1000 and is 2000: "));
  CHECK(of("{}", "{}").empty());
  CHECK(of(R"({"a":1,"b":2})", R"({"b":2,"a":1})").empty());  // the same, in another order
  CHECK(of("null", "7").starts_with("the request of fetch was null and is 7: "));
}

TEST_CASE("[J4] of a long text the differing part is shown, and no character is cut") {
  const std::string head(300, 'h');
  const std::string tail(300, 't');
  const std::string text = request_difference("ask", "{\"text\":\"" + head + "\xC3\xA4lf" + tail + "\"}",
                                              "{\"text\":\"" + head + "\xC3\xB6lf" + tail + "\"}");
  CHECK(text.starts_with("the text of ask was …" + std::string(20, 'h') + "älf" + std::string(18, 't') + "… and is …" +
                         std::string(20, 'h') + "ölf" + std::string(18, 't') + "…: "));
  const std::string longer = was_and_is(std::string(1000, 'a'), std::string(1000, 'b'));
  CHECK(longer.size() < 600);
}

TEST_CASE("[V3] a request that came back at another position: what of it changed") {
  CHECK(moved_request("/step/pay/17959/1", "/step/pay/17963/1").starts_with("the key of pay was 17959 and is 17963: "));
  CHECK(moved_request("/step/pay//1", "/step/pay/a%2Fb/1") == "the key of pay was not given and is a/b");
  CHECK(moved_request("/step/fetch//1", "/step/get//1").starts_with("the name of get was fetch and is get: "));
  CHECK(moved_request("eu/step/get//1", "us/step/get//1").starts_with("the branch of get was eu and is us: "));
  CHECK(moved_request("/step/get//1", "/step/get//2") == "it was /step/get//1 and is /step/get//2");
}
