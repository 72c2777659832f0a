// POST /v1/drain: nothing is claimed from there on, by the agent, by apps or by workers of tasks; what executes ends,
// answers are taken, and it is told when nothing executes any more.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "agent/base/json.h"
#include "tests/support/eventually.h"
#include "tests/web/program_front.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

Json drain(const AgentFront& front, const std::string& body = "{}", const std::string& fields = {}) {
  const HttpAnswer answer = front.ask("POST", "/v1/drain", body, fields);
  INFO(answer.body);
  REQUIRE(answer.status == 200);
  return Json::parse(answer.body);
}
Json show(const AgentFront& front, std::int64_t run) {
  return Json::parse(front.ask("GET", "/v1/runs/" + std::to_string(run)).body);
}
int claims(AgentFront& front, std::int64_t run) { return front.rig.count_events(RunId(run), "run.claimed"); }
// Everything that claims by itself has looked once more.
void look_again(AgentFront& front) {
  (void)front.ask("POST", "/v1/sweep", "{}");
  front.rig.executor->ring();
  front.rig.clock.advance(6'000);
}

}  // namespace

TEST_CASE("[K1] drain: runs stay queued, what executes ends, and a restart is not needed to go on") {
  Program program;
  AgentFront& front = program.front;
  const std::int64_t driven = program.run.value;
  CHECK(front.ask("GET", "/readyz").status == 200);
  Json now = drain(front);
  CHECK(now == Json{{"draining", true}, {"idle", false}, {"runs", 1}, {"apps", 0}, {"tasks", 0}});
  const HttpAnswer ready = front.ask("GET", "/readyz");
  CHECK(ready.status == 503);
  CHECK(Json::parse(ready.body)["reason"].get<std::string>().find("draining") == 0);
  CHECK(Json::parse(front.ask("GET", "/v1/doctor").body)["findings"].dump().find("bide drain --off") !=
        std::string::npos);

  // It is started and stays where it is; the run that is driven asks, is answered, and goes on to its end.
  const std::int64_t later = front.start("echo", R"({"n":1})");
  HttpClient asking = program.open("waits", R"({"kind":"approval","name":"go","request":{"text":"Go?"},"verb":"1"})");
  const std::int64_t wait = front.wait_of(driven);
  look_again(front);
  CHECK(front.ask("POST", "/v1/waits/" + std::to_string(wait) + "/resolve", R"({"decision":"approved"})").status ==
        200);
  const auto answered = asking.read(20s);
  REQUIRE(answered);
  CHECK(answered->body.find("approved") != std::string::npos);
  CHECK(show(front, later)["status"] == "queued");
  CHECK(claims(front, later) == 0);
  const Json why = Json::parse(front.ask("GET", "/v1/runs/" + std::to_string(later) + "/explain").body);
  CHECK(why["reason"] == "draining");
  CHECK(why["command"] == "bide drain --off");

  // Who waits for it hears when the last one has ended, and not before.
  CHECK(Json::parse(front.ask("GET", "/v1/drain").body)["idle"] == false);
  HttpClient waiting = front.client();
  waiting.send("GET /v1/drain HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=30\r\n\r\n");
  CHECK_FALSE(waiting.read(300ms));
  program.holder.leave = true;
  const auto idle = waiting.read(20s);
  REQUIRE(idle);
  CHECK(Json::parse(idle->body) == Json{{"draining", true}, {"idle", true}, {"runs", 0}, {"apps", 0}, {"tasks", 0}});
  CHECK(show(front, driven)["status"] == "completed");
  CHECK(show(front, later)["status"] == "queued");

  now = drain(front, R"({"off":true})");
  CHECK(now["draining"] == false);
  CHECK(now["idle"] == false);
  front.until(later, "completed");
  CHECK(front.ask("GET", "/readyz").status == 200);
}

TEST_CASE("[K1] [K8] drain: apps and workers of tasks get nothing, keep what they have, and hear when it is over") {
  AgentFront front;
  REQUIRE(front.ask("POST", "/v1/workflows", R"({"name":"pay","version":"1"})").status == 200);
  const std::int64_t held = front.start("pay");
  const std::string come = R"({"workflows":["pay"],"worker":"w"})";
  const HttpAnswer given = front.ask("POST", "/v1/attempts", come);
  REQUIRE(given.status == 200);
  const std::string token = json::string_member(given.body, "token").value();
  const std::string asks = R"({"functions":["shrink"],"worker":"w"})";
  const std::int64_t chore = front.start("chore");
  front.until(chore, "waiting");
  front.until(front.start("chore"), "waiting");  // another one's task lies there
  const HttpAnswer task = front.ask("POST", "/v1/tasks/claim", asks);
  REQUIRE(task.status == 200);

  const Json begun = drain(front);
  CHECK(begun == Json{{"draining", true}, {"idle", false}, {"runs", 0}, {"apps", 1}, {"tasks", 1}});
  const std::int64_t next = front.start("pay");
  CHECK(front.ask("POST", "/v1/attempts", come).status == 204);
  CHECK(front.ask("POST", "/v1/tasks/claim", asks).status == 204);
  CHECK(show(front, next)["status"] == "queued");

  // A worker that waits for a run is woken by the end of it.
  HttpClient waits = front.client();
  waits.send(
      "POST /v1/attempts HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=30\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(come.size()) + "\r\n\r\n" + come);
  const std::string mine = "/v1/runs/" + std::to_string(held) + "/attempt/";
  const std::string bearer = "Authorization: Bearer " + token + "\r\n";
  CHECK(front.ask("POST", mine + "heartbeat", "{}", bearer).status == 200);
  CHECK(front.ask("POST", mine + "finish", R"({"result":7})", bearer).status == 200);
  front.until(held, "completed");
  const Json parsed = Json::parse(task.body);
  CHECK(front
            .ask("POST", "/v1/tasks/" + std::to_string(parsed["task"].get<int>()) + "/complete",
                 Json{{"epoch", parsed["epoch"]}, {"worker", "w"}, {"result", 1}}.dump())
            .status == 200);
  eventually([&] { return Json::parse(front.ask("GET", "/v1/drain").body)["idle"] == true; }, "nothing executes");
  CHECK(show(front, chore)["status"] == "queued");  // its task is done, and its run is not claimed for it
  CHECK_FALSE(waits.read(300ms));

  (void)drain(front, R"({"off":true})");
  const auto woken = waits.read(20s);
  REQUIRE(woken);
  CHECK(woken->status == 200);
  CHECK(json::int_member(woken->body, "run") == next);
  CHECK(front.ask("POST", "/v1/tasks/claim", asks).status == 200);
}

TEST_CASE("[K1] drain: when it has answered, no claim that had begun comes after it") {
  AgentFront front;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::int64_t> runs;
    std::jthread starts([&] {
      for (int i = 0; i < 20; ++i) runs.push_back(front.start("echo"));
    });
    (void)drain(front);
    const std::int64_t after = front.rig.number("SELECT count(*) FROM events WHERE kind = 'run.claimed'");
    starts.join();
    look_again(front);
    CHECK(front.rig.number("SELECT count(*) FROM events WHERE kind = 'run.claimed'") == after);
    (void)drain(front, R"({"off":true})");
    for (const std::int64_t run : runs) front.until(run, "completed");
  }
}

TEST_CASE("drain: what is not understood shuts nothing, and it is an operator's") {
  AgentFront front;
  CHECK(front.ask("POST", "/v1/drain", R"({"off":1})").status == 422);
  CHECK(front.ask("POST", "/v1/drain", R"({"of":true})").status == 422);
  HttpClient reader = front.page();
  CHECK(reader.ask("POST", "/v1/drain", "{}", "Authorization: Bearer bide_READER\r\n").status == 403);
  reader = front.page();  // the refusal closed it
  const HttpAnswer seen = reader.ask("GET", "/v1/drain", {}, "Authorization: Bearer bide_READER\r\n");
  CHECK(Json::parse(seen.body) == Json{{"draining", false}, {"idle", false}, {"runs", 0}, {"apps", 0}, {"tasks", 0}});
  front.until(front.start("echo"), "completed");
}
