// A head whose last line ended with "\r\r\n" was taken: the look for a carriage return that stands alone ended just
// before the empty line, and the value was trimmed of it. Found by the fuzz lane, whose inputs had another order under
// asan.
#include <catch2/catch.hpp>

#include <string>
#include <variant>

#include "web/gate.h"

using namespace bide;

TEST_CASE("issue: a carriage return that stands alone is refused wherever it stands, whole or in parts") {
  const std::string good = "GET /v1/runs HTTP/1.1\r\nHost: localhost:7433\r\nAccept: a\r\n\r\n";
  std::size_t used = 0;
  REQUIRE(std::holds_alternative<web::Head>(web::read_head(good, used)));
  for (std::size_t at = 0; at < good.size() - 3; ++at) {
    if (good[at] != '\r' && at % 3 != 0) continue;
    std::string bad = good;
    bad.insert(at, 1, '\r');
    INFO("at " << at);
    CHECK(std::holds_alternative<web::Refused>(web::read_head(bad, used)));
    bad += "more";
    CHECK(std::holds_alternative<web::Refused>(web::read_head(bad, used)));
  }
}
