// What a review of pushed tasks found, by hand: an answer over 64 KiB was no answer, and the effect was asked for again
// every 30 s; one that held a secret was kept; and a row that had not been taken yet outlived its run: the endpoint was
// asked after a cancel, and a run that failed beside it waited until the row had been taken or for ever.
#include <catch2/catch.hpp>

#include "agent/base/clock.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/work/delivery.h"
#include "agent/work/remote_tasks.h"
#include "tests/support/rig.h"
#include "tests/support/sink.h"

using namespace bide;
using namespace bide::test;

namespace {

// A run of two branches: one asks for a task of a function with a URL, the other waits for a signal, and may fail then.
struct Pushed {
  Rig rig;
  std::unique_ptr<work::RemoteTasks> remote;
  bool fails = false;
  int asked = 0;
  RunId run;

  explicit Pushed(kernel::Effect effect) {
    rig.deliveries.emplace();
    rig.add("chore", [this, effect](flow::Context& c) {
      c.branches({[&](flow::Context& branch) { return branch.task("shrink", "1", {.effect = effect}); },
                  [&](flow::Context& branch) {
                    branch.signal("go");
                    if (fails) throw std::runtime_error("no");
                    return std::string("1");
                  }});
      return std::string("1");
    });
    rig.add_task("local", [](const std::string& request, const flow::EffectInfo&) { return request; });  // who sweeps
    run = rig.start("chore");
    remote = std::make_unique<work::RemoteTasks>(*rig.store, rig.random, *rig.executor, *rig.feed);
    rig.deliverer->set_task_answered([this](db::Tx& tx, DeliveryId id, int status, const std::string& body) {
      remote->answered(tx, id, status, body);
    });
    rig.sweep->add("undispatched", [this](TimeMs now) { return remote->push(now); });
    remote->set_function({"shrink", "https://app.example/shrink"}, "ada");
  }
  void answer(int status, const std::string& body) {
    rig.transport.answers([this, status, body](const work::Envelope&) {
      ++asked;
      work::Answered answered = MemoryTransport::status(status);
      answered.body = body;
      return answered;
    });
  }
  void go() {
    rig.drive();
    (void)rig.sweep->pass();
    (void)rig.deliver();
    rig.drive();
  }
  [[nodiscard]] std::int64_t rows() { return rig.number("SELECT count(*) FROM outbox"); }
  [[nodiscard]] kernel::StepRow task() {
    for (const kernel::StepRow& row : rig.journal(run)) {
      if (row.kind == kernel::StepKind::task) return row;
    }
    throw std::runtime_error("no task");
  }
};

}  // namespace

TEST_CASE("[K8] [D5] issue: the answer of a pushed task is as long as any result, and one that is longer a failure") {
  SECTION("over HTTP the bound is what the envelope says") {
    Sink endpoint([](const Sink::Request&, int) {
      Sink::Reply reply;
      reply.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 200002\r\n\r\n\"" + std::string(200'000, 'x') + "\"";
      return reply;
    });
    SystemClock clock;
    work::SystemResolver resolver;
    work::HttpTransport transport(clock, resolver, {std::nullopt, {}, [] { return true; }});
    work::Envelope envelope;
    envelope.url = endpoint.url();
    envelope.body = "1";
    envelope.allow = {endpoint.address()};
    envelope.deadline = 10'000;
    CHECK(transport.send(envelope).body.size() < 200'000);  // only its head counts
    envelope.most_answer = limits::kDocumentBytes;
    CHECK(transport.send(envelope).body.size() == 200'002);
  }
  SECTION("what is longer than a result may be is the end of the task, and it is asked for once") {
    Pushed world(kernel::Effect::idempotent);
    world.answer(200, "\"" + std::string(limits::kDocumentBytes, 'x') + "\"");
    for (int i = 0; i < 3; ++i) {
      world.go();
      world.rig.advance(limits::kTaskLeaseMs);
    }
    CHECK(world.asked == 1);
    CHECK(world.task().status == kernel::StepStatus::failed);
    CHECK(json::string_member(world.task().error.value_or(""), "code") == "ResultTooLarge");
    CHECK(world.rows() == 0);
  }
}

TEST_CASE("[D4] issue: the answer of a pushed task that holds a secret is not kept") {
  Pushed world(kernel::Effect::idempotent);
  world.remote->set_secret_in([](std::string_view result) -> std::optional<std::string> {
    if (result.find("sekret") == std::string_view::npos) return std::nullopt;
    return R"({"code":"SecretInResult","message":"m"})";
  });
  world.answer(200, R"("sekret-value")");
  world.go();
  CHECK(world.task().status == kernel::StepStatus::failed);
  CHECK(json::string_member(world.task().error.value_or(""), "code") == "SecretInResult");
  CHECK(world.rig.number("SELECT count(*) FROM steps WHERE result LIKE '%sekret%'") == 0);
  CHECK(world.rig.number("SELECT count(*) FROM events WHERE payload LIKE '%sekret%'") == 0);
}

TEST_CASE("[K8] [X1] issue: a pushed task that was not taken before its run was cancelled is not asked for again") {
  Pushed world(kernel::Effect::non_idempotent);
  world.answer(503, "");
  world.go();
  REQUIRE(world.asked == 1);
  REQUIRE(world.rows() == 1);
  (void)world.rig.cancel(world.run);
  world.rig.drive();
  REQUIRE(world.rig.run(world.run).status == kernel::RunStatus::cancelled);
  world.answer(200, "1");
  for (int i = 0; i < 5; ++i) {
    world.rig.advance(limits::kDeliveryMaxMs);
    world.go();
  }
  CHECK(world.asked == 1);
  CHECK(world.rows() == 0);
}

TEST_CASE("[K8] [P1] issue: a run that fails beside a pushed task that was not taken ends, and begins nothing more") {
  const bool parks = GENERATE(false, true);
  Pushed world(kernel::Effect::idempotent);
  world.answer(parks ? 410 : 503, "");
  world.go();
  REQUIRE(world.asked == 1);
  world.fails = true;
  CHECK(std::holds_alternative<kernel::SignalSent>(world.rig.signal(world.run, "go")));
  world.rig.drive();
  world.answer(200, "1");
  for (int i = 0; i < 3; ++i) {
    world.go();
    world.rig.advance(limits::kSweepIntervalMs);
  }
  CHECK(world.rig.run(world.run).status == kernel::RunStatus::failed);
  CHECK(world.asked == 1);
  CHECK(world.task().status == kernel::StepStatus::cancelled);
  CHECK(world.rows() == (parks ? 1 : 0));  // what is parked is an operator's
}
