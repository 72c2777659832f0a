// A link that decides, as a browser follows it.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "agent/kernel/links.h"
#include "agent/kernel/webhooks.h"
#include "tests/web/agent_front.h"

using namespace bide;
using namespace bide::test;

namespace {

// A run that waits, and the path of a link that decides it.
struct Linked {
  AgentFront front;
  std::int64_t run = front.start("gate");
  std::int64_t wait = front.wait_of(run);
  std::string path;

  Linked() {
    path = front.rig.store->write([&](db::Tx& tx) {
      kernel::ensure_link_key(tx, "SECRET");
      kernel::NewWebhook add;
      add.url = "https://a.example/hook";
      add.secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
      add.decision_links = true;
      const auto made = kernel::add_webhook(tx, add, "ada", tx.now());
      const WebhookId id = std::get<kernel::WebhookAdded>(made).row.id;
      return "/decide/" + kernel::decision_token(tx, WaitId(wait), id, tx.now());
    });
  }
};

}  // namespace

TEST_CASE("links: GET shows and decides nothing, POST decides once, without a credential") {
  const Linked linked;
  HttpClient browser = linked.front.page();
  for (int i = 0; i < 3; ++i) {
    const HttpAnswer page = browser.ask("GET", linked.path);
    CHECK(page.status == 200);
    CHECK(page.body.find("May it go?") != std::string::npos);
    CHECK(page.body.find("data-decision") != std::string::npos);
  }
  CHECK(browser.ask("GET", "/decide.js").status == 200);
  linked.front.until(linked.run, "waiting");
  CHECK(browser.ask("POST", linked.path, R"({"decision":"maybe"})").status == 422);
  CHECK(browser.ask("POST", linked.path, R"({"decision":"approved"})").status == 200);
  linked.front.until(linked.run, "completed");
  CHECK(browser.ask("POST", linked.path, R"({"decision":"denied"})").status == 409);
  const HttpAnswer after = browser.ask("GET", linked.path);
  CHECK(after.body.find("data-decision") == std::string::npos);
  const std::string shown = linked.front.ask("GET", "/v1/waits/" + std::to_string(linked.wait)).body;
  CHECK(shown.find("link:webhook-1") != std::string::npos);
}

TEST_CASE("links: a forged or damaged one is 404, and reaches nothing else") {
  const Linked linked;
  HttpClient browser = linked.front.page();
  for (const std::string& path : {linked.path + "0", linked.path.substr(0, linked.path.size() - 1),
                                  std::string("/decide/1.1.99999999999.00"), std::string("/decide/x")}) {
    CHECK(browser.ask("GET", path).status == 404);
    CHECK(browser.ask("POST", path, R"({"decision":"approved"})").status == 404);
  }
  CHECK(browser.ask("GET", "/v1/waits").status == 401);
  linked.front.until(linked.run, "waiting");
}
