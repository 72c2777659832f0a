// A verb was known by its pid alone: at a cancel, the children of whatever process had that number by then got SIGTERM,
// and a verb that was killed counted as alive. It is known by its start too.
#include <catch2/catch.hpp>

#include <csignal>

#include "agent/flow/attempt.h"
#include "agent/work/holder_watch.h"
#include "tests/kernel/kernel_fixture.h"
#include "tests/program/process_support.h"
#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("[V2] [K7] issue: the children of a later process with the verb's number are left alone") {
  Rig rig;
  rig.add("nap", [](flow::Context& c) {
    c.sleep(3'600'000);
    return std::string("null");
  });
  (void)rig.start("nap");
  const RunId run = rig.store->write([&](db::Tx& tx) {
    const auto version = kernel::ensure_version(tx, kernel::ensure_workflow(tx, "prog"), "1",
                                                kernel::WorkflowKind::program, "{}", tx.now());
    return KernelFixture::run_in(tx, kernel::RunStatus::running, version);
  });
  flow::AttemptOptions options;
  options.style = flow::Style::program;
  const auto attempt = std::make_shared<flow::Attempt>(*rig.store, rig.random, KernelFixture::fence(run), options);
  work::Holders holders(*rig.store, rig.random, *rig.executor, rig.dir.str("outcomes"), rig.dir.str("s"));
  work::HolderWatch watch(*attempt, holders);

  const std::string tag = unique_tag();
  Process parent({.argv = {"/bin/sh", "-c", "sleep 1000." + tag + " & wait"}, .own_group = true});
  eventually([&] { return running_with("." + tag).size() == 1; }, "it sleeps");
  const ProcessKey now = read_process(parent.pid()).value().key;
  flow::StepAsk ask;
  ask.name = "one";
  const bool later = GENERATE(true, false);
  const flow::Caller caller{.process = {now.pid, later ? now.start - 1 : now.start}, .gone = {}};
  REQUIRE(std::holds_alternative<flow::Execute>(attempt->begin_step(ask, caller)));
  CHECK(watch.alive() == (later ? 0 : 1));
  watch.terminate();
  if (later) {
    CHECK(holds_within(std::chrono::milliseconds(300), [&] { return running_with("." + tag).empty(); }) == false);
    CHECK(attempt->end_if_verb_killed());
  } else {
    eventually([&] { return running_with("." + tag).empty(); }, "its own are told");
  }
}
