// A holder handed in, the agent recorded the outcome and marked the holder's row stopped, the program went on and
// ended, and its guard ended all below it: the holder too, which on a loaded machine had not yet read the answer after
// which it removes its file. No row led to that file any more, so it lay there until the next start of the agent. Found
// by "files and rows are left" of the holders' tests. What is taken is removed by whoever takes it.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "agent/work/holders.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("[N113] issue: the file of an outcome that was taken is gone, though its holder is ended right then [K2]") {
  Rig rig;
  rig.add("nap", [](flow::Context& c) {
    c.step("pay", kernel::Effect::pure, [](const flow::EffectInfo&) { return std::string("1"); });
    c.sleep(3'600'000);
    return std::string("null");
  });
  const RunId run = rig.start("nap");
  rig.drive();
  const std::string step = std::to_string(rig.journal(run).at(0).id.value);
  rig.exec(
      "INSERT INTO processes (run_id, step_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) VALUES (" +
      std::to_string(run.value) + ", " + step + ", 'N1', 1, 99, 7, 'b', 'running', 0)");
  const bool settled = GENERATE(false, true);
  if (!settled)
    rig.exec(
        "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, nonce, request_hash, "
        "created_at, updated_at) SELECT 900, run_id, '/9', 9, kind, 'other', effect, 'started', 'N1', "
        "request_hash, 0, 0 FROM steps WHERE id = " +
        step + "; UPDATE processes SET step_id = 900");
  work::Holders holders(*rig.store, rig.random, *rig.executor, rig.dir.str("outcomes"), rig.dir.str("s"));
  holders.make_directory();
  const auto there = [&](const char* name) { return std::filesystem::exists(rig.dir.str("outcomes/") + name); };
  kernel::HeldOutcome outcome;
  outcome.result = "\"paid\"";
  for (const char* name : {"N1", "N2"}) std::ofstream(rig.dir.str("outcomes/") + name) << "{}";
  CHECK(holders.hand_in(run, 1, "N1", outcome) == (settled ? kernel::Taken::late : kernel::Taken::recorded));
  CHECK_FALSE(there("N1"));
  std::ofstream(rig.dir.str("outcomes/N1")) << "{}";
  CHECK(holders.hand_in(run, 1, "N1", outcome) == kernel::Taken::again);
  CHECK_FALSE(there("N1"));
  CHECK(holders.hand_in(run, 1, "N2", outcome) == kernel::Taken::stranger);
  CHECK(there("N2"));  // its own: who asked is told that nobody knows it
  // A holder that was ended while it wrote leaves the half of it.
  for (const char* name : {"N1", ".N1"}) std::ofstream(rig.dir.str("outcomes/") + name) << "{";
  CHECK(holders.end({run, 1, "N1", {99, 7}, false, true}));
  CHECK_FALSE(there("N1"));
  CHECK_FALSE(there(".N1"));
}
