// Compensations of programs [E6], on a whole agent: what was done is taken back when the run ends failed or cancelled,
// last first, none twice over deaths of the agent, and the script is not entered again.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"
#include "tests/program/process_support.h"

namespace bide::test {

namespace {

// Three bookings that can be taken back; `$OUT/ledger` is the world. Each undo writes to `began`, waits for go.WHAT
// where there are gates, does its work once for its key, and waits for end.WHAT.
std::string trip(bool gates, const std::string& end, const std::string& more_of_undo = "") {
  const std::string wait_go = gates ? "until [ -e $OUT/go.$what ]; do sleep 0.02; done; " : "";
  const std::string wait_end = gates ? "until [ -e $OUT/end.$what ]; do sleep 0.02; done; " : "";
  return "echo entered >> $OUT/entered\nexport OUT\nmkdir -p sub\ncd sub\n"
         "for what in hotel flight car; do\n"
         "  export what\n"
         "  bide step book --key $what --export what --export OUT --compensate '"
         "echo $what >> $OUT/began; " +
         wait_go + more_of_undo +
         "grep -q $BIDE_IDEMPOTENCY_KEY $OUT/keys 2>/dev/null || "
         "{ echo \"-$(cat $BIDE_RESULT) in $(basename $(pwd))\" >> $OUT/ledger; "
         "echo $BIDE_IDEMPOTENCY_KEY >> $OUT/keys; }; " +
         wait_end + "echo undone $what" +
         "' -- sh -c 'echo \"$1\" >> $OUT/ledger; echo \"$1 no. 7\"' book $what\n"
         "done\n"
         "what=changed\ncd ..\n" +
         end;
}

const std::string kBooked = "hotel\nflight\ncar\n";
const std::string kAll = kBooked + "-car no. 7 in sub\n-flight no. 7 in sub\n-hotel no. 7 in sub\n";

Json undone(const Box& box, const std::string& run) {
  return box.sql("SELECT position, status, result, error FROM steps WHERE position LIKE '~undo/%' AND run_id = " + run +
                 " ORDER BY seq");
}

}  // namespace

TEST_CASE(
    "[N44] e2e: what a script did is taken back last first, as it was said then, and the first error stays [E6]") {
  Box box;
  box.program("trip", trip(false, "echo no more >&2\nexit 3\n"));
  const std::string run = box.start("trip");
  const Json error = box.fails(run, "program_failed");
  CHECK(error["exit_code"] == 3);
  CHECK(error["stderr"].get<std::string>().find("no more") != std::string::npos);
  CHECK(box.text("ledger") == kAll);
  CHECK(box.lines("entered") == 1);
  CHECK(box.lines("keys") == 3);
  const std::string journal = undone(box, run).dump();
  INFO(journal);
  CHECK(journal.find("~undo/3") < journal.find("~undo/2"));
  CHECK(journal.find("~undo/2") < journal.find("~undo/1"));
  CHECK(journal.find("undone flight") != std::string::npos);
  box.nothing_left();
}

TEST_CASE("[N120] e2e: killed after the script's end, and between two compensations: no entry again, none twice [E6]") {
  Box box;
  box.program("trip", trip(true, "exit 3\n"));
  const std::string run = box.start("trip");
  const auto again = [&](int began) {  // the agent dies and comes back
    eventually([&] { return box.lines("began") == began; }, [&] { return "began: " + box.text("began"); });
    // A compensation is idempotent: its intent, and its holder's row, are on disk a little later [J1].
    eventually(
        [&] {
          return box.sql(
                     "SELECT count(*) AS n FROM processes WHERE step_id IS NOT NULL AND status = 'running'")[0][0] == 1;
        },
        "the holder is recorded");
    box.kill_agent();
    box.serve();
  };
  again(1);  // before the first has done anything: its holder lives, and goes on
  CHECK(box.text("ledger") == kBooked);
  box.touch("go.car");
  eventually([&] { return box.lines("ledger") == 4; }, "the car is given back");
  again(1);  // after the first did its work and before its outcome
  box.touch("end.car");
  again(2);  // the flight's began: between two
  for (const char* gate : {"go.flight", "end.flight", "go.hotel", "end.hotel"}) box.touch(gate);
  CHECK(box.fails(run, "program_failed")["exit_code"] == 3);
  CHECK(box.text("ledger") == kAll);
  CHECK(box.text("began") == "car\nflight\nhotel\n");
  CHECK(box.lines("entered") == 1);
  box.restart();
  CHECK(box.status(run) == "failed");
  CHECK(box.text("ledger") == kAll);
}

TEST_CASE(
    "[N44] e2e: a compensation that fails is noted and the next runs, one that fails for a while is tried again") {
  Box box;
  box.program("trip", trip(false, "bide wait approval 'Pay?'\necho after >> $OUT/after\n",
                           "case $what in flight) bide step x -- true || exit $?;; "
                           "car) echo x >> $OUT/tries; [ $(wc -l < $OUT/tries) -ge 3 ] || exit 1;; esac; "));
  const std::string run = box.start("trip");
  box.decide(run, "deny");
  box.fails(run, "Denied");
  CHECK(box.text("ledger") == kBooked + "-car no. 7 in sub\n-hotel no. 7 in sub\n");
  CHECK(box.lines("tries") == 3);
  CHECK(box.lines("after") == 0);
  const Json rows = undone(box, run);
  INFO(rows.dump());
  CHECK(rows.dump().find("failed") != std::string::npos);
  CHECK(box.bide({"retry", run}).exit.code == 4);  // the world is not what the journal says any more [X3]
}

TEST_CASE("[N44] e2e: bide cancel takes back too, of a run that waits and of one whose step runs [E6, X1]") {
  Box box;
  box.program("waits", trip(false, "bide wait approval 'Pay?'\necho after >> $OUT/after\n"));
  box.program("busy", trip(false, "bide step long --compensate 'echo long >> $OUT/wrong' -- sleep 300.TAG\n"));
  const std::string waits = box.start("waits");
  box.suspended(waits);
  REQUIRE(box.bide({"cancel", waits}).exit.code == 0);
  box.comes_to(waits, "cancelled");
  CHECK(box.text("ledger") == kAll);

  const std::string busy = box.start("busy");
  eventually([&] { return !running_with("300." + box.tag()).empty(); }, "the long step runs");
  REQUIRE(box.bide({"cancel", busy}).exit.code == 0);
  box.comes_to(busy, "cancelled");
  CHECK(box.text("ledger") == kAll + kAll);
  CHECK(box.lines("wrong") == 0);  // it did not complete: in doubt, listed, not compensated

  const std::string left = box.start("waits");
  box.suspended(left);
  const Finished done = box.bide({"cancel", left, "--without-compensation"});
  REQUIRE(done.exit.code == 0);
  CHECK((done.out + done.err).find("book") != std::string::npos);
  box.comes_to(left, "cancelled");
  CHECK(box.text("ledger") == kAll + kAll + kBooked);
  CHECK(box.lines("after") == 0);
  box.nothing_left();
}

TEST_CASE("e2e: --export of a variable that is not there, and without --compensate, end the run before any effect") {
  Box box;
  box.program("unset", "bide step a --compensate true --export NOPE -- touch $OUT/done || true\ntouch $OUT/done\n");
  box.program("alone", "export A=1\nbide step a --export A -- touch $OUT/done || true\ntouch $OUT/done\n");
  CHECK(box.fails(box.start("unset"), "Usage").dump().find("export NOPE") != std::string::npos);
  CHECK(box.fails(box.start("alone"), "Usage").dump().find("--compensate") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(box.out("done")));
}

}  // namespace bide::test
