// Tasks that are called at a URL, through the outbox [K8, O1, O3].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/work/push_box.h"

using namespace bide;
using namespace bide::test;

namespace {

struct Pushed : PushBox {
  explicit Pushed(kernel::Effect effect = kernel::Effect::idempotent) {
    if (GENERATE(false, true)) transport.over_http();  // each test, once more
    rig.add("chore",
            [effect](flow::Context& c) { return c.task("shrink", c.input(), {.effect = effect, .retries = 1}); });
    open();
  }
  [[nodiscard]] std::string status(RunId run) { return std::string(to_text(rig.run(run).status)); }
};

}  // namespace

TEST_CASE("[K8] push: a 2xx with a body is the result, asked for under the step's key") {
  Pushed world;
  world.answer(200, R"({"n": 1.50})");
  const RunId run = world.rig.start("chore", R"({"n": 3})");
  world.go();
  CHECK(world.status(run) == "completed");
  CHECK(world.rig.run(run).result == R"({"n": 1.50})");
  const auto sent = world.transport.sent();
  REQUIRE(sent.size() == 1);
  CHECK(sent.front().url == "https://app.example/shrink");
  CHECK(json::string_member(sent.front().body, "function") == "shrink");
  CHECK(json::member(sent.front().body, "request") == R"({"n": 3})");
  CHECK(MemoryTransport::header(sent.front(), "Idempotency-Key").size() == 32);
  CHECK(world.rig.number("SELECT count(*) FROM outbox") == 0);
}

TEST_CASE(
    "[K8] push: 202 means later: whoever knows the epoch says it, and one that is silent for 30 s is asked again") {
  Pushed world;
  world.answer(202, R"({"ignored": true})");
  const RunId run = world.rig.start("chore");
  world.go();
  CHECK(world.status(run) == "waiting");
  const StepId task = world.rig.journal(run).front().id;
  world.rig.advance(29'000);
  CHECK_FALSE(world.remote->heartbeat({task, 1, "remote:bob"}));
  (void)world.rig.sweep->pass();
  CHECK(world.transport.count() == 1);
  SECTION("in time") {
    CHECK(std::holds_alternative<Problem>(world.remote->complete({task, 2, "remote:bob"}, "1", std::nullopt)));
    CHECK(std::holds_alternative<work::RemoteTasks::Recorded>(
        world.remote->complete({task, 1, "remote:bob"}, "7", std::nullopt)));
    world.rig.drive();
    CHECK(world.rig.run(run).result == "7");
  }
  SECTION("silent") {
    world.answer(200, "8");
    world.rig.advance(30'000);
    (void)world.rig.sweep->pass();
    (void)world.rig.sweep->pass();
    world.go();
    CHECK(world.rig.run(run).result == "8");
    CHECK(world.transport.count() == 2);
    CHECK(world.transport.keys().size() == 1);  // the same effect
    CHECK(std::holds_alternative<Problem>(world.remote->complete({task, 1, "remote:bob"}, "9", std::nullopt)));
    CHECK(world.rig.count_events(run, "step.late_outcome") == 1);
  }
}

TEST_CASE(
    "[O3] push: an endpoint that is down keeps its task, is tried again under one key, and loses no lease meanwhile") {
  Pushed world(kernel::Effect::non_idempotent);
  world.transport.answers([](const work::Envelope&) { return MemoryTransport::refused(); });
  const RunId run = world.rig.start("chore");
  world.go();
  for (int i = 0; i < 40; ++i) {
    world.rig.advance(60'000);
    (void)world.rig.sweep->pass();
    (void)world.rig.deliver();
  }
  CHECK(world.transport.count() > 5);
  CHECK(world.transport.keys().size() == 1);
  CHECK(world.rig.number("SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL") == 1);
  CHECK(world.rig.journal(run).front().status == kernel::StepStatus::started);
  CHECK(world.status(run) == "waiting");
  SECTION("an operator tries it again") {
    world.answer(200, "3");
    world.rig.store->write([](db::Tx& tx) { (void)kernel::retry_delivery(tx, DeliveryId(1), "ada", tx.now()); });
    (void)world.rig.sweep->pass();
    (void)world.rig.deliver();
    world.rig.drive();
    CHECK(world.rig.run(run).result == "3");
  }
  SECTION("an operator drops it: nobody knows, so it is asked") {
    world.rig.store->write([](db::Tx& tx) { (void)kernel::drop_delivery(tx, DeliveryId(1), "ada", tx.now()); });
    (void)world.rig.sweep->pass();
    CHECK(world.rig.journal(run).front().status == kernel::StepStatus::needs_reconcile);
  }
}

TEST_CASE("[E9] push: an answer that is not JSON is a final failure, and its effect is known to have happened") {
  Pushed world;
  world.answer(200, "<html>");
  const RunId run = world.rig.start("chore");
  world.go();
  CHECK(world.status(run) == "failed");
  CHECK(world.rig.run(run).error->find("BadResult") != std::string::npos);
  CHECK(world.transport.count() == 1);
}

TEST_CASE("[O3] push: delivered and not recorded at a crash: asked again under the same key, one result") {
  Pushed world;
  world.answer(200, "5");
  const RunId run = world.rig.start("chore");
  world.rig.drive();
  (void)world.rig.sweep->pass();
  world.transport.answers([](const work::Envelope&) -> work::Answered { throw std::runtime_error("died"); });
  (void)world.rig.deliver();
  world.remote.reset();
  world.rig.restart();
  world.wire();
  world.answer(200, "5");
  (void)world.rig.sweep->pass();
  (void)world.rig.deliver();
  world.rig.drive();
  CHECK(world.rig.run(run).result == "5");
  CHECK(world.transport.keys().size() == 1);
}
