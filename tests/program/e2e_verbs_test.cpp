// What a script says beside steps and single waits, on a whole agent: children, the first of several waits, what the
// run says of itself, going on as a new run.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

namespace {

std::string child_of(const Box& box, const std::string& run) {
  std::string child;
  eventually(
      [&] {
        const Json rows =
            box.sql("SELECT c.id FROM runs c JOIN steps s ON s.id = c.parent_step_id WHERE s.run_id = " + run +
                    " ORDER BY c.id DESC");
        if (!rows.empty()) child = rows[0].is_array() ? rows[0][0].dump() : rows[0]["id"].dump();
        return !child.empty();
      },
      "the run has a child");
  return child;
}

constexpr const char* kChild =
    "item=$(bide input item)\n"
    "bide step work -- sh -c 'echo \"$2\" >> \"$1\"' work $OUT/worked \"$item\"\n"
    "bide wait approval 'Go on?'\n"
    "bide result item=\"$item\" n:=2\n";

}  // namespace

TEST_CASE("e2e: bide call runs a child once, over the death of the agent, and hands its result to the script [A11]") {
  Box box;
  box.program("child", kChild);
  box.program("parent",
              "echo began >> $OUT/began\n"
              "x=$(bide call child --input '{\"item\": \"a b\"}')\n"
              "bide step after -- sh -c 'echo \"$2\" >> \"$1\"' after $OUT/after \"$x\"\n"
              "bide result child:=\"$x\"\n");
  const std::string run = box.start("parent");
  const std::string child = child_of(box, run);
  box.kill_agent();  // while both programs may still be there
  box.serve();
  box.suspended(child);
  box.suspended(run);
  CHECK(box.lines("after") == 0);
  box.restart();
  box.decide(child, "approve");
  const Json result{{"item", "a b"}, {"n", 2}};
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"child", result}});
  CHECK(box.comes_to(child, "completed")["result"] == result);
  CHECK(box.lines("worked") == 1);
  CHECK(box.lines("after") == 1);
  CHECK(Json::parse(box.text("after")) == result);
  CHECK(box.lines("began") >= 2);
  CHECK(child_of(box, run) == child);
  CHECK(box.json({"runs"})["items"].size() == 2);
}

TEST_CASE("e2e: bide call of a child that fails ends the run with its code, with --try the script has it [A11, V1]") {
  Box box;
  box.program("fails", "bide step break -- sh -c 'echo no luck >&2; exit 3'\n");
  box.program("asks", "bide wait approval 'Go?'\n");
  box.program("plain", "bide call fails || echo went on >> $OUT/after\necho after >> $OUT/after\n", "");
  box.program("tries",
              "c=0; e=$(bide call \"$(bide input of)\" --try) || c=$?\n"
              "bide wait approval 'Again?' --name again\n"
              "bide result code:=$c error:=\"$e\"\n");
  box.program("nowhere", "bide call fail\n");
  const Json error = box.fails(box.start("plain"), "CommandFailed");
  CHECK(error.dump().find("no luck") != std::string::npos);
  CHECK(box.lines("after") == 0);
  CHECK(box.fails(box.start("nowhere"), "workflow_unknown").dump().find("no workflow fail ") != std::string::npos);

  const std::string failed = box.start("tries", R"({"of": "fails"})");
  box.suspended(failed);
  box.restart();  // its failure is in the journal: no second child
  box.decide(failed, "approve");
  const Json said = box.comes_to(failed, "completed")["result"];
  CHECK(said["code"] == 1);
  CHECK(said["error"]["code"] == "CommandFailed");
  CHECK(box.sql("SELECT count(*) AS n FROM steps WHERE kind = 'child' AND run_id = " + failed)[0].dump().find('1') !=
        std::string::npos);

  const std::string denied = box.start("tries", R"({"of": "asks"})");
  box.decide(child_of(box, denied), "deny");
  box.decide(denied, "approve");
  CHECK(box.comes_to(denied, "completed")["result"]["code"] == 10);

  const std::string cancelled = box.start("tries", R"({"of": "asks"})");
  const std::string child = child_of(box, cancelled);
  box.wait_of(child);
  REQUIRE(box.bide({"cancel", child}).exit.code == 0);
  box.decide(cancelled, "approve");
  CHECK(box.comes_to(cancelled, "completed")["result"]["code"] == 7);
}

TEST_CASE("e2e: children side by side with --key, and a parent that is cancelled takes them with it [A11, P1, V3]") {
  Box box;
  box.program("child", kChild);
  box.program("parent",
              "for i in a b c; do bide call child --key $i --input \"{\\\"item\\\": \\\"$i\\\"}\" & done\nwait\n"
              "bide result done:=true\n");
  const std::string run = box.start("parent");
  box.suspended(run);
  eventually([&] { return box.lines("worked") == 3; }, "three children worked");
  REQUIRE(box.bide({"cancel", run}).exit.code == 0);
  box.comes_to(run, "cancelled");
  eventually(
      [&] {
        int ended = 0;
        const Json runs = box.json({"runs"});
        for (const Json& one : runs["items"]) ended += one["status"] == "cancelled";
        return ended == 4;
      },
      "all are cancelled");
  box.nothing_left();
  CHECK(box.lines("worked") == 3);
}

TEST_CASE("e2e: bide state is seen by others, read back by replay, and held to what was set [J10, J4]") {
  Box box;
  box.program("phases",
              "bide state get phase --default none >> $OUT/got\n"
              "bide state set phase 'copying \"b\"'\n"
              "bide state get phase >> $OUT/got\n"
              "bide state set left 3 --json\n"
              "bide wait approval 'Go?'\n"
              "bide state set phase done\n"
              "bide result phase=\"$(bide state get phase)\" left:=\"$(bide state get left --json)\"\n");
  box.program("moves",
              "bide state set phase \"$(cat $OUT/phase)\"\n"
              "bide wait approval 'Go?'\necho after >> $OUT/after\n");
  box.program("asks", "bide state get nothing || true\necho after >> $OUT/after\n");
  const std::string run = box.start("phases");
  box.suspended(run);
  CHECK(box.show(run)["state"] == Json{{"phase", "copying \"b\""}, {"left", 3}});
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"phase", "done"}, {"left", 3}});
  // The second attempt had set nothing yet where the first had not either.
  CHECK(box.text("got") == "none\ncopying \"b\"\nnone\ncopying \"b\"\n");
  CHECK(box.show(run)["state"]["phase"] == "done");
  CHECK(box.sql("SELECT payload FROM events WHERE kind = 'run.state' AND run_id = " + run).size() == 3);

  write_file(box.out("phase"), "one");
  const std::string moved = box.start("moves");
  box.suspended(moved);
  write_file(box.out("phase"), "two");
  box.decide(moved, "approve");
  const Json error = box.fails(moved, "NonDeterminism");
  CHECK(error.dump().find("two") != std::string::npos);
  box.fails(box.start("asks"), "StateMissing");
  CHECK(box.lines("after") == 0);
}

TEST_CASE("e2e: branches set state side by side, each reads its own, and the main branch what was joined [J10]") {
  Box box;
  box.program("branches",
              "bide state set at start\n"
              "for b in eu us; do (\n"
              "  export BIDE_BRANCH=$b\n"
              "  bide state get at >> $OUT/$b; bide state set at $b; bide state get at >> $OUT/$b\n"
              ") & done\nwait\n"
              "bide state get at >> $OUT/joined\n"
              "bide wait approval 'Go?'\nbide result done:=true\n");
  const std::string run = box.start("branches");
  box.suspended(run);
  box.restart();
  box.decide(run, "approve");
  box.comes_to(run, "completed");
  CHECK(box.text("eu") == "start\neu\nstart\neu\n");
  CHECK(box.text("us") == "start\nus\nstart\nus\n");
  const std::string joined = box.text("joined");
  REQUIRE(joined.size() == 6);
  CHECK(joined.substr(0, 3) == joined.substr(3));  // the same at replay
}

TEST_CASE("e2e: bide continue-as-new: a loop keeps a short journal, over deaths of the agent, no round twice [X7]") {
  Box box;
  box.program("loop",
              "n=$(bide input n)\n"
              "bide step tick -- sh -c 'echo \"$2\" >> \"$1\"' tick $OUT/ticks \"$n\"\n"
              "echo $n >> $OUT/at; until [ -e $OUT/gate.$n ]; do sleep 0.02; done\n"
              "bide wait signal next\n"
              "if [ $n -lt 4 ]; then bide continue-as-new --input \"{\\\"n\\\": $((n + 1))}\"; echo on >> $OUT/on; fi\n"
              "bide result last:=$n\n");
  std::string run = box.start("loop", R"({"n": 1})");
  for (int n = 1; n <= 4; ++n) {
    eventually([&] { return box.text("at").find(std::to_string(n)) != std::string::npos; }, "a tick is recorded");
    if (n % 2 == 1) box.restart();
    // The second signal of the second round is not read in it, and goes along [X7].
    if (n == 2) REQUIRE(box.bide({"signal", run, "next"}).exit.code == 0);
    if (n != 3) REQUIRE(box.bide({"signal", run, "next"}).exit.code == 0);
    box.touch("gate." + std::to_string(n));
    if (n == 4) break;
    box.comes_to(run, "completed");
    const Json ended = box.show(run);
    REQUIRE(ended["continued_as"].is_number());
    run = ended["continued_as"].dump();
  }
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"last", 4}});
  CHECK(box.text("ticks") == "1\n2\n3\n4\n");
  CHECK(box.lines("on") == 0);
  CHECK(box.json({"runs"})["items"].size() == 4);
}

TEST_CASE("e2e: bide continue-as-new with a verb in the background is an unfinished branch, and no new run [V1, X7]") {
  Box box;
  box.program("hasty",
              "bide wait approval A &\nuntil [ -e $OUT/go ]; do sleep 0.02; done\nbide continue-as-new || true\n"
              "echo after >> $OUT/after\n");
  const std::string run = box.start("hasty");
  box.wait_of(run);
  box.touch("go");
  box.fails(run, "UnfinishedBranch");
  CHECK(box.lines("after") == 0);
  CHECK(box.json({"runs"})["items"].size() == 1);
}

TEST_CASE("e2e: bide wait any: the first that is settled wins, its value is the answer, at replay too [A10]") {
  Box box;
  box.program("race",
              "x=$(bide wait any --approval 'Ship?' --question 'Or what?' --signal stop --timer 1h)\n"
              "echo \"$x\" >> $OUT/won\n"
              "bide wait approval 'More?' --name more\n"
              "bide result won:=\"$x\"\n");
  box.program("late", "bide result won:=\"$(bide wait any --signal stop --timer 2s)\"\n");
  box.program("denied", "bide wait any --approval 'Ship?' --signal stop || true\necho after >> $OUT/after\n", "");
  box.program("tries",
              "c=0; x=$(bide wait any --approval 'Ship?' --signal stop --try) || c=$?\n"
              "bide result code:=$c won:=\"$x\"\n");
  const std::string by_signal = box.start("race");
  const std::string by_answer = box.start("race");
  const std::string by_person = box.start("race");
  const std::string late = box.start("late");
  for (const std::string& run : {by_signal, by_answer, by_person}) box.comes_to(run, "queued");  // until the timer
  box.restart();
  REQUIRE(box.bide({"signal", by_signal, "stop", R"({"why": "rain"})"}).exit.code == 0);
  REQUIRE(box.bide({"answer", box.wait_of(by_answer, "question"), "paint it"}).exit.code == 0);
  REQUIRE(box.bide({"approve", box.wait_of(by_person, "approval")}).exit.code == 0);
  for (const std::string& run : {by_signal, by_answer, by_person}) {
    box.comes_to(run, "waiting");  // the others of the group are closed, or it would be queued for the timer
    box.decide(run, "approve");
  }
  CHECK(box.comes_to(by_signal, "completed")["result"] ==
        Json{{"won", {{"won", "stop"}, {"value", {{"why", "rain"}}}}}});
  CHECK(box.comes_to(by_answer, "completed")["result"] == Json{{"won", {{"won", "question"}, {"value", "paint it"}}}});
  const Json approved = box.comes_to(by_person, "completed")["result"]["won"];
  CHECK(approved["won"] == "approval");
  CHECK(approved["value"]["decision"] == "approved");
  CHECK(box.lines("won") >= 6);
  CHECK(box.comes_to(late, "completed")["result"]["won"]["won"] == "timer");

  const std::string denied = box.start("denied");
  box.decide(denied, "deny");
  box.fails(denied, "Denied");
  CHECK(box.lines("after") == 0);
  const std::string tried = box.start("tries");
  box.decide(tried, "deny");
  const Json said = box.comes_to(tried, "completed")["result"];
  CHECK(said["code"] == 10);
  CHECK(said["won"]["value"]["decision"] == "denied");
}

TEST_CASE("e2e: bide value tmpdir is the same folder at every replay, and may stand in an argument [J8, J4]") {
  Box box;
  box.program(
      "files",
      "d=$(bide value tmpdir)\n"
      "bide step fill -- sh -c 'echo kept > \"$1/file\"' fill \"$d\"\n"
      "bide wait approval 'Go?'\n"
      "bide result same=\"$(cat \"$d/file\")\" two=\"$([ \"$(bide value tmpdir)\" != \"$d\" ] && echo other)\"\n");
  const std::string run = box.start("files");
  box.suspended(run);
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"same", "kept"}, {"two", "other"}});
}

}  // namespace bide::test
