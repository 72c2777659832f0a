// SIGKILL in the middle of effects: what is run again, what is asked, and what the answers do.
#include <catch2/catch.hpp>

#include <chrono>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

const std::string kUntilGo = "until [ -e \"$OUT/go\" ]; do sleep 0.02; done";

// before, pay, after; `pay` does its effect, and then waits for the file `go`.
std::string paying(const std::string& flags = "", const std::string& command = "effect pay; " + kUntilGo) {
  return "bide step before --effect pure -- effect before\n"
         "bide step pay " +
         flags + " -- sh -c '" + command +
         "; echo receipt'\n"
         "bide step after --effect pure -- effect after\n"
         "bide result done:=true\n";
}

// A run that was killed in the middle of its payment, and the agent that found it.
struct Doubt : CrashBox {
  explicit Doubt(const std::string& flow = paying()) {
    program("flow", flow);
    run = start("flow");
    name = std::to_string(run);
    until_effects("pay " + name, 1);
    kill_all();
    serve();
  }
  std::string answer_in_shell(const std::string& word) {
    const Finished done = bide({"answer", std::to_string(wait_of(run, "reconcile")), word});
    INFO(done.err);
    REQUIRE(done.exit == Exit{0, 0});
    return done.out;
  }
  // One question, in the shell's inbox too, and nothing was run again.
  void check_asked() {
    const std::int64_t wait = wait_of(run, "reconcile");
    until_status(run, "waiting");
    const Finished inbox = bide({"inbox", "--json"});
    INFO(inbox.out);
    const Json items = Json::parse(inbox.out)["items"];
    REQUIRE(items.size() == 1);
    CHECK(items[0]["id"] == wait);
    CHECK(items[0]["kind"] == "reconcile");
    CHECK(bide({"inbox"}).out.find("bide answer " + std::to_string(wait)) != std::string::npos);
    const Json entry = step(run, "pay");
    CHECK(entry["status"] == "needs_reconcile");
    CHECK(entry["executions"] == 1);
    CHECK(events(run, "run.recovered") == 1);
  }
  void check_effects(int pay, int after) {
    CHECK(effects("before " + name) == 1);
    CHECK(effects("pay " + name) == pay);
    CHECK(effects("after " + name) == after);
  }
  std::int64_t run = 0;
  std::string name;
};

TEST_CASE("[N26] [F01] killed between effect and outcome: one question, and each answer does what it says") {
  Doubt box;
  box.check_asked();
  box.check_effects(1, 0);
  SECTION("ran") {
    box.answer_in_shell("ran");
    box.until_status(box.run, "completed");
    box.check_effects(1, 1);
    CHECK(box.step(box.run, "pay")["result"] == Json{{"assumed", true}});
  }
  SECTION("run") {
    box.touch("go");
    box.answer_in_shell("run");
    box.until_status(box.run, "completed");
    box.check_effects(2, 1);
    const auto ledger = box.ledger();
    REQUIRE(ledger.size() == 4);
    CHECK(ledger[1] == ledger[2]);  // under the same key
    CHECK(box.step(box.run, "pay")["executions"] == 2);
    CHECK(box.step(box.run, "pay")["result"] == "receipt\n");
  }
  SECTION("run, and killed once more: asked anew") {
    const std::int64_t first = box.wait_of(box.run, "reconcile");
    box.answer_in_shell("run");
    box.until_effects("pay " + box.name, 2);
    box.kill_all();
    box.serve();
    CHECK(box.wait_of(box.run, "reconcile") != first);
    box.check_effects(2, 0);
    CHECK(box.get("/v1/waits/" + std::to_string(first))["status"] == "resolved");
    box.answer_in_shell("ran");
    box.until_status(box.run, "completed");
    box.check_effects(2, 1);
  }
  SECTION("abort") {
    box.answer_in_shell("abort");
    box.until_status(box.run, "cancelled");
    box.check_effects(1, 0);
    CHECK(box.step(box.run, "pay")["status"] == "failed");
    CHECK(box.step(box.run, "pay")["error"]["code"] == "ReconcileAborted");
  }
}

TEST_CASE("[N26] killed between intent and effect: one question, and run makes the effect happen once") {
  CrashBox box;
  box.program("flow", paying("", kUntilGo + "; effect pay"));
  const std::int64_t run = box.start("flow");
  const std::string name = std::to_string(run);
  eventually([&] { return !box.step(run, "pay").is_null(); }, "no intent of pay", 60s);
  box.kill_all();
  box.serve();
  const std::int64_t wait = box.wait_of(run, "reconcile");
  CHECK(box.effects("pay " + name) == 0);
  box.touch("go");
  box.answer(wait, {{"answer", "run"}});
  box.until_status(run, "completed");
  CHECK(box.effects("pay " + name) == 1);
  CHECK(box.effects("before " + name) == 1);
}

TEST_CASE("[F01] before the intent and after the outcome nothing is asked, and the effect happens once") {
  CrashBox box;
  const std::string hold = "until [ -e \"$OUT/$0\" ]; do sleep 0.02; done";
  box.program("flow", "bide step a --effect pure -- sh -c 'effect a; " + hold + "' go-a\n" +
                          "bide step b -- effect b\n" + "bide step c --effect pure -- sh -c 'effect c; " + hold +
                          "' go-c\n");
  const std::int64_t run = box.start("flow");
  const std::string name = std::to_string(run);
  box.until_effects("a " + name, 1);
  box.kill_all();
  box.serve();
  box.until_effects("a " + name, 2);
  CHECK(box.effects("b " + name) == 0);
  box.touch("go-a");
  box.until_effects("c " + name, 1);
  box.kill_all();
  box.serve();
  box.until_effects("c " + name, 2);
  CHECK(box.effects("b " + name) == 1);
  box.touch("go-c");
  box.until_status(run, "completed");
  CHECK(box.effects("b " + name) == 1);
  CHECK(box.sql("SELECT count(*) FROM waits") == "0");
}

TEST_CASE("[N27] with a probe that can tell nobody is asked, and with one that cannot somebody is") {
  SECTION("ran") {
    Doubt box(paying("--probe 'effect probe; grep \"^pay $BIDE_RUN \" \"$OUT/ledger\" >/dev/null && echo found'"));
    box.until_status(box.run, "completed");
    box.check_effects(1, 1);
    CHECK(box.effects("probe " + box.name) == 1);
    CHECK(box.step(box.run, "pay")["result"] == "found\n");
    CHECK(box.sql("SELECT count(*) FROM waits") == "0");
  }
  SECTION("did not run") {
    Doubt box(paying("--probe 'effect probe; touch \"$OUT/go\"; exit 100'"));
    box.until_status(box.run, "completed");
    box.check_effects(2, 1);
    CHECK(box.effects("probe " + box.name) == 1);
    CHECK(box.step(box.run, "pay")["executions"] == 2);
    CHECK(box.sql("SELECT count(*) FROM waits") == "0");
  }
  SECTION("cannot tell") {
    Doubt box(paying("--probe 'effect probe; exit 1'"));
    box.check_asked();
    box.check_effects(1, 0);
    CHECK(box.effects("probe " + box.name) == 1);
    box.answer_in_shell("ran");
    box.until_status(box.run, "completed");
    box.check_effects(1, 1);
  }
}

TEST_CASE("[N72] killed once the question is committed: it stays the one question") {
  Doubt box;
  const std::int64_t wait = box.wait_of(box.run, "reconcile");
  for (int i = 0; i < 3; ++i) {
    box.kill_all();
    box.serve();
    CHECK(box.wait_of(box.run, "reconcile") == wait);
  }
  CHECK(box.sql("SELECT count(*) FROM waits") == "1");
  box.check_effects(1, 0);
  box.answer_in_shell("ran");
  box.until_status(box.run, "completed");
  box.check_effects(1, 1);
}

}  // namespace
}  // namespace bide::test
