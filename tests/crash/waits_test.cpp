// Waits, sleeps and long steps, over kills and stops of the agent.
#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

TEST_CASE("[F02] what came before an approval is not run again, and the run waits, in the same run, over a kill") {
  CrashBox box;
  box.program("flow",
              "bide step fetch --effect idempotent -- effect fetch\n"
              "bide wait approval 'Ship it?' --timeout 1d >/dev/null\n"
              "bide step ship -- effect ship\n");
  const std::int64_t run = box.start("flow");
  const std::int64_t wait = box.wait_of(run, "approval");
  box.until_status(run, "waiting");
  CHECK(box.effects("fetch") == 1);
  box.kill_all();
  box.serve();
  CHECK(box.status(run) == "waiting");
  CHECK(box.wait_of(run, "approval") == wait);
  box.answer(wait, {{"decision", "approved"}});
  box.until_status(run, "completed");
  CHECK(box.effects("fetch") == 1);
  CHECK(box.effects("ship") == 1);
  CHECK(box.sql("SELECT count(*) FROM runs") == "1");
  CHECK(box.step(run, "fetch")["executions"] == 1);
}

TEST_CASE("[N50] killed as soon as a decision is acknowledged: the run goes on at once after the restart") {
  CrashBox box;
  box.program("flow",
              "bide wait approval 'Ship it?' >/dev/null\n"
              "bide step ship -- effect ship\n");
  for (int i = 1; i <= 3; ++i) {
    const std::int64_t run = box.start("flow");
    const std::int64_t wait = box.wait_of(run, "approval");
    box.until_status(run, "waiting");
    box.answer(wait, {{"decision", "approved"}});
    box.kill_agent();
    box.serve();
    // The kill may have met the step itself, when the wake was faster: then the ledger is asked what to say.
    eventually([&] { return box.status(run) == "completed" || !box.pending(run, "reconcile").empty(); },
               [&] { return "the run does not go on: " + box.show(run).dump(); }, 30s);
    for (const Json& doubt : box.pending(run, "reconcile")) {
      box.answer(doubt["id"], {{"answer", box.effects("ship " + std::to_string(run)) == 0 ? "run" : "ran"}});
    }
    box.until_status(run, "completed");
    CHECK(box.effects("ship " + std::to_string(run)) == 1);
    CHECK(box.get("/v1/waits/" + std::to_string(wait))["status"] == "resolved");
  }
}

TEST_CASE("[N60] a sleep keeps its time over a kill") {
  CrashBox box;
  box.program("flow",
              "bide step before --effect idempotent -- effect before\n"
              "bide sleep 4s\n"
              "bide step after -- sh -c 'date +%s%3N >\"$OUT/woke\"; effect after'\n");
  const std::int64_t run = box.start("flow");
  box.until_status(run, "queued");
  const std::string timer = "SELECT created_at FROM waits WHERE kind = 'timer' AND run_id = " + std::to_string(run);
  eventually([&] { return !box.sql(timer).empty() && box.status(run) == "queued"; }, "the run does not sleep", 30s);
  const long long began = std::stoll(box.sql(timer));
  CHECK(box.effects("after") == 0);
  box.kill_all();
  box.serve();
  box.until_status(run, "completed");
  const long long woke = std::stoll(read_file(box.folder() + "/woke"));
  CHECK(woke >= began + 4'000);
  CHECK(woke < began + 20'000);
  CHECK(box.effects("before") == 1);
  CHECK(box.effects("after") == 1);
}

// Steps that end before and after the agent's stop does.
void stopped_agent(std::chrono::seconds stop, int shorter, int longer) {
  CrashBox box;
  const auto flow = [](int seconds) {
    return "bide step long -- sh -c 'effect start; sleep " + std::to_string(seconds) + "; effect end'\n";
  };
  box.program("shorter", flow(shorter));
  box.program("longer", flow(longer));
  const std::int64_t runs[] = {box.start("shorter"), box.start("longer")};
  for (const auto run : runs) box.until_effects("start " + std::to_string(run), 1);
  box.agent().signal(SIGSTOP);
  box.until_effects("end " + std::to_string(runs[0]), 1);                      // while nobody listens
  CHECK_FALSE(holds_within(stop, [&] { return box.effects("start") != 2; }));  // nobody starts another
  box.agent().signal(SIGCONT);
  for (const auto run : runs) {
    box.until_status(run, "completed");
    CHECK(box.effects("start " + std::to_string(run)) == 1);
    CHECK(box.effects("end " + std::to_string(run)) == 1);
    CHECK(box.step(run, "long")["executions"] == 1);
    CHECK(box.events(run, "step.completed") == 1);
    CHECK(box.events(run, "run.recovered") == 0);
    CHECK(box.sql("SELECT epoch FROM runs WHERE id = " + std::to_string(run)) == "1");
  }
}

TEST_CASE("[F12] the agent stopped for 6 s under running steps: each starts once and ends once") {
  stopped_agent(6s, 2, 10);
}
TEST_CASE("[F12] the agent stopped for 60 s under running steps: each starts once and ends once", "[.long]") {
  stopped_agent(60s, 20, 70);
}

}  // namespace
}  // namespace bide::test
