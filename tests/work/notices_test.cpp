// What endpoints hear beside plain events: CloudEvents, reminders, and links that decide.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "agent/kernel/links.h"
#include "agent/kernel/webhooks.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;

namespace {

struct Notices {
  Rig rig;
  flow::NativeWorkflow moved;  // waits for a signal

  Notices() {
    rig.deliveries.emplace();
    rig.add("ask", [](flow::Context& c) { return c.approval("Go on?", {.name = "go", .timeout = 48 * 3'600'000}); });
    rig.add("hurry", [](flow::Context& c) { return c.approval("Quick?", {.name = "go", .timeout = 60'000}); });
    rig.add("patient", [](flow::Context& c) { return c.question("What?"); });
    rig.add("nap", [](flow::Context& c) {
      c.sleep(30LL * 24 * 3'600'000);
      return std::string("null");
    });
    rig.add("guilty", [](flow::Context&) -> std::string { throw Died{}; });
    moved.name = "moved";
    moved.version = "1";
    moved.run = [](flow::Context& c) { return c.signal("go"); };
    rig.add(moved);
    rig.restart();
    rig.store->write([](db::Tx& tx) {
      kernel::set_page_url(tx, "http://127.0.0.1:7433/");
      kernel::ensure_link_key(tx, "SECRET");
    });
  }
  WebhookId hook(const std::string& events, const std::string& format, bool links = false) {
    return rig.store->write([&](db::Tx& tx) {
      kernel::NewWebhook add;
      add.url = "https://a.example/hook";
      add.filter = "{\"events\":[" + events + "]}";
      add.secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
      add.format = format;
      add.decision_links = links;
      return std::get<kernel::WebhookAdded>(kernel::add_webhook(tx, add, "ada", tx.now())).row.id;
    });
  }
  // Bodies of what was sent since the last call.
  std::vector<work::Envelope> sent() {
    (void)rig.deliver();
    auto all = rig.transport.sent();
    rig.transport.forget();
    return all;
  }
};

}  // namespace

TEST_CASE("webhooks: an endpoint may have CloudEvents 1.0, under the id that signs it") {
  Notices world;
  (void)world.hook("\"run.created\"", "cloudevents");
  const RunId run = world.rig.start("ask");
  const auto sent = world.sent();
  REQUIRE(sent.size() == 1);
  const std::string& body = sent.front().body;
  CHECK(MemoryTransport::header(sent.front(), "Content-Type") == "application/cloudevents+json");
  CHECK(json::string_member(body, "specversion") == "1.0");
  CHECK(json::string_member(body, "id") == MemoryTransport::header(sent.front(), "webhook-id"));
  const std::string box = world.rig.store->read([](db::ReadTx& tx) {
    db::Query q(tx, "SELECT value FROM meta WHERE key = 'agent_id'");
    return q.one().text(0);
  });
  CHECK(box.size() >= 32);  // the deliverer's: of this box alone
  CHECK(json::string_member(body, "source") == "urn:bide:" + box);
  CHECK(json::string_member(body, "type") == "bide.run.created");
  CHECK(json::string_member(body, "subject") == "runs/" + std::to_string(run.value));
  CHECK(json::at_pointer(body, "/data/run") == std::to_string(run.value));
  CHECK_FALSE(MemoryTransport::header(sent.front(), "webhook-signature").empty());
  CHECK_FALSE(json::check(body));
}

TEST_CASE("webhooks: the plain form stays as it was, byte for byte") {
  Notices world;
  (void)world.hook("\"run.created\"", "standard");
  (void)world.rig.start("ask");
  const auto sent = world.sent();
  REQUIRE(sent.size() == 1);
  CHECK(MemoryTransport::header(sent.front(), "Content-Type") == "application/json");
  CHECK(sent.front().body.starts_with("{\"type\":\"run.created\",\"timestamp\":\""));
  CHECK_FALSE(json::member(sent.front().body, "specversion"));
}

TEST_CASE("webhooks: a person is reminded once, an hour before the deadline or after a day without one") {
  Notices world;
  (void)world.hook("\"needs_attention\"", "standard");
  const RunId ask = world.rig.start("ask");
  const RunId hurry = world.rig.start("hurry");
  const RunId patient = world.rig.start("patient");
  const RunId nap = world.rig.start("nap");
  world.rig.drive();
  const auto reminded = [&](RunId run, const char* kind) { return world.rig.count_events(run, kind); };
  const auto pass_after = [&](DurationMs length) {
    world.rig.advance(length);
    (void)world.rig.sweep->pass();
    world.rig.drive();
  };
  pass_after(29'999);
  CHECK(reminded(hurry, "wait.expiring") == 0);
  pass_after(1);
  CHECK(reminded(hurry, "wait.expiring") == 1);  // half of a minute
  const auto sent = world.sent();
  REQUIRE(sent.size() == 1);
  CHECK(json::at_pointer(sent.front().body, "/data/needs_attention") == "\"expires_soon\"");
  CHECK(json::at_pointer(sent.front().body, "/data/asks") == "\"Quick?\"");
  pass_after(24 * 3'600'000 - 30'001);
  CHECK(reminded(patient, "wait.overdue") == 0);
  pass_after(1);
  CHECK(reminded(patient, "wait.overdue") == 1);
  pass_after(23 * 3'600'000 - 1);
  CHECK(reminded(ask, "wait.expiring") == 0);
  pass_after(1);
  CHECK(reminded(ask, "wait.expiring") == 1);
  pass_after(24 * 3'600'000);
  CHECK(reminded(ask, "wait.expiring") + reminded(hurry, "wait.expiring") + reminded(patient, "wait.overdue") == 3);
  CHECK(reminded(nap, "wait.overdue") == 0);
}

TEST_CASE("webhooks: needs_attention tells of crash loops, of missing versions, and of waits that grow old") {
  Notices world;
  Rig& rig = world.rig;
  (void)world.hook("\"needs_attention\"", "standard");
  const auto told = [&](RunId run) {
    std::vector<std::string> reasons;
    for (const auto& one : world.sent()) {
      INFO(one.body);
      // A missing version is told once, with the number of its runs.
      const bool of_workflow = json::string_member(one.body, "type") == "workflow.missing";
      CHECK(json::at_pointer(one.body, of_workflow ? "/data/payload/runs" : "/data/run") ==
            (of_workflow ? "1" : std::to_string(run.value)));
      reasons.push_back(json::as_string(json::at_pointer(one.body, "/data/needs_attention").value_or("null")).value());
    }
    return reasons;
  };
  using Reasons = std::vector<std::string>;
  const RunId guilty = rig.start("guilty");
  int deaths = 0;
  while (!kernel::terminal(rig.run(guilty).status)) {
    REQUIRE(deaths < 20);
    try {
      rig.drive();
      break;
    } catch (const Died&) {
      ++deaths;
      rig.restart();
      (void)rig.sweep->pass();
    }
  }
  CHECK(told(guilty) == Reasons{"crash_loop"});

  const RunId moved = rig.start("moved");
  rig.drive();
  CHECK(told(moved).empty());
  world.moved.version = "2";
  rig.replace(world.moved);
  rig.restart();
  (void)rig.signal(moved, "go", "7");
  rig.drive();
  rig.drive();
  CHECK(rig.run(moved).reason == "version_missing");
  CHECK(told(moved) == Reasons{"version_missing"});

  const RunId patient = rig.start("patient");
  rig.drive();
  rig.advance(24 * 3'600'000);
  (void)rig.sweep->pass();
  CHECK(told(patient) == Reasons{"long_wait"});
}

TEST_CASE("webhooks: what was answered in time is not reminded of, and the dispatcher knows when one is due") {
  Notices world;
  const RunId run = world.rig.start("hurry");
  world.rig.drive();
  const auto due = [&] { return world.rig.store->read([](db::ReadTx& tx) { return kernel::next_due(tx); }); };
  CHECK(due() == world.rig.store->now() + 30'000);
  (void)world.rig.resolve(world.rig.waits(run).front().id, R"({"decision":"approved"})");
  world.rig.drive();
  CHECK_FALSE(due());
  world.rig.advance(31'000);
  (void)world.rig.sweep->pass();
  CHECK(world.rig.count_events(run, "wait.expiring") == 0);
}

TEST_CASE("webhooks: only an endpoint that is configured for it gets a link that decides, and no changed one decides") {
  Notices world;
  (void)world.hook("\"wait.created\"", "standard");
  const WebhookId linked = world.hook("\"wait.created\"", "standard", true);
  const RunId run = world.rig.start("ask");
  world.rig.drive();
  std::vector<std::string> links;
  for (const auto& one : world.sent()) {
    CHECK(json::at_pointer(one.body, "/data/link"));
    if (const auto link = json::at_pointer(one.body, "/data/decide")) links.push_back(json::as_string(*link).value());
  }
  REQUIRE(links.size() == 1);
  const std::string prefix = "http://127.0.0.1:7433/decide/";
  REQUIRE(links.front().starts_with(prefix));
  const std::string token = links.front().substr(prefix.size());
  const auto read = [&](const std::string& of, DurationMs later = 0) {
    return world.rig.store->read(
        [&](db::ReadTx& tx) { return kernel::read_decision_token(tx, of, world.rig.store->now() + later); });
  };
  const auto good = read(token);
  REQUIRE(std::holds_alternative<kernel::LinkedDecision>(good));
  CHECK(std::get<kernel::LinkedDecision>(good).wait.run == run);
  CHECK(std::get<kernel::LinkedDecision>(good).by.name == "link:webhook-" + std::to_string(linked.value));
  CHECK_FALSE(std::get<kernel::LinkedDecision>(good).by.has(kernel::Scope::start));
  int refused = 0;
  for (std::size_t at = 0; at < token.size(); ++at) {
    for (const char c : {'0', '1', '7', 'a', 'f', '.'}) {
      std::string forged = token;
      if (forged[at] == c) continue;
      forged[at] = c;
      REQUIRE(std::holds_alternative<Problem>(read(forged)));
      ++refused;
    }
  }
  CHECK(refused > 200);
  CHECK(std::get<Problem>(read(token, 24 * 3'600'000)).code == "link_expired");
  world.rig.store->write([&](db::Tx& tx) { kernel::disable_webhook(tx, linked, "off", tx.now()); });
  CHECK(std::get<Problem>(read(token)).code == "link_invalid");
}
