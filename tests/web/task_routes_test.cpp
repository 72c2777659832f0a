// Tasks over HTTP [K8]: an app's worker claims, beats, completes and fails what runs of any kind ask for.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using Json = nlohmann::json;

namespace {

struct Reply {
  int status = 0;
  Json body;
  [[nodiscard]] std::string state() const { return body.value("state", ""); }
  [[nodiscard]] std::string code() const { return body.value("code", ""); }
};

struct Worker {
  AgentFront front;

  [[nodiscard]] Reply ask(const std::string& target, const Json& body, const std::string& fields = {}) const {
    const HttpAnswer answer = front.ask("POST", target, body.dump(), fields);
    return {answer.status, answer.body.empty() ? Json() : Json::parse(answer.body)};
  }
  [[nodiscard]] Reply come(const std::string& name = "w") const {
    return ask("/v1/tasks/claim", {{"functions", {"shrink", "grow"}}, {"worker", name}});
  }
  Json claim(const std::string& name = "w") const {
    const Reply given = come(name);
    REQUIRE(given.status == 200);
    return given.body;
  }
  [[nodiscard]] Reply say(const Json& task, const std::string& what, Json more, const std::string& name = "w") const {
    more["epoch"] = task["epoch"];
    more["worker"] = name;
    return ask("/v1/tasks/" + std::to_string(task["task"].get<int>()) + "/" + what, more);
  }
  [[nodiscard]] Json show(std::int64_t run) const {
    return Json::parse(front.ask("GET", "/v1/runs/" + std::to_string(run)).body);
  }
};

const Json kDown = {{"error", {{"code", "Down"}, {"message", "no"}}}};

}  // namespace

TEST_CASE("[K8] tasks: a native run's task is done over HTTP, and the same outcome again changes nothing") {
  const Worker worker;
  CHECK(worker.come().status == 204);
  const std::int64_t run = worker.front.start("chore", R"({"n": 3})");
  worker.front.until(run, "waiting");
  CHECK(worker.ask("/v1/tasks/claim", {{"functions", {"other"}}}).status == 204);
  const Json task = worker.claim();
  CHECK(task["function"] == "shrink");
  CHECK(task["request"] == Json({{"n", 3}}));
  CHECK(task["execution"] == 1);
  CHECK(task["idempotency_key"].get<std::string>().size() == 32);
  CHECK(worker.come("second").status == 204);  // it is taken
  CHECK(worker.say(task, "complete", {{"result", {{"n", 1}}}}, "second").code() == "lease_lost");
  CHECK(worker.say(task, "complete", {{"result", {{"n", 1}}}, {"usage", {{"tokens", 5}}}}).state() == "recorded");
  CHECK(worker.say(task, "complete", {{"result", {{"n", 1}}}}).state() == "recorded");
  CHECK(worker.say(task, "complete", {{"result", {{"n", 2}}}}).code() == "lease_lost");
  worker.front.until(run, "completed");
  CHECK(worker.show(run)["result"] == Json({{"n", 1}}));
  CHECK(worker.show(run)["usage"]["tokens"] == 5);
}

TEST_CASE("[E2] tasks: a failed one is offered again after its delay, a final failure is the run's") {
  Worker worker;
  const std::int64_t run = worker.front.start("chore");
  worker.front.until(run, "waiting");
  const Json task = worker.claim();
  CHECK(worker.say(task, "fail", kDown).state() == "again");
  CHECK(worker.come().status == 204);
  worker.front.rig.advance(2'000);
  const Json second = worker.claim();
  CHECK(second["task"] == task["task"]);
  CHECK(second["epoch"] == 2);
  CHECK(second["execution"] == 2);
  CHECK(second["idempotency_key"] == task["idempotency_key"]);
  Json final = kDown;
  final["retryable"] = false;
  CHECK(worker.say(second, "fail", final).state() == "recorded");
  worker.front.until(run, "failed");
  CHECK(worker.show(run)["error"]["code"] == "Down");
}

TEST_CASE("[N95] tasks: a worker over HTTP that is not heard of has lost its task, and what it says late is kept") {
  Worker worker;
  const std::int64_t run = worker.front.start("chore");
  worker.front.until(run, "waiting");
  const Json task = worker.claim();
  for (int i = 0; i < 3; ++i) {
    worker.front.rig.advance(29'000);
    CHECK(worker.say(task, "heartbeat", Json::object()).state() == "ok");
    (void)worker.front.rig.sweep->pass();
  }
  CHECK(worker.come("second").status == 204);
  worker.front.rig.clock.step_wall(-3'600'000);
  worker.front.rig.advance(30'000);
  (void)worker.front.rig.sweep->pass();
  const Json second = worker.claim("second");
  CHECK(second["execution"] == 2);
  CHECK(worker.say(task, "heartbeat", Json::object()).code() == "lease_lost");
  CHECK(worker.say(task, "complete", {{"result", 1}}).code() == "lease_lost");
  CHECK(worker.front.rig.count_events(RunId(run), "step.late_outcome") == 1);
  CHECK(worker.say(second, "complete", {{"result", 2}}, "second").state() == "recorded");
  worker.front.until(run, "completed");
  CHECK(worker.show(run)["result"] == 2);
}

TEST_CASE("[C6] tasks: the wall clock an hour ahead takes no task from a worker that is heard of") {
  Worker worker;
  const std::int64_t run = worker.front.start("chore");
  worker.front.until(run, "waiting");
  const Json task = worker.claim();
  worker.front.rig.clock.step_wall(3'600'000);
  for (int i = 0; i < 4; ++i) {
    worker.front.rig.advance(25'000);
    (void)worker.front.rig.sweep->pass();
    CHECK(worker.say(task, "heartbeat", Json::object()).state() == "ok");
  }
  CHECK(worker.say(task, "complete", {{"result", 2}}).state() == "recorded");
  CHECK(worker.front.rig.count_events(RunId(run), "step.lapsed") == 0);
}

TEST_CASE("[K8] tasks: a remote run asks for one, and nobody but its worker may answer") {
  Worker worker;
  REQUIRE(worker.ask("/v1/workflows", {{"name", "far"}, {"version", "1"}}).status == 200);
  const std::int64_t run = worker.front.start("far");
  const auto drive = [&] {
    const Json given = worker.ask("/v1/attempts", {{"workflows", {"far"}}}).body;
    return std::pair("Authorization: Bearer " + given["token"].get<std::string>() + "\r\n",
                     given["attempt"].get<std::string>());
  };
  const Json ask = {{"seq", 1}, {"name", "grow"}, {"request", {{"n", 1}}}};
  auto [token, at] = drive();
  CHECK(worker.ask(at + "tasks", ask, token).state() == "suspended");
  const Json task = worker.claim();
  CHECK(worker.ask("/v1/tasks/999/complete", {{"epoch", 1}, {"result", 1}}).code() == "task_not_found");
  CHECK(worker.say(task, "fail", Json::object()).status == 422);
  CHECK(worker.front.page()
            .ask("POST", "/v1/tasks/claim", R"({"functions":["grow"]})", "Authorization: Bearer bide_READER\r\n")
            .status == 403);
  const HttpAnswer other = worker.front.page().ask(
      "POST", "/v1/tasks/" + std::to_string(task["task"].get<int>()) + "/complete",
      R"({"epoch":1,"worker":"w","result":1})", "Authorization: Bearer " + kAdminToken + "\r\n");
  CHECK(other.status == 409);  // another credential is another worker
  CHECK(worker.say(task, "complete", {{"result", {{"n", 9}}}}).state() == "recorded");
  std::tie(token, at) = drive();
  CHECK(worker.ask(at + "tasks", ask, token).body["result"] == Json({{"n", 9}}));
  CHECK(worker.ask(at + "finish", {{"result", 1}}, token).body["status"] == "completed");
  worker.front.until(run, "completed");
}
