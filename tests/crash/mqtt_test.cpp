// A real agent that reports over a broker: webhooks and messages of workflows, and a broker that is down [O2 to O6].
#include <catch2/catch.hpp>

#include <sys/stat.h>

#include <cstdio>
#include <map>
#include <set>

#include "agent/base/clock.h"
#include "tests/crash/box.h"
#include "tests/support/eventually.h"
#include "tests/support/mqtt.h"

namespace bide {
namespace {

using namespace std::chrono_literals;
using test::Broker;
using test::CrashBox;
using test::eventually;
using test::Subscriber;
using Json = nlohmann::json;

struct Box : CrashBox {
  explicit Box(const std::string& config) {
    kill_agent();
    const std::string file = folder() + "/bide.toml";
    test::write_file(file, config);
    flags = {"--config", file};
    serve();
  }
  std::int64_t hook(const std::string& url) {
    const auto [status, made] =
        ask("POST", "/v1/webhooks", {{"url", url}, {"events", {"run.failed"}}, {"allow", {"127.0.0.1"}}});
    INFO(made.dump());
    REQUIRE(status == 201);
    return made["id"];
  }
  int rows() { return std::stoi(sql("SELECT count(*) FROM outbox")); }
};

TEST_CASE("[O3] a message of a workflow and an event go over a broker that wants a login, and no view shows it") {
  const test::TempDir dir;
  test::write_file(dir / "passwords", "box17:a-good-password\n");
  REQUIRE(test::run({.argv = {"mosquitto_passwd", "-U", dir.str("passwords")}}).exit.code == 0);
  const Broker broker({"allow_anonymous false", "password_file " + dir.str("passwords")});
  const Subscriber subscriber(broker, "#", "box17", "a-good-password");
  const auto brokers = [&](const std::string& password) {
    test::write_file(dir / "brokers.toml",
                     "[\"mqtt://" + broker.address() + "\"]\nuser = \"box17\"\npassword = \"" + password + "\"\n");
    ::chmod(dir.str("brokers.toml").c_str(), 0600);
  };
  brokers("not-that-password");
  Box box("allow_targets = \"127.0.0.1\"\nmqtt_brokers = \"" + dir.str("brokers.toml") + "\"\n");
  box.program("post", "bide send '" + broker.url("runs/done") + "' --data '{\"n\": 1.50}'\nbide result done=1\n");
  const auto hook = box.hook(broker.url("events"));
  CHECK(box.ask("POST", "/v1/webhooks/" + std::to_string(hook) + "/test", Json::object()).first == 202);
  box.until_status(box.start("post"), "completed");
  eventually([&] { return box.sql("SELECT count(*) FROM outbox WHERE tries > 0") >= std::string("2"); },
             "both are refused", 60s);
  const std::string why = box.sql("SELECT last_error FROM outbox WHERE kind = 'message'");
  CHECK(why == "mqtt://" + broker.address() + ": the broker refused the login: Not authorized (135)");
  CHECK(subscriber.count() == 0);
  const std::string refused = box.agent().err() + box.get("/v1/outbox").dump() + box.get("/v1/events").dump();
  CHECK(refused.find("Not authorized") != std::string::npos);
  CHECK(refused.find("password") == std::string::npos);
  CHECK(refused.find("box17") == std::string::npos);

  box.kill_agent();
  brokers("a-good-password");
  box.serve();
  const Json rows = box.get("/v1/outbox")["items"];
  for (const Json& row : rows)
    CHECK(box.ask("POST", "/v1/outbox/" + std::to_string(row["id"].get<int>()) + "/retry", Json::object()).first < 300);
  eventually([&] { return box.rows() == 0 && subscriber.count() >= 2; }, "delivered", 60s);
  std::map<std::string, Subscriber::Message> by_topic;
  for (const auto& one : subscriber.messages()) by_topic[one.topic] = one;
  const auto& message = by_topic["runs/done"];
  CHECK(message.body == "{\"n\": 1.50}");
  CHECK(message.content_type == "application/json");
  CHECK(message.property("Idempotency-Key").size() >= 16);
  const auto& event = by_topic["events"];
  CHECK(event.property("Idempotency-Key") == event.property("webhook-id"));
  CHECK(event.property("webhook-signature").starts_with("v1,"));
  CHECK(box.sql("SELECT count(*) FROM events WHERE kind = 'delivery.delivered'") == "2");
  for (const std::string& text : {box.agent().err(), box.sql("SELECT group_concat(payload) FROM events")})
    CHECK(text.find("a-good-password") == std::string::npos);
  const auto shown = box.bide({"serve", "--print-config", "--config", box.folder() + "/bide.toml"});
  CHECK(shown.out.find("mqtt_brokers = ") != std::string::npos);
  CHECK(shown.out.find("a-good-password") == std::string::npos);
}

TEST_CASE("[O6] a broker's URL is looked at when it is written down: no password, no address that is not allowed") {
  Box box("");
  const auto refusal = [&](const std::string& url) {
    const auto [status, said] = box.ask("POST", "/v1/webhooks", {{"url", url}});
    CHECK(status == 422);
    return said["errors"][0]["detail"].get<std::string>();
  };
  CHECK(refusal("mqtt://127.0.0.1:1883/t").find("was not allowed for this endpoint") != std::string::npos);
  CHECK(refusal("mqtts://u:hidden@broker.example/t").find("mqtt_brokers") != std::string::npos);
  CHECK(refusal("mqtts://broker.example").find("no topic") != std::string::npos);
  box.program("tell", "bide send mqtts://u:hidden@broker.example/t\nbide result done=1\n");
  const auto run = box.start("tell");
  box.until_status(run, "failed");
  const std::string error = box.show(run)["error"].dump();
  CHECK(error.find("holds no password") != std::string::npos);
  CHECK(error.find("hidden") == std::string::npos);
  CHECK(box.rows() == 0);
  CHECK(box.sql("SELECT count(*) FROM steps WHERE kind = 'message'") == "0");
}

// Events at a steady rate, of which the broker misses a part of the time.
void broker_down(std::chrono::seconds before, std::chrono::seconds down, std::chrono::seconds after, int a_second) {
  Broker broker;
  const Subscriber subscriber(broker, "fleet/#");
  Box box("");
  const std::string target = "/v1/webhooks/" + std::to_string(box.hook(broker.url("fleet/box"))) + "/test";
  SystemClock clock;
  const BootMs began = clock.boot_ms();
  int asked = 0;
  // As many events as are due by now: a machine that is slow for a moment catches up.
  const auto ask_for = [&](std::chrono::milliseconds length) {
    const BootMs from = clock.boot_ms();
    int made = 0;
    while (clock.boot_ms() - from < length.count()) {
      const auto due = static_cast<int>((clock.boot_ms() - from) * a_second / 1000);
      for (; made < due; ++made) REQUIRE(box.ask("POST", target, Json::object()).first == 202);
      (void)test::holds_within(10ms, [] { return false; });
    }
    asked += made;
    return made;
  };
  ask_for(before);
  eventually([&] { return subscriber.count() > 0; }, "the first events are there", 60s);
  broker.stop();
  const BootMs stopped = clock.boot_ms();
  const std::size_t heard = subscriber.count();
  const int missed = ask_for(down);
  CHECK(subscriber.count() == heard);
  CHECK(box.rows() >= missed);
  broker.start();
  const BootMs back = clock.boot_ms();
  ask_for(after);
  const BootMs asked_for = clock.boot_ms();
  eventually([&] { return box.rows() == 0; }, [&] { return std::to_string(box.rows()) + " rows are left"; }, 600s);
  const BootMs drained = clock.boot_ms();
  const auto events = static_cast<std::size_t>(asked);
  eventually([&] { return subscriber.keys_of_bodies().size() == events; },
             [&] { return std::to_string(subscriber.keys_of_bodies().size()) + " of " + std::to_string(events); }, 60s);
  std::set<std::string> keys;
  // The row's key, which stands in the message a second time.
  for (const auto& one : subscriber.messages()) REQUIRE(one.property("Idempotency-Key") == one.property("webhook-id"));
  std::size_t under_two = 0;
  for (const auto& [body, of] : subscriber.keys_of_bodies()) {
    under_two += of.size() == 1 ? 0 : 1;
    keys.insert(of.begin(), of.end());
  }
  CHECK(under_two == 0);
  CHECK(keys.size() == events);
  CHECK(box.sql("SELECT count(*) FROM events WHERE kind = 'delivery.parked'") == "0");
  CHECK(std::stoi(box.sql("SELECT count(*) FROM events WHERE kind = 'delivery.failed'")) >= missed);
  std::printf(
      "%d events in %lld ms, broker down for %lld ms (%d events meanwhile): %zu messages, %zu bodies, %zu keys, "
      "%zu bodies under two keys; all out %lld ms after it was back\n",
      asked, static_cast<long long>(asked_for - began), static_cast<long long>(back - stopped), missed,
      subscriber.count(), events, keys.size(), under_two, static_cast<long long>(drained - back));
}

TEST_CASE("[O5] a broker that is down for 3 s under a stream of events: all arrive, none under two keys") {
  broker_down(1s, 3s, 1s, 20);
}
TEST_CASE("[O5] a broker that is down for 60 s under 50 events a second: all arrive, none under two keys", "[.long]") {
  broker_down(5s, 60s, 5s, 50);
}

}  // namespace
}  // namespace bide
