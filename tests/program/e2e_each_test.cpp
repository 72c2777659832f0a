// bide each: a step for each line of a list, on a whole agent.
#include <catch2/catch.hpp>

#include <chrono>
#include <set>
#include <sstream>

#include "tests/program/e2e_box.h"

namespace bide::test {

namespace {

// Each item is a step of its own, done once; the replay reads them in bulk and runs none.
void each_of(int items) {
  Box box;
  const std::string number = std::to_string(items);
  box.program("many", "seq 1 " + number +
                          " > list; echo x >> $OUT/attempts\n"
                          "bide each conv --key-from list -P 8 --effect idempotent -- sh -c 'echo \"$2\" >> \"$1\"; "
                          "echo \"got $2\"' work $OUT/work {} > $OUT/seen.$(wc -l < $OUT/attempts)\n"
                          "bide wait approval A\n"
                          "bide result lines:=$(wc -l < $OUT/seen.2)\n");
  const std::string run = box.start("many");
  const bool asks = holds_within(std::chrono::minutes(20), [&] { return !box.json({"inbox"})["items"].empty(); });
  INFO(box.lines("work") << " of " << items << "; " << box.bide({"log", run}).out);
  REQUIRE(asks);
  box.suspended(run);
  std::istringstream work(box.text("work"));
  std::set<std::string> done;
  for (std::string item; std::getline(work, item);) done.insert(item);
  CHECK(done.size() == static_cast<std::size_t>(items));
  CHECK(box.lines("work") == items);
  std::string ordered;
  for (int i = 1; i <= items; ++i) ordered += "got " + std::to_string(i) + "\n";
  CHECK(box.text("seen.1") == ordered);
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"lines", items}});
  CHECK(box.text("seen.2") == ordered);
  CHECK(box.lines("work") == items);
  const Json steps =
      box.sql("SELECT count(*), sum(status = 'completed') FROM steps WHERE kind = 'step' AND run_id = " + run);
  CHECK(steps[0] == Json{items, items});
}

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

TEST_CASE("e2e: bide each over 1000 items: each once, in order, and so at the replay [V3]") { each_of(1'000); }

TEST_CASE("e2e: bide each over 10000 items: each once, in order, and so at the replay [V3]", "[.long]") {
  each_of(10'000);
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
