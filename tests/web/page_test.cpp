// The page's files over TCP: open to all, with types, and with nothing that the content policy would refuse.
#include <catch2/catch.hpp>
#include <string>

#include "db/embedded.h"
#include "tests/web/agent_front.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("page: its files are there without a credential, and no cache keeps them") {
  AgentFront front;
  HttpClient client = front.page();
  REQUIRE(embedded_page().size() >= 4);
  for (const EmbeddedFile& file : embedded_page()) {
    INFO(file.name);
    const bool first = file.name == "index.html";
    const HttpAnswer answer = client.ask("GET", first ? "/" : "/" + std::string(file.name));
    REQUIRE(answer.status == 200);
    CHECK(answer.body == file.bytes);
    CHECK(answer.field("content-security-policy")->find("default-src 'self';") == 0);
    CHECK(*answer.field("cache-control") == "no-store");
    CHECK(*answer.field("x-content-type-options") == "nosniff");
    if (first) CHECK(*answer.field("content-type") == "text/html; charset=utf-8");
    if (file.name == "page.js") CHECK(*answer.field("content-type") == "text/javascript; charset=utf-8");
    if (file.name == "page.css") CHECK(*answer.field("content-type") == "text/css; charset=utf-8");
  }
  CHECK(client.ask("POST", "/", "{}").status == 405);
}

TEST_CASE("page: no inline script or style, and text from outside is never markup") {
  for (const EmbeddedFile& file : embedded_page()) {
    INFO(file.name);
    for (const char* never : {" style=", "<style", "javascript:", " onclick=", " onerror=", "innerHTML", "outerHTML",
                              "insertAdjacentHTML", "document.write", "eval("}) {
      INFO(never);
      CHECK(file.bytes.find(never) == std::string_view::npos);
    }
  }
}
