// What a step prints is what was recorded, whatever it is and whoever reads it [E9, programs.md], on a whole agent.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

TEST_CASE("[N114] e2e: a reader that closes early does not end the script, at replay neither") {
  Box box;
  box.program("early",
              "bide step list -- sh -c 'seq 1 40000; echo listed >> \"$1\"' list $OUT/listed | head -1 >> $OUT/first\n"
              "bash -eo pipefail -c 'bide step whole -- seq 1 40000 | head -1' >> $OUT/strict\n"
              "bide wait approval A\n"
              "bide step after -- sh -c 'echo after >> \"$1\"' after $OUT/after\n"
              "bide result first=\"$(tail -1 $OUT/first)\"\n");
  const std::string run = box.start("early");
  box.suspended(run);
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"first", "1"}});
  CHECK(box.text("first") == "1\n1\n");
  CHECK(box.text("strict") == "1\n1\n");  // where the verb's own code counts too
  CHECK(box.lines("listed") == 1);
  CHECK(box.lines("after") == 1);
}

TEST_CASE("[N114] e2e: a server that keeps the step's stdout open does not hang it, and is gone with the run") {
  Box box;
  box.program("serves", "x=$(bide step serve -- sh -c 'sleep 300.TAG & echo started')\nbide result said=\"$x\"\n");
  CHECK(box.comes_to(box.start("serves"), "completed")["result"] == Json{{"said", "started"}});
  box.nothing_left();
}

TEST_CASE("[N114] e2e: bytes that are not UTF-8, and no output at all: the same at replay") {
  Box box;
  box.program("odd",
              "echo x >> $OUT/attempts; n=$(wc -l < $OUT/attempts)\n"
              "bide step bytes -- printf '\\377\\000\\001abc\\303\\n\\n' > $OUT/bytes.$n\n"
              "bide step none -- true > $OUT/none.$n\n"
              "bide step text -- printf 'no line end: \\303\\244' > $OUT/text.$n\n"
              "bide wait approval A\nbide result n:=$n\n");
  const std::string run = box.start("odd");
  box.suspended(run);
  box.restart();
  box.decide(run, "approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"n", 2}});
  const std::string bytes("\377\000\001abc\303\n\n", 9);
  for (const std::string n : {"1", "2"}) {
    CHECK(box.text("bytes." + n) == bytes);
    CHECK(box.text("none." + n).empty());
    CHECK(box.text("text." + n) == "no line end: \303\244");
  }
}

}  // namespace bide::test
