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

TEST_CASE("[N114] e2e: 5 MB of output lie in a file, and the replay prints the same bytes") {
  Box box;
  box.program("large",
              "export F=$OUT/big.1\n"
              "echo x >> $OUT/attempts; n=$(wc -l < $OUT/attempts)\n"
              "bide step big --export F --compensate 'cmp \"$BIDE_RESULT\" \"$F\" && echo same > \"$F.undone\"' -- "
              "sh -c 'seq 1 700000; printf \"\\377\\000\"; echo x >> \"$1\"' big $OUT/effects > $OUT/big.$n\n"
              "c=0; bide step fails --try -- sh -c 'seq 1 300000; exit 3' > $OUT/failed.$n || c=$?\n"
              "echo one > list; bide each many --key-from list -- sh -c 'seq 1 300000' {} > $OUT/many.$n\n"
              "bide wait approval A\nbide result code:=$c\n");
  const auto comes_back = [&](const std::string& decision) {
    write_file(box.out("attempts"), "");
    std::string run = box.start("large");
    box.suspended(run);
    box.restart();
    box.decide(run, decision);
    return run;
  };
  std::string run = comes_back("approve");
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"code", 3}});
  CHECK(box.lines("effects") == 1);
  CHECK(box.lines("attempts") == 2);
  for (const std::string name : {"big", "failed", "many"}) {
    INFO(name);
    const std::string first = box.text(name + ".1");
    CHECK(first.size() > 1'000'000);
    CHECK(first == box.text(name + ".2"));
  }
  CHECK(box.text("big.1").ends_with(std::string("700000\n\377\000", 9)));
  const Json entry = box.json({"journal", run})["items"][0];
  CHECK(entry["result"]["spilled"]["bytes"] == box.text("big.1").size());
  CHECK(entry["result"].dump().size() < 20'000);

  // A denial takes it back, and the compensation has all of it.
  run = comes_back("deny");
  box.comes_to(run, "failed");
  CHECK(box.text("big.1.undone") == "same\n");
}

TEST_CASE("[N114] e2e: over --max-output the step fails, and a file that is not what was recorded ends the run [E9]") {
  Box box;
  box.program("limited", "bide step big --max-output 2M -- sh -c 'seq 1 700000; echo x >> \"$1\"' big $OUT/effects\n");
  const Json error = box.fails(box.start("limited"), "ResultTooLarge");
  CHECK(error["message"].get<std::string>().find("--max-output") != std::string::npos);
  CHECK(box.lines("effects") == 1);  // it was let finish
  box.program("wrong", "bide step big --max-output 2X -- true\n");
  box.fails(box.start("wrong"), "Usage");

  box.program("kept", "bide step big -- seq 1 300000 > /dev/null\nbide wait approval A\n");
  const std::string run = box.start("kept");
  box.suspended(run);
  const Json entry = box.json({"journal", run})["items"][0];
  const std::string file = box.data() + "/outputs/" + entry["result"]["spilled"]["file"].get<std::string>();
  const std::string bytes = read_file(file);
  REQUIRE(bytes.size() == entry["result"]["spilled"]["bytes"]);
  write_file(file, bytes.substr(1) + "x");
  box.decide(run, "approve");
  box.fails(run, "OutputLost");
  CHECK(box.bide({"rm", run}).exit.code == 0);
  eventually([&] { return read_file(file).empty(); }, "the output is removed with its run");
}

}  // namespace bide::test
