// A program and its verbs were killed together, as an operator or a machine short of memory kills a group: the run was
// failed with VerbKilled, though the program had made nothing of its lost verb. It is a crash, and the run recovers.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <sstream>

#include "agent/base/process_tree.h"
#include "tests/program/e2e_box.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;

TEST_CASE("[K6] issue: a program that is killed together with its verb is a crash, and no killed verb") {
  // Late: only after the verb has been missed for longer than one may be while its program ends.
  const bool late = GENERATE(false, true);
  INFO((late ? "late" : "at once"));
  Box box;
  box.program("waits",
              "( until [ -e $OUT/go ]; do sleep 0.02; done ) &\n"  // so that it is not suspended before it is killed
              "echo $PPID $$ > $OUT/who.new; mv $OUT/who.new $OUT/who\n"
              "bide wait approval 'Go?'\n"
              "wait\n"
              "bide result done:=true\n");
  const std::string run = box.start("waits");
  (void)box.wait_of(run);
  int guard = 0;
  int program = 0;
  std::istringstream(box.text("who")) >> guard >> program;
  REQUIRE(guard > 1);
  REQUIRE(program > 1);
  const auto below = descendants(program);
  REQUIRE(below.size() >= 2);  // the verb is one of them
  // Stopped, it says what became of the program only when the verb is dead for certain.
  REQUIRE(::kill(guard, SIGSTOP) == 0);
  eventually([&] { return read_process(guard)->stopped(); }, "the guard stands still");
  REQUIRE(::kill(-program, SIGKILL) == 0);
  eventually(
      [&] {
        return !read_process(program) &&
               std::none_of(below.begin(), below.end(), [](const ProcessInfo& one) { return is_alive(one.key); });
      },
      "all are dead");
  box.touch("go");
  if (late) CHECK_FALSE(holds_within(1'500ms, [&] { return box.status(run) == "failed"; }));
  REQUIRE(::kill(guard, SIGCONT) == 0);
  eventually(
      [&] {
        return box.status(run) == "failed" || box.sql("SELECT epoch FROM runs WHERE id = " + run)[0][0].get<int>() > 1;
      },
      "the attempt is over");
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"done", true}});
}
