// The write of a step's beginning threw (a row that the file refuses), the verb asked again over a new connection, and
// was told to go: nobody had taken back that the step executes. A command that must not run twice ran without an intent
// in the file, and a crash would have run it again unasked. Whoever asks again after such a fault is refused now.
#include <catch2/catch.hpp>

#include "agent/base/errors.h"
#include "agent/flow/attempt.h"
#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using test::KernelFixture;

namespace {

struct Box : KernelFixture {
  SystemRandom random;
  std::shared_ptr<flow::Attempt> attempt;

  Box() {
    store->write([&](db::Tx& tx) {
      db::Query(tx,
                "CREATE TRIGGER no_pay BEFORE INSERT ON steps WHEN NEW.name = 'pay' BEGIN SELECT RAISE(ABORT, 'no'); "
                "END")
          .run();
    });
    const RunId run = make_run(kernel::RunStatus::running);
    flow::AttemptOptions options;
    options.style = flow::Style::program;
    attempt = std::make_shared<flow::Attempt>(*store, random, fence(run), options);
  }
  static flow::StepAsk pay(bool holder) {
    flow::StepAsk ask;
    ask.name = "pay";
    ask.verb = "v1";
    ask.holder = holder;
    return ask;
  }
};

}  // namespace

TEST_CASE("[J1] [K7] issue: a hold whose write threw does not let its command go when it is asked again") {
  Box box;
  const auto offered = box.attempt->begin_step(Box::pay(true));
  REQUIRE(std::holds_alternative<flow::Execute>(offered));
  const auto& execute = std::get<flow::Execute>(offered);
  const ProcessKey holder{4711, 7};
  CHECK_THROWS(box.attempt->hold(execute.step, execute.nonce, holder));
  for (int i = 0; i < 2; ++i) {
    const auto again = box.attempt->hold(execute.step, execute.nonce, holder);
    CHECK_FALSE(std::holds_alternative<flow::Execute>(again));
  }
  CHECK(box.attempt->open_calls().empty());
}

TEST_CASE("[J1] issue: a step whose beginning threw does not execute when it is asked for again") {
  Box box;
  for (int i = 0; i < 3; ++i) CHECK_THROWS(box.attempt->begin_step(Box::pay(false)));
  CHECK(box.attempt->open_calls().empty());
  // What it had of the eight at once is given back.
  for (int i = 0; i < limits::kStepsAtOnce; ++i) {
    flow::StepAsk ask;
    ask.name = "fine";
    ask.key = std::to_string(i);
    CHECK(std::holds_alternative<flow::Execute>(box.attempt->begin_step(ask)));
  }
}
