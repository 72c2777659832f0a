// The guard of an attempt heard of a step's holder only after the commit of its row: a shutdown (or a kill) between the
// two ended the holder with the rest, and the next attempt found a step that had begun, and nobody to tell its outcome:
// a person was asked for nothing. It hears of the holder before the commit now; one that is in no row is never let go.
#include <catch2/catch.hpp>

#include "agent/flow/attempt.h"
#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using test::KernelFixture;

TEST_CASE("[K5] [K7] issue: a holder is spared before its row is in the file") {
  KernelFixture box;
  SystemRandom random;
  const RunId run = box.make_run(kernel::RunStatus::running);
  flow::AttemptOptions options;
  options.style = flow::Style::program;
  const auto attempt = std::make_shared<flow::Attempt>(*box.store, random, KernelFixture::fence(run), options);
  const auto rows = [&] {
    return box.store->read(
        [](db::ReadTx& tx) { return db::Query(tx, "SELECT count(*) FROM processes").one().integer(0); });
  };
  const ProcessKey holder{4711, 7};
  int rung = 0;
  attempt->set_held_bell([&](const ProcessKey& key) {
    ++rung;
    CHECK(key == holder);
    CHECK(rows() == 0);
  });
  flow::StepAsk ask;
  ask.name = "pay";
  ask.holder = true;
  const auto offered = std::get<flow::Execute>(attempt->begin_step(ask));
  CHECK(std::holds_alternative<flow::Execute>(attempt->hold(offered.step, offered.nonce, holder)));
  CHECK(rung == 1);
  CHECK(rows() == 1);
}

TEST_CASE("[K7] issue: a holder whose row was refused is not the attempt's to spare") {
  KernelFixture box;
  SystemRandom random;
  const RunId run = box.make_run(kernel::RunStatus::running);
  flow::AttemptOptions options;
  options.style = flow::Style::program;
  const auto attempt = std::make_shared<flow::Attempt>(*box.store, random, KernelFixture::fence(run), options);
  flow::StepAsk ask;
  ask.name = "pay";
  ask.holder = true;
  const auto offered = std::get<flow::Execute>(attempt->begin_step(ask));
  box.store->write([&](db::Tx& tx) { db::Query(tx, "UPDATE runs SET epoch = epoch + 1").run(); });
  CHECK(std::holds_alternative<flow::Closed>(attempt->hold(offered.step, offered.nonce, {4711, 7})));
  CHECK(attempt->open_calls().empty());
}
