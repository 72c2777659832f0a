// What a review of pushed tasks found, by hand: an answer over 64 KiB was no answer, and the effect was asked for again
// every 30 s; one that held a secret was kept; and a row that had not been taken yet outlived its run: the endpoint was
// asked after a cancel, and a run that failed beside it waited until the row had been taken or for ever.
#include <catch2/catch.hpp>

#include <stdexcept>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "tests/work/push_box.h"

using namespace bide;
using namespace bide::test;

namespace {

// A run of two branches: one asks for a task of a function with a URL, the other waits for a signal, and may fail then.
struct Pushed : PushBox {
  bool fails = false;
  RunId run;

  explicit Pushed(kernel::Effect effect) {
    transport.over_http();
    rig.add("chore", [this, effect](flow::Context& c) {
      c.branches({[&](flow::Context& branch) { return branch.task("shrink", "1", {.effect = effect}); },
                  [&](flow::Context& branch) {
                    branch.signal("go");
                    if (fails) throw std::runtime_error("no");
                    return std::string("1");
                  }});
      return std::string("1");
    });
    open();
    run = rig.start("chore");
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
  const std::size_t length = GENERATE(std::size_t(200'000), limits::kDocumentBytes, limits::kDocumentBytes + 1);
  const std::string result = "\"" + std::string(length - 2, 'x') + "\"";
  Pushed world(kernel::Effect::idempotent);
  world.answer(200, result);
  for (int i = 0; i < 3; ++i) {
    world.go();
    world.rig.advance(limits::kTaskLeaseMs);
  }
  CHECK(world.transport.count() == 1);
  CHECK(world.rows() == 0);
  if (length > limits::kDocumentBytes) {
    CHECK(world.task().status == kernel::StepStatus::failed);
    CHECK(json::string_member(world.task().error.value_or(""), "code") == "ResultTooLarge");
  } else {
    CHECK(world.task().status == kernel::StepStatus::completed);
    CHECK(world.task().result == result);
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
  REQUIRE(world.transport.count() == 1);
  REQUIRE(world.rows() == 1);
  (void)world.rig.cancel(world.run);
  world.rig.drive();
  REQUIRE(world.rig.run(world.run).status == kernel::RunStatus::cancelled);
  world.answer(200, "1");
  for (int i = 0; i < 5; ++i) {
    world.rig.advance(limits::kDeliveryMaxMs);
    world.go();
  }
  CHECK(world.transport.count() == 1);
  CHECK(world.rows() == 0);
}

TEST_CASE("[K8] [P1] issue: a run that fails beside a pushed task that was not taken ends, and begins nothing more") {
  const bool parks = GENERATE(false, true);
  Pushed world(kernel::Effect::idempotent);
  world.answer(parks ? 410 : 503, "");
  world.go();
  REQUIRE(world.transport.count() == 1);
  world.fails = true;
  CHECK(std::holds_alternative<kernel::SignalSent>(world.rig.signal(world.run, "go")));
  world.rig.drive();
  world.answer(200, "1");
  for (int i = 0; i < 3; ++i) {
    world.go();
    world.rig.advance(limits::kSweepIntervalMs);
  }
  CHECK(world.rig.run(world.run).status == kernel::RunStatus::failed);
  CHECK(world.transport.count() == 1);
  CHECK(world.task().status == kernel::StepStatus::cancelled);
  CHECK(world.rows() == (parks ? 1 : 0));  // what is parked is an operator's
}

TEST_CASE("[K8] [P1] issue: … which fails while its endpoint is asked, and that says no: nobody is asked again") {
  Pushed world(kernel::Effect::idempotent);
  world.fails = true;
  world.transport.answers([&](const work::Envelope&) {
    CHECK(std::holds_alternative<kernel::SignalSent>(world.rig.signal(world.run, "go")));
    world.rig.drive();
    return MemoryTransport::status(503);
  });
  world.go();
  CHECK(world.transport.count() == 1);
  CHECK(world.rows() == 0);
  world.answer(200, "1");
  for (int i = 0; i < 3; ++i) world.go();
  CHECK(world.rig.run(world.run).status == kernel::RunStatus::failed);
  CHECK(world.transport.count() == 1);
}
