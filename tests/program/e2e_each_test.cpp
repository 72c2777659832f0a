// bide each: a step for each line of a list, on a whole agent.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

namespace {

constexpr const char* kWork = "sh -c 'echo \"$2\" >> \"$1\"; echo \"got $2\"' work $OUT/work";

}  // namespace

TEST_CASE("e2e: bide each runs a step an item, a few at once, prints in order, and replays without running [V3]") {
  Box box;
  box.program("many", std::string("seq 1 40 > list; echo x >> $OUT/attempts\n") +
                          "bide each conv --key-from list -P 4 --effect idempotent -- " + kWork +
                          " 'item {}' > $OUT/seen.$(wc -l < $OUT/attempts)\n"
                          "bide wait approval A\n"
                          "bide result lines:=$(wc -l < $OUT/seen.2)\n");
  const std::string run = box.start("many");
  box.suspended(run);
  CHECK(box.lines("work") == 40);
  const std::string seen = box.text("seen.1");
  CHECK(seen.substr(0, 24) == "got item 1\ngot item 2\ngo");
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"lines", 40}});
  CHECK(box.text("seen.2") == seen);
  CHECK(box.lines("work") == 40);
  CHECK(box.sql("SELECT 1 FROM steps WHERE kind = 'step' AND name = 'conv' AND run_id = " + run).size() == 40);
}

TEST_CASE("e2e: bide each over the death of the agent: no item twice, those that were done are not run again") {
  Box box;
  box.program("many",
              "printf 'a\\nb\\nc\\nd\\n' > list\n"
              "bide each conv --key-from list --effect idempotent -- sh -c 'echo \"$2\" >> $1/work; until [ -e "
              "$1/go.$2 ]; do sleep 0.02; done; echo $2' conv $OUT {} > $OUT/seen\n"
              "bide result all=\"$(tr -d '\\n' < $OUT/seen)\"\n");
  const std::string run = box.start("many");
  box.touch("go.a");
  box.touch("go.b");
  eventually([&] { return box.lines("work") == 3; }, "the third is under way");
  box.kill_agent();
  box.serve();
  box.touch("go.c");
  box.touch("go.d");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"all", "abcd"}});
  const std::string work = box.text("work");
  INFO(work);
  CHECK(work.substr(0, 4) == "a\nb\n");
  CHECK(work.find("a", 1) == std::string::npos);
  CHECK(work.find("b", 3) == std::string::npos);
}

TEST_CASE("e2e: bide each with an item that fails, one that is there twice, a list that changed") {
  Box box;
  box.program("fails",
              "printf 'a\\nb\\nc\\n' | bide each conv --key-from - -- sh -c 'echo $2 >> $1; [ $2 != b ]' conv "
              "$OUT/work {} || true\necho after >> $OUT/after\n");
  box.program("twice", "printf 'a\\nb\\na\\n' | bide each --key-from - -- echo {} || true\necho after >> $OUT/after\n");
  box.program("moves",
              "bide each conv --key-from $OUT/list -- echo {}-$(cat $OUT/word)\n"
              "bide wait approval A\necho after >> $OUT/after\n");
  box.fails(box.start("fails"), "CommandFailed");
  CHECK(box.text("work") == "a\nb\n");
  CHECK(box.fails(box.start("twice"), "Usage").dump().find("twice") != std::string::npos);
  write_file(box.out("list"), "a\nb\n");
  write_file(box.out("word"), "one");
  const std::string moved = box.start("moves");
  box.suspended(moved);
  write_file(box.out("word"), "two");
  box.decide(moved, "approve");
  box.fails(moved, "NonDeterminism");
  CHECK(box.lines("after") == 0);
}

}  // namespace bide::test
