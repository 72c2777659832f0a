// Remote workflows over HTTP, as an app sees them: registration, claims, the attempt's protocol with branch and seq.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"

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

// An app's worker: one claimed run at a time.
struct App {
  AgentFront front;
  std::int64_t run = 0;
  std::string token;

  explicit App(const Json& more = Json::object()) { add("1", more); }
  void add(const std::string& version, const Json& more = Json::object()) const {
    Json body = {{"name", "pay"}, {"version", version}};
    body.update(more);
    REQUIRE(front.ask("POST", "/v1/workflows", body.dump()).status == 200);
  }
  [[nodiscard]] Reply ask(const std::string& target, const Json& body, const std::string& fields = {}) const {
    const HttpAnswer answer = front.ask("POST", target, body.dump(), fields);
    return {answer.status, answer.body.empty() ? Json() : Json::parse(answer.body)};
  }
  [[nodiscard]] Reply come(const Json& more = Json::object()) const {
    Json body = {{"workflows", {"pay"}}, {"worker", "w"}};
    body.update(more);
    return ask("/v1/attempts", body);
  }
  // Claims what is due, and speaks for it from now on.
  Json claim(const Json& more = Json::object()) {
    const Reply given = come(more);
    REQUIRE(given.status == 200);
    run = given.body["run"];
    token = given.body["token"];
    return given.body;
  }
  [[nodiscard]] Reply post(const std::string& operation, const Json& body) const {
    return with(token, operation, body);
  }
  [[nodiscard]] Reply with(const std::string& of, const std::string& operation, const Json& body) const {
    return ask("/v1/runs/" + std::to_string(run) + "/attempt/" + operation, body,
               "Authorization: Bearer " + of + "\r\n");
  }
  [[nodiscard]] Reply begin(int seq, const std::string& name, Json more = Json::object()) const {
    more["seq"] = seq;
    more["name"] = name;
    return post("steps", more);
  }
  [[nodiscard]] Reply complete(const Json& begun, const Json& result) const {
    return post("steps/" + std::to_string(begun["step"].get<int>()) + "/complete",
                {{"nonce", begun["nonce"]}, {"result", result}});
  }
  [[nodiscard]] Json show() const { return Json::parse(front.ask("GET", "/v1/runs/" + std::to_string(run)).body); }
  [[nodiscard]] int events(const std::string& kind) const {
    return const_cast<Rig&>(front.rig).count_events(RunId(run), kind);
  }
};

const Json kApproval = {{"seq", 2}, {"kind", "approval"}, {"name", "go"}, {"request", {{"text", "May it go?"}}}};

}  // namespace

TEST_CASE("remote: an app claims its run, does a step, waits suspended, goes on and ends it") {
  App app;
  CHECK(app.come().status == 204);
  const std::int64_t run = app.front.start("pay", R"({"amount": 1.50})");
  const Json given = app.claim();
  CHECK(given["run"] == run);
  CHECK(given["version"] == "1");
  CHECK(given["input"].dump() == R"({"amount":1.5})");
  CHECK(app.come().status == 204);  // it is taken
  const Reply begun = app.begin(1, "charge", {{"effect", "idempotent"}});
  REQUIRE(begun.state() == "execute");
  CHECK(begun.body["execution"] == 1);
  const Reply done = app.complete(begun.body, {{"id", 7}});
  CHECK(done.state() == "settled");
  CHECK(app.complete(begun.body, {{"id", 7}}).body == done.body);
  CHECK(app.post("waits", kApproval).state() == "suspended");
  app.front.until(run, "waiting");
  CHECK(app.post("waits", kApproval).state() == "suspended");  // it was told to stop
  CHECK(app.come().status == 204);
  const std::int64_t wait = app.front.wait_of(run);
  CHECK(app.front.ask("POST", "/v1/waits/" + std::to_string(wait) + "/resolve", R"({"decision":"approved"})").status ==
        200);
  CHECK(app.claim()["epoch"] == 2);
  const Reply again = app.begin(1, "charge", {{"effect", "idempotent"}});
  CHECK(again.state() == "settled");
  CHECK(again.body["result"] == Json({{"id", 7}}));
  const Reply answered = app.post("waits", kApproval);
  CHECK(answered.state() == "settled");
  CHECK(answered.body["result"]["decision"] == "approved");
  CHECK(app.post("finish", {{"result", {{"ok", true}}}}).body == Json({{"state", "ended"}, {"status", "completed"}}));
  CHECK(app.post("finish", {{"result", 1}}).body == Json({{"state", "ended"}, {"status", "completed"}}));  // said twice
  CHECK(app.show()["result"] == Json({{"ok", true}}));
}

TEST_CASE("[J5] remote: the same begin twice has the same answer, a branch does one thing after the other") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  const Reply begun = app.begin(1, "a");
  REQUIRE(begun.state() == "execute");
  CHECK(app.begin(1, "a").body == begun.body);
  CHECK(app.begin(2, "b").code() == "branch_busy");
  CHECK(app.begin(3, "c").code() == "bad_seq");
  const Reply other = app.post("steps", {{"branch", "x"}, {"seq", 1}, {"name", "d"}});
  CHECK(other.state() == "execute");
  CHECK(app.complete(begun.body, 1).state() == "settled");
  CHECK(app.begin(3, "c").code() == "bad_seq");
  CHECK(app.begin(1, "a").body["result"] == 1);
  CHECK(app.begin(2, "b").state() == "execute");
  CHECK(app.post("steps", {{"name", "without a place"}}).code() == "bad_seq");
  CHECK(app.front.rig.journal(RunId(app.run)).size() == 3);
}

TEST_CASE("[J5] remote: the same begin from many connections at once is written once") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  for (int seq = 1; seq <= 20; ++seq) {
    std::vector<std::thread> askers;
    std::vector<Reply> replies(6);
    const bool waits = seq % 2 == 0;
    for (auto& reply : replies) {
      askers.emplace_back([&app, &reply, seq, waits] {
        reply =
            waits ? app.post("values", {{"seq", seq}, {"name", "uuid"}}) : app.begin(seq, "s", {{"effect", "pure"}});
      });
    }
    for (auto& asker : askers) asker.join();
    for (const Reply& reply : replies) CHECK(reply.body == replies.front().body);
    if (!waits) REQUIRE(app.complete(replies.front().body, seq).state() == "settled");
  }
  CHECK(app.front.rig.journal(RunId(app.run)).size() == 20);
}

TEST_CASE("[K2] remote: what a worker that has lost its lease hands in is kept as evidence and changes nothing") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  const std::string old = app.token;
  const Reply begun = app.begin(1, "charge");
  app.front.rig.advance(31'000);
  (void)app.front.rig.sweep->pass();
  CHECK(app.events("run.recovered") == 1);
  CHECK(app.claim()["epoch"] == 2);
  const std::string path = "steps/" + std::to_string(begun.body["step"].get<int>()) + "/complete";
  const Json outcome = {{"nonce", begun.body["nonce"]}, {"result", "late"}};
  CHECK(app.with(old, path, outcome).code() == "lease_lost");
  CHECK(app.with(old, "heartbeat", Json::object()).code() == "lease_lost");
  CHECK(app.with(old, "finish", {{"result", 1}}).code() == "lease_lost");
  CHECK(app.events("step.late_outcome") == 1);
  CHECK(app.with("bat_" + std::to_string(app.run) + "_2_0000", "heartbeat", Json::object()).status == 401);
  // E1: nobody knows whether it ran: the run waits for a person, who sees what came late.
  CHECK(app.begin(1, "charge").state() == "suspended");
  const std::int64_t wait = app.front.wait_of(app.run);
  const Json asked = Json::parse(app.front.ask("GET", "/v1/waits/" + std::to_string(wait)).body);
  CHECK(asked.dump().find("late") != std::string::npos);
  CHECK(app.front.ask("POST", "/v1/waits/" + std::to_string(wait) + "/resolve", R"({"answer":"ran","result":5})")
            .status == 200);
  app.claim();
  CHECK(app.begin(1, "charge").body["result"] == 5);
  CHECK(app.post("finish", {{"result", 1}}).state() == "ended");
}

TEST_CASE("[K1] remote: a lease is renewed by each call, and a worker that is silent for 30 s has lost its run") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  for (int i = 0; i < 4; ++i) {
    app.front.rig.advance(20'000);
    CHECK(app.post("heartbeat", Json::object()).state() == "ok");
    (void)app.front.rig.sweep->pass();
  }
  app.front.rig.advance(29'999);
  (void)app.front.rig.sweep->pass();
  CHECK(app.events("run.recovered") == 0);
  app.front.rig.advance(1);
  (void)app.front.rig.sweep->pass();
  CHECK(app.events("run.recovered") == 1);
  CHECK(app.post("heartbeat", Json::object()).code() == "lease_lost");
}

TEST_CASE("[N85] remote: the wall clock an hour ahead and back ends no lease and brings none to life again") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  app.front.rig.clock.step_wall(3'600'000);
  for (int i = 0; i < 3; ++i) {
    app.front.rig.advance(25'000);
    (void)app.front.rig.sweep->pass();
    CHECK(app.post("heartbeat", Json::object()).state() == "ok");
  }
  app.front.rig.clock.step_wall(-7'200'000);
  app.front.rig.advance(31'000);
  (void)app.front.rig.sweep->pass();
  CHECK(app.events("run.recovered") == 1);
  CHECK(app.post("heartbeat", Json::object()).code() == "lease_lost");
}

TEST_CASE("[K3] remote: time in which the agent was stalled is added to a lease") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  app.front.rig.advance(90'000);  // no pass in between: nobody was answered either
  (void)app.front.rig.sweep->pass();
  CHECK(app.events("run.recovered") == 0);
  CHECK(app.post("heartbeat", Json::object()).state() == "ok");
}

TEST_CASE("[A3] remote: a branch that waits does not hold back one that goes on") {
  App app;
  const std::int64_t run = app.front.start("pay");
  app.claim();
  const Json asks = {{"branch", "a"},      {"seq", 1},     {"branches", 2},
                     {"kind", "approval"}, {"name", "go"}, {"request", {{"text", "?"}}}};
  const Json hears = {{"branch", "b"}, {"seq", 2}, {"branches", 2}, {"kind", "signal"}, {"name", "news"}};
  CHECK(app.post("waits", asks).state() == "waiting");
  const Reply begun = app.post("steps", {{"branch", "b"}, {"seq", 1}, {"name", "work"}});
  REQUIRE(begun.state() == "execute");
  CHECK(app.post("waits", asks).state() == "waiting");  // a step executes: the gate is open
  CHECK(app.complete(begun.body, 1).state() == "settled");
  CHECK(app.post("waits", asks).state() == "waiting");
  CHECK(app.post("waits", hears).state() == "suspended");
  app.front.until(run, "waiting");
  (void)app.front.rig.signal(RunId(run), "news", "5");
  app.claim();
  CHECK(app.post("waits", asks).state() == "waiting");
  (void)app.post("steps", {{"branch", "b"}, {"seq", 1}, {"name", "work"}});
  CHECK(app.post("waits", hears).body["result"]["payload"] == 5);
  Json alone = asks;  // branch b is over
  alone["branches"] = 1;
  CHECK(app.post("waits", alone).state() == "suspended");
}

TEST_CASE("[A2] remote: an answer to a wait that is not asked for just now suspends nothing and spins nothing") {
  App app;
  const std::int64_t run = app.front.start("pay");
  app.claim();
  const auto ask = [&](const std::string& branch) {
    return app.post("waits", {{"branch", branch}, {"seq", 1}, {"branches", 2}, {"kind", "signal"}, {"name", branch}});
  };
  CHECK(ask("a").state() == "waiting");
  (void)app.front.rig.signal(RunId(run), "a", "1");
  CHECK(ask("b").state() == "waiting");  // a is answered, and its branch will ask again
  CHECK(ask("a").state() == "settled");
  CHECK(app.show()["status"] == "running");
}

TEST_CASE("[J4] [J9] remote: another request, or an entry that was not asked for, ends the run as NonDeterminism") {
  App app;
  const std::int64_t run = app.front.start("pay");
  app.claim();
  (void)app.complete(app.begin(1, "a", {{"request", 1}}).body, 1);
  CHECK(app.post("waits", kApproval).state() == "suspended");
  (void)app.front.rig.resolve(WaitId(app.front.wait_of(run)), R"({"decision":"approved"})");
  SECTION("another request") {
    app.claim();
    CHECK(app.begin(1, "a", {{"request", 2}}).state() == "ended");
  }
  SECTION("not asked for") {
    app.claim();
    (void)app.begin(1, "a", {{"request", 1}});
    CHECK(app.post("finish", {{"result", 1}}).body["status"] == "failed");
  }
  const Json shown = app.show();
  CHECK(shown["status"] == "failed");
  CHECK(shown["error"]["code"] == "NonDeterminism");
  CHECK(app.post("heartbeat", Json::object()).state() == "ended");
}

TEST_CASE("[J9] remote: a code that ends twice with an open step fails with OpenSteps") {
  App app;
  (void)app.front.start("pay");
  for (int i = 0; i < 2; ++i) {
    app.claim();
    CHECK(app.begin(1, "a", {{"effect", "pure"}}).state() == "execute");
    const Reply ended = app.post("finish", {{"result", 1}});
    CHECK(ended.state() == (i == 0 ? "suspended" : "ended"));
  }
  CHECK(app.show()["error"]["code"] == "OpenSteps");
}

TEST_CASE("[E1] remote: a step of a lost attempt is run again, probed or asked, as its effect says") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  const Json idempotent = {{"effect", "idempotent"}};
  const Reply first = app.begin(1, "a", idempotent);
  app.front.rig.advance(31'000);
  (void)app.front.rig.sweep->pass();
  app.claim();
  const Reply second = app.begin(1, "a", idempotent);
  CHECK(second.body["execution"] == 2);
  CHECK(second.body["idempotency_key"] == first.body["idempotency_key"]);
  CHECK(second.body["nonce"] != first.body["nonce"]);
  CHECK(app.complete(first.body, 1).code() == "stale_nonce");
  CHECK(app.complete(second.body, 1).state() == "settled");
  const Json probed = {{"probe", "look at the ledger"}};
  CHECK(app.begin(2, "b", probed).state() == "execute");
  app.front.rig.advance(31'000);
  (void)app.front.rig.sweep->pass();
  app.claim();
  (void)app.begin(1, "a", idempotent);
  const Reply asked = app.begin(2, "b", probed);
  REQUIRE(asked.state() == "probe");
  CHECK(asked.body["probe"] == "look at the ledger");
  CHECK(app.begin(2, "b", probed).body == asked.body);
  const Reply told = app.post("steps/2/probe", {{"nonce", asked.body["nonce"]}, {"verdict", "ran"}, {"result", 9}});
  CHECK(told.body["result"] == 9);
}

TEST_CASE("[E2] remote: a failed step is retried after its delay, and finally fails for the app") {
  App app;
  (void)app.front.start("pay");
  app.claim();
  const Json ask = {{"effect", "idempotent"}, {"retries", 1}, {"backoff_ms", 60'000}};
  const Reply begun = app.begin(1, "a", ask);
  const auto fail = [&](const Reply& of) {
    return app.post("steps/1/fail", {{"nonce", of.body["nonce"]}, {"error", {{"code", "Down"}, {"message", "no"}}}});
  };
  CHECK(fail(begun).state() == "suspended");
  CHECK(app.come().status == 204);
  app.front.rig.advance(60'000);
  app.claim();
  const Reply second = app.begin(1, "a", ask);
  CHECK(second.body["execution"] == 2);
  const Reply failed = fail(second);
  CHECK(failed.state() == "failed");
  CHECK(failed.body["error"]["code"] == "Down");
  CHECK(app.show()["status"] == "running");  // it is the app's to end it
  CHECK(app.post("finish", {{"error", {{"code", "Gave up"}, {"message", "m"}}}}).state() == "ended");
  CHECK(app.show()["error"]["code"] == "Gave up");
}

TEST_CASE("[X1] remote: a cancel is met at the next call, what executes is recorded, a silent worker is left behind") {
  App app;
  const std::int64_t run = app.front.start("pay");
  app.claim();
  const Reply begun = app.begin(1, "a");
  (void)app.front.rig.cancel(RunId(run));
  CHECK(app.post("steps", {{"branch", "x"}, {"seq", 1}, {"name", "b"}}).state() == "ending");
  SECTION("it hands in") {
    CHECK(app.complete(begun.body, 1).state() == "settled");
    CHECK(app.begin(2, "c").state() == "ended");
    CHECK(app.front.rig.journal(RunId(run)).front().status == kernel::StepStatus::completed);
  }
  SECTION("it says nothing more") {
    for (int i = 0; i < 3; ++i) {
      app.front.rig.advance(10'000);
      (void)app.post("heartbeat", Json::object());
      (void)app.front.rig.sweep->pass();
    }
    CHECK(app.complete(begun.body, 1).code() == "lease_lost");
  }
  CHECK(app.show()["status"] == "cancelled");
}

TEST_CASE(
    "[K4] remote: attempts outlive the agent, their steps go on, and their leases have a whole time from its start") {
  App app;
  const std::int64_t run = app.front.start("pay");
  app.claim();
  (void)app.complete(app.begin(1, "a").body, 1);
  const Reply begun = app.begin(2, "b");
  app.front.restart();
  CHECK(app.begin(2, "b").body == begun.body);
  CHECK(app.begin(3, "c").code() == "branch_busy");
  CHECK(app.complete(begun.body, 2).state() == "settled");
  app.front.rig.advance(29'000);
  (void)app.front.rig.sweep->pass();
  const Json hears = {{"seq", 3}, {"kind", "signal"}, {"name", "s"}};
  CHECK(app.post("waits", hears).state() == "suspended");
  (void)app.front.rig.signal(RunId(run), "s");
  app.claim();
  (void)app.begin(1, "a");
  (void)app.begin(2, "b");
  CHECK(app.post("waits", hears).state() == "settled");
  app.front.restart();
  CHECK(app.post("finish", {{"result", 3}}).state() == "ended");  // what it had asked for is not known any more
  CHECK(app.show()["status"] == "completed");
}

TEST_CASE("[O7] remote: an app with a URL is told of each run that is due, and claims it by its number") {
  App app(Json{{"url", "http://127.0.0.1:9/wake"}});
  const auto wakes = [&] {
    return app.front.rig.number("SELECT count(*) FROM outbox WHERE kind = 'wake' AND destination LIKE '%/wake'");
  };
  const std::int64_t run = app.front.start("pay");
  eventually([&] { return wakes() == 1; }, "a wake is written");
  CHECK(app.come({{"run", run + 1}}).status == 204);
  CHECK(app.claim({{"run", run}})["run"] == run);
  CHECK(app.post("waits", {{"seq", 1}, {"kind", "signal"}, {"name", "s"}}).state() == "suspended");
  CHECK(wakes() == 1);
  (void)app.front.rig.signal(RunId(run), "s");
  eventually([&] { return wakes() == 2; }, "it is told again");
  app.front.rig.executor->ring();
  app.claim();
  CHECK(wakes() == 2);
}

TEST_CASE("[K1] remote: versions, what a newer one accepts, limits, and names that are taken") {
  App app;
  const std::int64_t old = app.front.start("pay");
  app.add("2", {{"accepts", {"1"}}, {"max_running", 1}});
  const std::int64_t fresh = app.front.start("pay");
  CHECK(app.come({{"workflows", {"nobody"}}}).code() == "workflow_unknown");
  CHECK(app.come({{"workflows", {{{"name", "pay"}, {"version", "3"}}}}}).code() == "workflow_unknown");
  const Json first = app.claim();
  CHECK(first["run"] == old);
  CHECK(first["version"] == "2");
  CHECK(app.events("run.moved") == 1);
  CHECK(app.come().status == 204);  // max_running
  CHECK(app.post("finish", {{"result", 1}}).state() == "ended");
  CHECK(app.claim()["run"] == fresh);
  CHECK(app.ask("/v1/workflows", {{"name", "echo"}, {"version", "1"}}).code() == "workflow_taken");
  CHECK(app.ask("/v1/workflows", {{"name", "pay"}}).status == 422);
  CHECK(app.ask("/v1/attempts", {{"workflows", Json::array()}}).status == 422);
  CHECK(app.front.page()
            .ask("POST", "/v1/attempts", R"({"workflows":["pay"]})", "Authorization: Bearer bide_READER\r\n")
            .status == 403);
}

TEST_CASE("remote: a first of several, a value, a state, a message, a child and a release") {
  App app;
  const std::int64_t run = app.front.start("pay");
  app.claim();
  const Json group = {
      {"seq", 1},
      {"name", "either"},
      {"alternatives",
       {{{"kind", "signal"}, {"name", "s"}}, {{"kind", "timer"}, {"name", "t"}, {"request", {{"sleep_ms", 60'000}}}}}}};
  CHECK(app.post("waits/any", group).state() == "suspended");
  (void)app.front.rig.signal(RunId(run), "s", "3");
  app.claim();
  const Reply won = app.post("waits/any", group);
  CHECK(won.body["result"]["won"] == "s");
  const Reply now = app.post("values", {{"seq", 2}, {"name", "now"}});
  CHECK(app.post("values", {{"seq", 2}, {"name", "now"}}).body == now.body);
  CHECK(app.post("state", {{"seq", 3}, {"name", "colour"}, {"value", "red"}}).state() == "settled");
  const Reply sent = app.post("messages", {{"seq", 4}, {"name", "send"}, {"url", "http://127.0.0.1:9/"}});
  CHECK(sent.body["result"].contains("delivery"));
  const Json child = {{"seq", 5}, {"name", "kid"}, {"workflow", "echo"}, {"input", {{"n", 1}}}};
  const std::string state = app.post("calls", child).state();
  CHECK((state == "suspended" || state == "settled"));
  if (state == "suspended") {
    eventually(
        [&] {
          return app.come({{"run", run + 1000}}).status == 204 && app.show()["status"] == "queued";
        },
        "the child has ended");
    app.claim();
    (void)app.post("waits/any", group);
    (void)app.post("values", {{"seq", 2}, {"name", "now"}});
    (void)app.post("state", {{"seq", 3}, {"name", "colour"}, {"value", "red"}});
    (void)app.post("messages", {{"seq", 4}, {"name", "send"}, {"url", "http://127.0.0.1:9/"}});
    CHECK(app.post("calls", child).body["result"] == Json({{"n", 1}}));
  }
  CHECK(app.post("release", Json::object()).state() == "suspended");
  CHECK(app.claim()["run"] == run);
}
