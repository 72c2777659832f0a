// /v1/outbox over HTTP: by row and by destination; and the URLs at which apps want to be asked.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include "agent/base/json.h"
#include "agent/kernel/outbox.h"
#include "tests/web/agent_front.h"

using namespace bide;
using namespace bide::test;
using Json = nlohmann::json;

namespace {

const std::string kBad = "http://bad.example";
const std::string kGood = "https://good.example:8443";

struct Outbox {
  AgentFront front;
  int keys = 0;

  void write(const std::string& url) {
    front.rig.store->write([&](db::Tx& tx) {
      kernel::NewDelivery row;
      row.destination = url;
      row.request = "{}";
      row.idem_key = "key-" + std::to_string(++keys);
      return kernel::write_delivery(tx, row, tx.now());
    });
  }
  Json get(const std::string& target) const {
    const HttpAnswer answer = front.ask("GET", target);
    INFO(answer.body);
    REQUIRE(answer.status == 200);
    return Json::parse(answer.body);
  }
  int act(const std::string& action, const std::string& to) const {
    const HttpAnswer answer = front.ask("POST", "/v1/outbox/actions", Json({{"action", action}, {"to", to}}).dump());
    INFO(answer.body);
    REQUIRE(answer.status == 200);
    return Json::parse(answer.body)["done"];
  }
};

}  // namespace

TEST_CASE("outbox: a destination has a state, and all that is for it is tried again or dropped") {
  Outbox box;
  Rig& rig = box.front.rig;
  rig.transport.answers([](const work::Envelope& one) {
    return MemoryTransport::status(one.url.starts_with(kBad + "/gone") ? 410 : one.url.starts_with(kBad) ? 503 : 200);
  });
  for (const char* path : {"/a", "/b?secret=1", "/gone"}) box.write(kBad + path);
  (void)rig.deliver();
  (void)rig.sweep->pass();  // the tries that count
  (void)rig.deliver();
  box.write(kGood + "/later");  // not tried yet

  const Json found = box.get("/v1/outbox/destinations")["items"];
  REQUIRE(found.size() == 2);
  const Json& bad = found[0];
  CHECK(bad["to"] == kBad);
  CHECK(bad["state"] == "failing");
  CHECK(bad["rows"] == 3);
  CHECK(bad["retrying"] == 2);
  CHECK(bad["parked"] == 1);
  CHECK(bad["failing_since"].is_string());
  CHECK(bad["next_try_at"].is_string());
  CHECK(bad["last_error"].get<std::string>().find("503") != std::string::npos);
  CHECK(found[1]["to"] == kGood);
  CHECK(found[1]["state"] == "ok");
  CHECK(found[1]["failing_since"].is_null());
  const Json first = box.get("/v1/outbox/destinations?limit=1");
  CHECK(first["items"].size() == 1);
  CHECK(first["next"] == kBad);
  const Json second = box.get("/v1/outbox/destinations?limit=1&cursor=" + first["next"].get<std::string>());
  CHECK(second["items"][0]["to"] == kGood);

  // Again: what is parked and what is in backoff, once each; a destination is named by any URL of it.
  CHECK(box.act("retry", "HTTP://BAD.example/whatever") == 3);
  CHECK(box.act("retry", kGood) == 0);
  CHECK(rig.number("SELECT count(*) FROM outbox WHERE lane = '" + kBad + "' AND tries = 0 AND parked_at IS NULL") == 3);
  rig.transport.answers([](const work::Envelope& one) {
    return MemoryTransport::status(one.url.starts_with(kBad + "/gone") ? 410 : 200);
  });
  rig.transport.forget();
  (void)rig.sweep->pass();
  (void)rig.deliver();
  CHECK(rig.transport.count() == 4);
  const Json left = box.get("/v1/outbox/destinations")["items"];
  REQUIRE(left.size() == 1);
  CHECK(left[0]["state"] == "parked");
  CHECK(left[0]["next_try_at"].is_null());
  CHECK(left[0]["last_error"].get<std::string>().find("410") != std::string::npos);
  CHECK(box.act("drop", kBad) == 1);
  CHECK(box.act("drop", kBad) == 0);
  CHECK(box.get("/v1/outbox")["items"].empty());
  CHECK(box.get("/v1/outbox/destinations")["items"].empty());

  for (const char* wrong :
       {R"({"action":"delete","to":"http://bad.example"})", R"({"action":"retry"})", R"({"to":"x"})"})
    CHECK(box.front.ask("POST", "/v1/outbox/actions", wrong).status == 422);
  CHECK(box.front.ask("GET", "/v1/outbox/destinations?limit=0").status == 400);
}

TEST_CASE("[O6] outbox: where an app wants to be asked is refused when it is registered, if it is known to be never") {
  AgentFront front;
  const auto workflow = [&](const std::string& url) {
    return front.ask("POST", "/v1/workflows", Json({{"name", "pay"}, {"version", "1"}, {"url", url}}).dump());
  };
  const auto function = [&](const std::string& url) {
    return front.ask("POST", "/v1/tasks/functions", Json({{"function", "shrink"}, {"url", url}}).dump());
  };
  for (const char* good : {"http://127.0.0.1:9/wake", "https://app.example/wake", "http://93.184.216.34/"}) {
    INFO(good);
    CHECK(workflow(good).status == 200);
    CHECK(function(good).status < 300);
  }
  const auto functions = [&] { return front.rig.number("SELECT count(*) FROM task_functions"); };
  CHECK(functions() == 1);
  for (const char* bad : {"http://10.1.2.3/", "http://[::1]/", "http://127.1/", "http://user@app.example/", "ftp://a/",
                          "mqtt://broker/topic", "http://169.254.169.254/latest", "http://a b/"}) {
    INFO(bad);
    for (const HttpAnswer& answer : {workflow(bad), function(bad)}) {
      CHECK(answer.status == 422);
      CHECK(Json::parse(answer.body)["code"] == "invalid");
      CHECK(Json::parse(answer.body)["errors"][0]["pointer"] == "/url");
    }
  }
  CHECK(workflow("http://10.1.2.3/").body.find("allow_targets") != std::string::npos);
  CHECK(functions() == 1);
  CHECK(front.rig.number("SELECT count(*) FROM workflow_versions WHERE manifest LIKE '%10.1.2.3%'") == 0);
}
