// `allow_targets` opened addresses inside to every endpoint, by a name that leads there: only a literal was refused
// when an endpoint was added. It is for messages, wakes and tasks; an endpoint has a list of its own [O6].
#include <catch2/catch.hpp>

#include "agent/base/clock.h"
#include "agent/kernel/webhooks.h"
#include "agent/work/delivery.h"
#include "tests/support/rig.h"
#include "tests/support/sink.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("[O6] issue: what is allowed to messages is not allowed to an endpoint, which has a list of its own") {
  const bool has_list = GENERATE(false, true);
  Sink receiver;
  Sink endpoint;
  SystemClock clock;
  work::SystemResolver resolver;
  work::HttpTransport http(clock, resolver, {std::nullopt, {}, [] { return true; }});
  Rig rig;
  rig.deliveries.emplace();
  rig.deliveries->allow = {"127.0.0.1"};
  rig.transport.answers([&](const work::Envelope& envelope) { return http.send(envelope); });
  rig.add("flow", [&](flow::Context& c) { return c.send(receiver.url(), "{}"); });
  (void)rig.start("flow");
  rig.store->write([&](db::Tx& tx) {
    kernel::NewWebhook made;
    made.url = endpoint.url();
    made.filter = R"({"events":["run.completed"]})";
    made.secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    if (has_list) made.allow = "[\"" + endpoint.address() + "\"]";
    REQUIRE(std::holds_alternative<kernel::WebhookAdded>(kernel::add_webhook(tx, made, "ada", tx.now())));
  });
  rig.drive();
  (void)rig.deliver();
  CHECK(receiver.count() == 1);
  CHECK(endpoint.count() == (has_list ? 1 : 0));
  CHECK(rig.number("SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL AND webhook_id IS NOT NULL") ==
        (has_list ? 0 : 1));
}
