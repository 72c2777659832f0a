// Messages of workflows and notices to webhooks, up to the transport [O1, J2, J3, O6].
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "agent/base/json.h"
#include "agent/kernel/outbox.h"
#include "agent/kernel/steps.h"
#include "agent/kernel/webhooks.h"
#include "tests/support/rig.h"

namespace bide {
namespace {

using kernel::RunStatus;
using test::MemoryTransport;
using test::Rig;

struct Sender : Rig {
  Sender() { deliveries = work::DelivererOptions{}; }
  WebhookId hook(const std::string& filter, const std::string& url = "http://hook.example/") {
    return store->write([&](db::Tx& tx) {
      kernel::NewWebhook made;
      made.url = url;
      made.filter = filter;
      made.secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
      return std::get<kernel::WebhookAdded>(kernel::add_webhook(tx, made, "ada", tx.now())).row.id;
    });
  }
  std::vector<std::string> types() {
    std::vector<std::string> all;
    for (const auto& one : transport.sent()) all.push_back(json::string_member(one.body, "type").value_or("?"));
    return all;
  }
};

TEST_CASE("[O1] a message of a native workflow: one entry, one row, one key, no second one at replay") {
  Sender rig;
  int entered = 0;
  rig.add("flow", [&](flow::Context& c) {
    ++entered;
    std::string sent = c.send("http://a.example/in", R"({"n": 1.50})");
    c.sleep(3'600'000);
    return sent;
  });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto entry = rig.journal(run).front();
  CHECK(entry.kind == kernel::StepKind::message);
  CHECK(entry.status == kernel::StepStatus::completed);
  CHECK(rig.number("SELECT count(*) FROM outbox") == 1);  // the run went on before anything was sent
  rig.deliver();
  REQUIRE(rig.transport.count() == 1);
  const auto sent = rig.transport.sent()[0];
  CHECK(sent.body == R"({"n": 1.50})");
  CHECK(MemoryTransport::header(sent, "Idempotency-Key") ==
        kernel::idempotency_key(rig.run(run).uid, entry.position, entry.name, entry.request_hash));
  rig.restart();
  rig.advance(3'600'000);
  rig.sweep->pass();
  rig.drive();
  rig.deliver();
  CHECK(entered == 2);
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.run(run).result == entry.result);
  CHECK(rig.transport.count() == 1);
  CHECK(rig.count_events(run, "message.sent") == 1);
  CHECK(rig.count_events(run, "delivery.delivered") == 1);
}

TEST_CASE("[O1] a message that cannot be delivered fails no run, and waits for an operator") {
  Sender rig;
  rig.add("flow", [](flow::Context& c) { return c.send("http://a.example/"); });
  rig.transport.answers([](const work::Envelope&) { return MemoryTransport::status(410); });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.deliver();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.deliverer->parked() == 1);
  CHECK(rig.count_events(run, "delivery.parked") == 1);
}

TEST_CASE("[J4] a message whose URL or data changes between attempts is NonDeterminism, and nothing is sent") {
  for (const bool url : {true, false}) {
    Sender rig;
    rig.add("flow", [](flow::Context& c) {
      c.send("http://a.example/", "1");
      c.sleep(3'600'000);
      return std::string("null");
    });
    const RunId run = rig.start("flow");
    rig.drive();
    rig.deliver();
    rig.replace("flow", [url](flow::Context& c) {
      return c.send(url ? "http://b.example/" : "http://a.example/", url ? "1" : "2");
    });
    rig.restart();
    rig.advance(3'600'000);
    rig.sweep->pass();
    rig.drive();
    rig.deliver();
    CHECK(rig.run(run).status == RunStatus::failed);
    CHECK(json::string_member(rig.run(run).error.value_or("{}"), "code") == "NonDeterminism");
    CHECK(rig.transport.count() == 1);
  }
}

TEST_CASE("[O1] what is no URL ends the run before a row is written") {
  Sender rig;
  rig.add("flow", [](flow::Context& c) { return c.send("mailto:a@b"); });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(rig.number("SELECT count(*) FROM outbox") == 0);
}

TEST_CASE("[X1] a message after a cancel is not sent") {
  Sender rig;
  Rig* box = &rig;
  RunId run;
  rig.add("flow", [&](flow::Context& c) {
    box->cancel(run);
    return c.send("http://a.example/");
  });
  run = rig.start("flow");
  rig.drive();
  rig.deliver();
  CHECK(rig.run(run).status == RunStatus::cancelled);
  CHECK(rig.transport.count() == 0);
  CHECK(rig.number("SELECT count(*) FROM outbox") == 0);
}

TEST_CASE("[O6] an endpoint hears of the kinds, workflow and mission of its filter, signed, in their order") {
  Sender rig;
  rig.add("ok", [](flow::Context&) { return std::string("1"); });
  rig.add("bad", [](flow::Context&) -> std::string { throw std::runtime_error("broken"); });
  const RunId ok = rig.start("ok");
  (void)rig.hook(R"({"events":["run.completed","run.failed"],"workflow":"ok"})", "http://ok.example/");
  (void)rig.hook(R"({"events":["run.*"]})", "http://all.example/");
  (void)rig.hook(R"({"mission":"m"})", "http://mission.example/");
  (void)rig.start("bad");
  rig.drive();
  rig.deliver();
  std::map<std::string, std::string> heard;
  for (const auto& one : rig.transport.sent())
    heard[one.url] += json::string_member(one.body, "type").value_or("?") + " ";
  CHECK(heard["http://ok.example/"] == "run.completed ");
  CHECK(heard["http://all.example/"] == "run.created run.claimed run.completed run.claimed run.failed ");
  CHECK_FALSE(heard.contains("http://mission.example/"));
  for (const auto& one : rig.transport.sent()) {
    CHECK(MemoryTransport::header(one, "webhook-id").starts_with("msg_"));
    CHECK(MemoryTransport::header(one, "webhook-signature").starts_with("v1,"));
    CHECK(MemoryTransport::header(one, "webhook-timestamp") == std::to_string(rig.store->now() / 1000));
    CHECK_FALSE(json::check(one.body));
  }
  const auto of_ok = rig.transport.sent()[0];
  CHECK(json::at_pointer(of_ok.body, "/data/workflow").has_value());
  (void)ok;
}

TEST_CASE("[O1] a notice is written with its cause and rolled back with it") {
  Sender rig;
  rig.add("ok", [](flow::Context&) { return std::string("1"); });
  (void)rig.start("ok");
  (void)rig.hook("{}");
  CHECK_THROWS(rig.store->write([](db::Tx& tx) {
    kernel::append_event(tx, tx.now(), "run.failed", RunId(), StepId());
    throw std::runtime_error("no");
  }));
  CHECK(rig.number("SELECT count(*) FROM outbox") == 0);
  rig.deliver();
  CHECK(rig.transport.count() == 0);
}

TEST_CASE(
    "[O5] an endpoint that answers 410 is switched off and its rows are parked, others are told, and nothing goes "
    "round") {
  Sender rig;
  rig.add("ok", [](flow::Context&) { return std::string("1"); });
  (void)rig.start("ok");
  const WebhookId gone = rig.hook("{}", "http://gone.example/");
  (void)rig.hook(R"({"events":["needs_attention"]})", "http://watch.example/");
  rig.transport.answers([](const work::Envelope& e) {
    return MemoryTransport::status(e.url.find("gone") == std::string::npos ? 200 : 410);
  });
  for (int i = 0; i < 5; ++i) {
    rig.store->write([](db::Tx& tx) { kernel::append_event(tx, tx.now(), "x.y", RunId(), StepId()); });
  }
  rig.deliver();
  const auto row = rig.store->read([&](db::ReadTx& tx) { return kernel::read_webhook(tx, gone); });
  CHECK(row->disabled_at.has_value());
  CHECK(rig.number("SELECT count(*) FROM outbox WHERE parked_at IS NULL") == 0);
  CHECK(rig.number("SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL") == 5);
  int to_gone = 0;
  std::vector<std::string> told;
  for (const auto& one : rig.transport.sent()) {
    if (one.url.find("gone") != std::string::npos)
      ++to_gone;
    else
      told.push_back(json::string_member(one.body, "type").value_or("?"));
  }
  CHECK(to_gone <= 5);
  CHECK(std::count(told.begin(), told.end(), "webhook.disabled") == 1);
  CHECK(std::count(told.begin(), told.end(), "delivery.parked") <= to_gone);  // for those that were tried, if at all
  // "Did it go out?" has an answer for each, also for those that were not tried.
  CHECK(rig.number("SELECT count(DISTINCT payload ->> 'delivery') FROM events WHERE kind = 'delivery.parked'") == 5);
  // Retried while it is off: refused. On again: all go out under their keys.
  const DeliveryId first(rig.number("SELECT min(id) FROM outbox"));
  const auto refused = rig.store->write([&](db::Tx& tx) { return kernel::retry_delivery(tx, first, "ada", tx.now()); });
  CHECK(std::get<Problem>(refused).code == "endpoint_off");
  rig.store->write([&](db::Tx& tx) {
    kernel::WebhookChange on;
    on.enabled = true;
    (void)kernel::change_webhook(tx, gone, on, tx.now());
    CHECK(kernel::retry_lane(tx, "http://gone.example", 100, "ada", tx.now()) == 5);
  });
  rig.transport.answers({});
  rig.sweep->pass();
  rig.deliver();
  CHECK(rig.number("SELECT count(*) FROM outbox") == 0);
}

TEST_CASE("[O6] two endpoints that are dead do not send each other notices of their parked notices for ever") {
  Sender rig;
  rig.add("ok", [](flow::Context&) { return std::string("1"); });
  (void)rig.start("ok");
  (void)rig.hook(R"({"events":["needs_attention","x.y"]})", "http://a.example/");
  (void)rig.hook(R"({"events":["needs_attention","x.y"]})", "http://b.example/");
  rig.transport.answers([](const work::Envelope&) {
    return work::Answered{work::Answered::Kind::never, 0, "refused address", {}};
  });
  rig.store->write([](db::Tx& tx) { kernel::append_event(tx, tx.now(), "x.y", RunId(), StepId()); });
  for (int i = 0; i < 50; ++i) {
    rig.deliver();
    rig.advance(5'000);
    rig.sweep->pass();
  }
  CHECK(rig.transport.count() == 4);  // the event to both, and to each that the other's was parked
}

TEST_CASE("[O6] needs_attention: a step in doubt and a run that crashes for ever") {
  Sender rig;
  bool die = true;
  rig.add("flow", [&](flow::Context& c) {
    return c.step("pay", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
      if (die) throw test::Died{};
      return "1";
    });
  });
  (void)rig.start("flow");
  (void)rig.hook(R"({"events":["needs_attention"]})");
  CHECK_THROWS_AS(rig.drive(), test::Died);
  die = false;
  rig.restart();
  rig.sweep->pass();
  rig.drive();
  rig.deliver();
  REQUIRE(rig.types() == std::vector<std::string>{"step.needs_reconcile"});
  CHECK(json::at_pointer(rig.transport.sent()[0].body, "/data/needs_attention") == "\"in_doubt\"");
}

TEST_CASE("[O6] a notice of a wait tells what is asked and where a person decides") {
  Sender rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("Install 1.2?"); });
  (void)rig.start("flow");
  rig.store->write([](db::Tx& tx) { kernel::set_page_url(tx, "http://127.0.0.1:7433/"); });
  (void)rig.hook(R"({"events":["wait.created"]})");
  rig.drive();
  rig.deliver();
  REQUIRE(rig.transport.count() == 1);
  const std::string body = rig.transport.sent()[0].body;
  CHECK(json::at_pointer(body, "/data/asks") == "\"Install 1.2?\"");
  CHECK(json::at_pointer(body, "/data/link") == "\"http://127.0.0.1:7433/#wait=1\"");
}

TEST_CASE("[O6] a test notice goes to its endpoint alone, whatever its filter says") {
  Sender rig;
  rig.add("ok", [](flow::Context&) { return std::string("1"); });
  (void)rig.start("ok");
  const WebhookId one = rig.hook(R"({"events":["never.this"]})", "http://one.example/");
  const WebhookId all = rig.hook("{}", "http://all.example/");
  const auto test_of = [&](WebhookId id) {
    rig.transport.forget();
    CHECK(rig.store->write([&](db::Tx& tx) { return kernel::test_webhook(tx, id, "ada", tx.now()).has_value(); }));
    rig.deliver();
    int to_one = 0;
    for (const auto& e : rig.transport.sent()) to_one += e.url == "http://one.example/" ? 1 : 0;
    return to_one;
  };
  CHECK(test_of(one) == 1);
  CHECK(test_of(all) == 0);
  CHECK(rig.transport.count() == 1);  // the endpoint that hears of all gets it once
}

}  // namespace
}  // namespace bide
