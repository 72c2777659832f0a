// Deliveries of a real agent to real receivers, through kills and stops [F04, F06, N1, N2, O1 to O6].
#include <catch2/catch.hpp>

#include <sqlite3.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"
#include "tests/support/sink.h"

namespace bide {
namespace {

using namespace std::chrono_literals;
using test::CrashBox;
using test::eventually;
using test::Sink;
using Json = nlohmann::json;

// A box whose messages may go to loopback.
struct Box : CrashBox {
  Box() {
    kill_agent();
    const std::string config = folder() + "/bide.toml";
    test::write_file(config, "allow_targets = \"127.0.0.1\"\n");
    flags = {"--config", config};
    serve();
  }
  Json hook(const std::string& url, const Json& events) {
    const auto [status, made] =
        ask("POST", "/v1/webhooks", {{"url", url}, {"events", events}, {"allow", {"127.0.0.1"}}});
    REQUIRE(status == 201);
    return made;
  }
  int rows() { return std::stoi(sql("SELECT count(*) FROM outbox")); }
  void stop() {
    agent().signal(SIGTERM);
    REQUIRE(agent().wait(20s));
  }
  // As by a shell, while the agent is stopped.
  void change(const std::string& text) const {
    sqlite3* file = nullptr;
    REQUIRE(sqlite3_open((data() + "/bide.db").c_str(), &file) == SQLITE_OK);
    const int done = sqlite3_exec(file, text.c_str(), nullptr, nullptr, nullptr);
    INFO(sqlite3_errmsg(file));
    sqlite3_close(file);
    REQUIRE(done == SQLITE_OK);
  }
  // Rows that the next start makes due, with the bodies 1, 2, …
  void enqueue(const Sink& sink, int count) const {
    change("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + std::to_string(count) +
           ") INSERT INTO outbox (kind, lane, destination, request, idem_key, next_try_at, created_at) SELECT "
           "'message', 'http://" +
           sink.address() + "', '" + sink.url() + "', i, '" + sink.address() + "#' || i, 4000000000000, 1 FROM n");
  }
  // Starts the agent so that it kills itself at that point.
  void serve_until(const std::string& point) {
    auto command = serve_command();
    command.env.emplace_back("BIDE_CRASH_AT", point);
    armed.emplace(command);
    eventually([&] { return ask("GET", "/readyz").first == 200 || !armed->running(); }, "ready", 60s);
  }
  std::optional<test::Process> armed;
};

std::set<std::string> keys_of(const std::vector<Sink::Request>& requests, const std::string& field) {
  std::set<std::string> keys;
  for (const auto& one : requests) keys.insert(one.field(field));
  return keys;
}

TEST_CASE("[N2] killed between every two steps of a delivery: nothing is lost, and what comes twice has one key") {
  Sink sink;
  Box box;
  box.program("post", "bide send '" + sink.url() + "' --data '{\"n\": 1.50}'\nbide result done=1\n");
  // Requests that the receiver sees: a second one only where its answer was not recorded.
  const std::map<std::string, std::size_t> points = {
      {"outbox.committed", 1}, {"outbox.before_send", 1}, {"outbox.sent_before_record", 2}, {"outbox.recorded", 1}};
  for (const auto& [point, wanted] : points) {
    const std::size_t requests = wanted;
    INFO(point);
    const std::size_t before = sink.count();
    box.kill_agent();
    box.serve_until(point);
    (void)box.ask("POST", "/v1/runs", {{"workflow", "post"}});
    const auto ended = box.armed->wait(60s);
    REQUIRE(ended);
    CHECK(ended->signal == SIGKILL);
    box.serve();
    eventually([&] { return box.rows() == 0 && sink.count() >= before + requests; }, "delivered", 60s);
    auto seen = sink.requests();
    seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(before));
    CHECK(seen.size() == requests);
    CHECK(keys_of(seen, "idempotency-key").size() == 1);
    for (const auto& one : seen) CHECK(one.body == "{\"n\": 1.50}");
    const std::string run = box.sql("SELECT max(id) FROM runs");
    box.until_status(std::stoll(run), "completed");
    CHECK(box.sql("SELECT count(*) FROM steps WHERE kind = 'message' AND run_id = " + run) == "1");
  }
}

TEST_CASE("[F04] tries of one event have one id and one body, each signature verifies, through a kill in the fourth") {
  Sink sink([](const Sink::Request&, int n) {
    if (n <= 2) return Sink::act(Sink::Reply::Act::reset);
    if (n == 3) return Sink::status(500);
    Sink::Reply slow = Sink::status(200);
    if (n == 4) slow.after = 30s;
    return slow;
  });
  Box box;
  box.program("ok", "bide result done=1\n");
  const Json hook = box.hook(sink.url(), {"run.completed"});
  (void)box.start("ok");
  eventually([&] { return sink.count() == 4; }, "the fourth try", 60s);
  box.kill_agent();
  CHECK(box.rows() == 1);
  const int tries = std::stoi(box.sql("SELECT tries FROM outbox"));
  box.serve();
  eventually([&] { return sink.count() >= 5 && box.rows() == 0; }, "delivered", 60s);
  CHECK(tries == 2);  // the first was right after the commit, the fourth was cut off by the kill
  const auto seen = sink.requests();
  CHECK(keys_of(seen, "webhook-id").size() == 1);
  std::string lines;
  std::set<std::string> bodies;
  for (const auto& one : seen) {
    bodies.insert(one.body);
    lines += Json{{"secret", hook["secret"]},
                  {"id", one.field("webhook-id")},
                  {"timestamp", std::stoll(one.field("webhook-timestamp"))},
                  {"text", one.body},
                  {"signature", one.field("webhook-signature")}}
                 .dump() +
             "\n";
  }
  CHECK(bodies.size() == 1);
  const auto verified = test::run(
      {.argv = {"python3", "-B", std::string(BIDE_SOURCE_DIR) + "/tests/work/verify_signatures.py"}, .input = lines});
  std::string wanted;
  for (std::size_t i = 0; i < seen.size(); ++i) wanted += "ok\n";
  CHECK(verified.out == wanted);
}

TEST_CASE("[F06] an endpoint that never answers holds back no other, and a stop in the middle loses nothing") {
  constexpr int kEvents = 200;
  Sink hangs([](const Sink::Request&, int) {
    Sink::Reply reply = Sink::act(Sink::Reply::Act::drip);
    reply.every = 5s;
    return reply;
  });
  Sink good;
  Box box;
  box.stop();
  box.enqueue(hangs, kEvents);
  box.enqueue(good, kEvents);
  box.serve();
  eventually([&] { return good.count() == kEvents; }, "the good one has all", 10s);
  CHECK(hangs.most_at_once() == 1);
  eventually([&] { return hangs.count() == 2; }, "a drip does not extend the deadline", 15s);
  eventually([&] { return box.rows() == kEvents; }, "what was delivered is deleted");
  const auto began = std::chrono::steady_clock::now();
  box.stop();
  CHECK(std::chrono::steady_clock::now() - began < 6s);
  CHECK(box.rows() == kEvents);  // none lost, none marked delivered
  hangs.script({});
  box.serve();
  eventually([&] { return box.rows() == 0; }, "delivered", 60s);
  CHECK(keys_of(good.requests(), "idempotency-key").size() == kEvents);
  CHECK(keys_of(hangs.requests(), "idempotency-key").size() == kEvents);
}

TEST_CASE("[F05] two damaged rows park at once with their reason, 500 good ones behind them go out in order") {
  constexpr int kGood = 500;
  Sink sink;
  Box box;
  box.stop();
  box.enqueue(sink, kGood + 2);  // the first two are damaged
  box.change(
      "UPDATE outbox SET request = '{\"a\":' WHERE request = '1'; "
      "UPDATE outbox SET destination = 'foo://x', lane = 'foo://x' WHERE request = '2'");
  box.serve();
  eventually([&] { return sink.count() == kGood; }, [&] { return "arrived: " + std::to_string(sink.count()); }, 30s);
  eventually([&] { return box.rows() == 2; }, "what was delivered is deleted");
  std::vector<int> order;
  for (const auto& one : sink.requests()) order.push_back(std::stoi(one.body));
  CHECK(order.front() == 3);
  CHECK(std::adjacent_find(order.begin(), order.end(), [](int a, int b) { return b != a + 1; }) == order.end());
  CHECK(box.ask("GET", "/readyz").second["parked"] == 2);
  CHECK(box.sql("SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL AND tries = 1") == "2");
  CHECK(box.sql("SELECT last_error FROM outbox WHERE request = '{\"a\":'").find("not JSON") != std::string::npos);
  CHECK_FALSE(box.sql("SELECT last_error FROM outbox WHERE destination = 'foo://x'").empty());
}

TEST_CASE("[F05] a row that can never be sent is parked with its reason, shown, and dropped by an operator") {
  Sink sink;
  Box box;
  box.program("post", "bide send http://10.0.0.7/in\nbide send '" + sink.url() + "'\n");
  const auto run = box.start("post");
  box.until_status(run, "completed");
  eventually([&] { return sink.count() == 1; }, "the good one");
  eventually([&] { return box.ask("GET", "/readyz").second["parked"] == 1; }, "told in health");
  const auto listed = box.bide({"outbox", "--parked", "--json"});
  CHECK(listed.exit.code == 0);
  const Json rows = Json::parse(listed.out);
  REQUIRE(rows["items"].size() == 1);
  CHECK(rows["items"][0]["last_error"].get<std::string>().find("10.0.0.7:80 is no address of the public internet") ==
        0);
  CHECK(rows["items"][0]["status"] == "parked");
  const std::string id = std::to_string(rows["items"][0]["id"].get<std::int64_t>());
  CHECK(box.bide({"outbox", "retry", id}).exit.code == 0);
  eventually([&] { return box.events(run, "delivery.parked") == 2; }, "tried again, and parked again");
  CHECK(box.bide({"outbox", "drop", id}).exit.code == 0);
  CHECK(box.bide({"outbox", "drop", id}).exit.code == 3);
  CHECK(box.rows() == 0);
  eventually([&] { return box.ask("GET", "/readyz").second["parked"] == 0; }, "health again");
  CHECK(box.events(run, "delivery.dropped") == 1);
}

TEST_CASE("[O6] webhooks by the command line: added, tested, rotated, switched, listed, removed") {
  Sink sink;
  Box box;
  const auto refused = box.bide({"webhook", "add", sink.url()});
  CHECK(refused.exit.code == 2);  // an address inside that was not allowed
  const auto added = box.bide({"webhook", "add", sink.url(), "--event", "run.failed", "--event", "needs_attention",
                               "--allow", sink.address(), "--json"});
  REQUIRE(added.exit.code == 0);
  const Json made = Json::parse(added.out);
  CHECK(made["secret"].get<std::string>().starts_with("whsec_"));
  CHECK(made["events"] == Json({"run.failed", "needs_attention"}));
  const std::string id = std::to_string(made["id"].get<std::int64_t>());
  CHECK(box.bide({"webhook", "test", id}).exit.code == 0);
  eventually([&] { return sink.count() == 1; }, "the test arrives");
  CHECK(Json::parse(sink.requests()[0].body)["type"] == "webhook.test");
  CHECK(sink.requests()[0].field("webhook-signature").find(' ') == std::string::npos);
  CHECK(box.bide({"webhook", "rotate", id}).exit.code == 0);
  CHECK(box.bide({"webhook", "test", id}).exit.code == 0);
  eventually([&] { return sink.count() == 2; }, "the second test arrives");
  CHECK(sink.requests()[1].field("webhook-signature").find(" v1,") != std::string::npos);
  CHECK(box.bide({"webhook", "disable", id}).exit.code == 0);
  CHECK(box.bide({"webhook", "test", id}).exit.code == 4);
  CHECK(box.bide({"webhook", "enable", id}).exit.code == 0);
  const auto listed = box.bide({"webhook", "list", "--json"});
  CHECK(listed.out.find("whsec_") == std::string::npos);
  CHECK(Json::parse(listed.out)["items"][0]["enabled"] == true);
  CHECK(std::stoi(box.sql("SELECT count(*) FROM idempotency WHERE response LIKE '%/hook%'")) >= 2);
  CHECK(box.sql("SELECT count(*) FROM idempotency WHERE response LIKE '%whsec_%'") == "0");
  CHECK(box.bide({"webhook", "remove", id}).exit.code == 0);
  CHECK(box.bide({"webhook", "remove", id}).exit.code == 3);
}

}  // namespace
}  // namespace bide
