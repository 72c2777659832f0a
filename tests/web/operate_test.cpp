// Many runs, missions, workflows, export, audit and metrics, over a whole agent without processes.
#include <catch2/catch.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/web/agent_front.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

std::int64_t start(AgentFront& front, const std::string& body) {
  const HttpAnswer answer = front.ask("POST", "/v1/runs", body);
  INFO(answer.body);
  REQUIRE(answer.status == 201);
  return json::int_member(answer.body, "id").value();
}
Json act(AgentFront& front, const std::string& body, const std::string& fields = {}) {
  const HttpAnswer answer = front.ask("POST", "/v1/runs/actions", body, fields);
  INFO(answer.body);
  REQUIRE(answer.status == 200);
  return Json::parse(answer.body);
}

}  // namespace

TEST_CASE("many: a dry run counts, then the action is done to each that fits, and once for a key") {
  AgentFront front;
  std::vector<std::int64_t> gates;
  for (int i = 0; i < 120; ++i) {  // more than a transaction takes
    gates.push_back(start(front, R"({"workflow":"gate","mission":"move","labels":{"team":"a"}})"));
  }
  const std::int64_t other = start(front, R"({"workflow":"gate","mission":"stay","labels":{"team":"b"}})");
  for (const std::int64_t run : gates) front.until(run, "waiting");
  front.until(other, "waiting");

  const Json dry = act(front, R"({"action":"cancel","filter":{"mission":"move"},"dry_run":true})");
  CHECK(dry["matched"] == 120);
  CHECK(front.rig.number("SELECT count(*) FROM runs WHERE status = 'cancelled'") == 0);
  CHECK(act(front, R"({"action":"cancel","filter":{"label":"team=b"},"dry_run":true})")["matched"] == 1);
  CHECK(act(front, R"({"action":"cancel","filter":{"label":"team"},"dry_run":true})")["matched"] == 121);
  CHECK(act(front, R"({"action":"cancel","filter":{"workflow":"echo"},"dry_run":true})")["matched"] == 0);

  const Json paused = act(front, R"({"action":"pause","filter":{"mission":"move","status":"waiting"}})");
  CHECK(paused["done"] == 120);
  CHECK(act(front, R"({"action":"resume","runs":[1,2,999]})")["refused"] == Json{{"run_not_found", 1}});
  CHECK(act(front, R"({"action":"resume","filter":{}})")["done"] == 118);

  const std::string cancel = R"({"action":"cancel","filter":{"mission":"move"},"reason":"over"})";
  const Json done = act(front, cancel, "Idempotency-Key: k\r\n");
  CHECK(done["done"] == 120);
  CHECK(done["items"].size() == 120);
  CHECK(front.rig.number("SELECT count(*) FROM runs WHERE status = 'cancelled'") == 120);
  const HttpAnswer again = front.ask("POST", "/v1/runs/actions", cancel, "Idempotency-Key: k\r\n");
  CHECK(*again.field("idempotent-replayed") == "true");
  CHECK(Json::parse(again.body) == done);
  CHECK(front.ask("POST", "/v1/runs/actions", R"({"action":"cancel","filter":{}})", "Idempotency-Key: k\r\n").status ==
        422);
  CHECK(Json::parse(front.ask("GET", "/v1/runs/" + std::to_string(other)).body)["status"] == "waiting");
}

TEST_CASE("many: what is not understood touches nothing") {
  AgentFront front;
  const std::int64_t run = start(front, R"({"workflow":"gate"})");
  front.until(run, "waiting");
  const std::vector<std::pair<const char*, const char*>> rows = {
      {R"({"action":"delete","filter":{}})", "/action"},
      {R"({"action":"cancel"})", "/filter"},
      {R"({"action":"cancel","filter":{},"runs":[1]})", "/filter"},
      {R"({"action":"cancel","filter":{"stauts":"waiting"}})", "/filter/stauts"},
      {R"({"action":"cancel","filter":{"status":"odd"}})", "/filter/status"},
      {R"({"action":"cancel","filter":{"workflow":1}})", "/filter/workflow"},
      {R"({"action":"cancel","runs":[]})", "/runs"},
      {R"({"action":"cancel","runs":["1"]})", "/runs"},
      {R"({"action":"cancel","runs":[-1]})", "/runs"},
  };
  for (const auto& [body, pointer] : rows) {
    INFO(body);
    const HttpAnswer refused = front.ask("POST", "/v1/runs/actions", body);
    CHECK(refused.status == 422);
    CHECK(Json::parse(refused.body)["errors"][0]["pointer"] == pointer);
  }
  CHECK(Json::parse(front.ask("GET", "/v1/runs/1").body)["status"] == "waiting");
}

TEST_CASE("[M1] a command that is no single transaction takes an Idempotency-Key too") {
  AgentFront front;
  const HttpAnswer first = front.ask("POST", "/v1/clock/accept", "{}", "Idempotency-Key: c\r\n");
  REQUIRE(first.status == 200);
  front.rig.clock.advance(1'000);
  const HttpAnswer again = front.ask("POST", "/v1/clock/accept", "{}", "Idempotency-Key: c\r\n");
  CHECK(again.body == first.body);
  CHECK(*again.field("idempotent-replayed") == "true");
  CHECK(front.rig.number("SELECT count(*) FROM events WHERE kind = 'control.clock_accepted'") == 1);
  CHECK(front.ask("POST", "/v1/sweep", "{}", "Idempotency-Key: c\r\n").status == 422);
  CHECK(front.ask("POST", "/v1/sweep", "{]", "Idempotency-Key: d\r\n").status == 400);
  CHECK(front.ask("POST", "/v1/clock/accept", "{}").body != first.body);
}

TEST_CASE("missions: sums and states, and all of them cancelled") {
  AgentFront front;
  for (int i = 0; i < 3; ++i) start(front, R"({"workflow":"gate","mission":"m"})");
  const std::int64_t done = start(front, R"({"workflow":"echo","mission":"m"})");
  front.until(done, "completed");
  for (int i = 1; i <= 3; ++i) front.until(i, "waiting");
  const Json mission = Json::parse(front.ask("GET", "/v1/missions/m").body);
  CHECK(mission["total"] == 4);
  CHECK(mission["runs"] == Json{{"waiting", 3}, {"completed", 1}});
  CHECK(mission["usage"].is_object());
  const Json cancelled = Json::parse(front.ask("POST", "/v1/missions/m/cancel", R"({"reason":"x"})").body);
  CHECK(cancelled["done"] == 3);
  CHECK(Json::parse(front.ask("GET", "/v1/missions/m").body)["runs"]["cancelled"] == 3);
  CHECK(front.ask("GET", "/v1/missions/none").status == 404);
  CHECK(front.ask("POST", "/v1/missions/none/cancel", "{}").status == 404);
}

TEST_CASE("runs: by label, in pages") {
  AgentFront front;
  for (int i = 0; i < 5; ++i) start(front, R"({"workflow":"echo","labels":{"n":)" + std::to_string(i % 2) + "}}");
  CHECK(Json::parse(front.ask("GET", "/v1/runs?label=n=1").body)["items"].size() == 2);
  CHECK(Json::parse(front.ask("GET", "/v1/runs?label=n").body)["items"].size() == 5);
  CHECK(Json::parse(front.ask("GET", "/v1/runs?label=none").body)["items"].empty());
  const Json page = Json::parse(front.ask("GET", "/v1/runs?label=n=0&limit=2").body);
  CHECK(page["items"].size() == 2);
  const std::string next = "/v1/runs?label=n=0&limit=2&cursor=" + page["next"].get<std::string>();
  CHECK(Json::parse(front.ask("GET", next).body)["items"].size() == 1);
}

TEST_CASE("workflows: what there is, its versions and counts") {
  AgentFront front;
  front.until(start(front, R"({"workflow":"echo"})"), "completed");
  front.until(start(front, R"({"workflow":"gate"})"), "waiting");
  const Json list = Json::parse(front.ask("GET", "/v1/workflows").body);
  std::set<std::string> names;
  for (const Json& one : list["items"]) names.insert(one["name"].get<std::string>());
  CHECK(names == std::set<std::string>{"chore", "ear", "echo", "gate", "nap"});
  const Json gate = Json::parse(front.ask("GET", "/v1/workflows/gate").body);
  CHECK(gate["runs"] == Json{{"total", 1}, {"queued", 0}, {"running", 0}, {"waiting", 1}, {"failed", 0}});
  REQUIRE(gate["versions"].size() == 1);
  CHECK(gate["versions"][0]["kind"] == "native");
  CHECK(gate["versions"][0]["manifest"].is_object());
  CHECK(gate["installed"] == true);
  const HttpAnswer none = front.ask("GET", "/v1/workflows/gaet");
  CHECK(none.status == 404);
  CHECK(none.body.find("is gate meant?") != std::string::npos);
}

TEST_CASE("export: the whole history as one document, its JSON byte for byte") {
  AgentFront front;
  const std::int64_t run = start(front, R"({"workflow":"gate","input":{"n":1.50e2}})");
  const std::int64_t wait = front.wait_of(run);
  CHECK(front.ask("POST", "/v1/waits/" + std::to_string(wait) + "/resolve", R"({"decision":"approved","comment":"c"})")
            .status == 200);
  front.until(run, "completed");
  const HttpAnswer answer = front.ask("GET", "/v1/runs/" + std::to_string(run) + "/export");
  REQUIRE(answer.status == 200);
  CHECK_FALSE(json::check(answer.body));
  CHECK(answer.body.find("1.50e2") != std::string::npos);
  const Json document = Json::parse(answer.body);
  CHECK(document["run"]["status"] == "completed");
  CHECK(document["journal"].size() == 1);
  CHECK(document["waits"].size() == 1);
  CHECK(document["decisions"].size() == 1);
  CHECK(document["decisions"][0]["decision"]["comment"] == "c");
  CHECK(document["events"].size() ==
        static_cast<std::size_t>(front.rig.number("SELECT count(*) FROM events WHERE run_id = 1")));
  // Far more rows than a page.
  front.rig.store->write([&](db::Tx& tx) {
    for (int i = 0; i < 1'050; ++i) kernel::append_event(tx, tx.now(), "test.many", RunId(run), StepId());
  });
  CHECK(Json::parse(front.ask("GET", "/v1/runs/1/export").body)["events"].size() == document["events"].size() + 1'050);
  CHECK(front.ask("GET", "/v1/runs/99/export").status == 404);
}

TEST_CASE("[A7] audit: who decided what, the newest first, and whether the chain is whole") {
  AgentFront front;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t run = start(front, R"({"workflow":"gate"})");
    const std::string wait = "/v1/waits/" + std::to_string(front.wait_of(run)) + "/resolve";
    CHECK(front.ask("POST", wait, R"({"decision":"approved"})", Front::bearer()).status == 200);
    HttpClient reader = front.page();
    reader.ask("POST", wait, R"({"decision":"denied"})", "Authorization: Bearer bide_READER\r\n");
  }
  const Json all = Json::parse(front.ask("GET", "/v1/audit").body);
  CHECK(all["items"].size() == 6);  // those that were refused too
  CHECK(all["items"][0]["id"] == 6);
  CHECK(Json::parse(front.ask("GET", "/v1/audit?run=2").body)["items"].size() == 2);
  CHECK(Json::parse(front.ask("GET", "/v1/audit?verdict=accepted").body)["items"].size() == 3);
  CHECK(Json::parse(front.ask("GET", "/v1/audit?by=admin").body)["items"].size() == 3);
  CHECK(front.ask("GET", "/v1/audit?verdict=odd").status == 400);
  const Json check = Json::parse(front.ask("GET", "/v1/audit/verify").body);
  CHECK(check["verdict"] == "whole");
  CHECK(check["rows"] == 6);
  const std::string head = check["head"].get<std::string>();
  front.rig.store->write(
      [](db::Tx& tx) { db::Query(tx, "UPDATE approvals_audit SET decided_by = 'eve' WHERE id = 3").run(); });
  const Json broken = Json::parse(front.ask("GET", "/v1/audit/verify?head=" + head).body);
  CHECK(broken["verdict"] == "tampered");
  CHECK(broken["row"] == 3);
  CHECK(front.ask("GET", "/v1/audit/verify?head=x").status == 400);
}
