// The agent was killed while a step ran; the next attempt replayed, and the step, which goes on under its holder, wrote
// to the log meanwhile. What an attempt writes before it does anything new is hidden as a replay: so was what the step
// said. Found by the secrets' test on a loaded machine. An attempt beside which a step goes on hides nothing now.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("[K7] issue: what a step that outlived its agent says while the next attempt replays is in the log") {
  Box box;
  // From the second attempt on it works for as long as the test wants before it asks for the step.
  box.program("w",
              "echo begin\n"
              "if [ -e $OUT/begun ]; then until [ -e $OUT/on ]; do sleep 0.02; done; fi\n"
              "bide step slow -- "
              "sh -c 'echo >'$OUT'/begun; until [ -e '$OUT'/say ]; do sleep 0.02; done; echo said >&2; "
              "until [ -e '$OUT'/end ]; do sleep 0.02; done'\n"
              "bide step other --effect pure -- true\n"
              "echo end\n");
  const std::string run = box.start("w");
  const auto journal = [&] { return box.json({"journal", run})["items"]; };
  const auto log = [&] { return read_file(box.data() + "/logs/" + run + ".log"); };
  eventually([&] { return box.lines("begun") == 1; }, "the step has begun", 60s);
  box.kill_agent();
  box.serve();
  eventually([&] { return log() == "begin\nbegin\n"; }, "the next attempt has begun", 60s);
  box.touch("say");
  eventually([&] { return log() == "begin\nbegin\nsaid\n"; }, "the step says it", 60s);
  SECTION("and goes on") {
    box.touch("on");
    box.touch("end");
  }
  SECTION("and has ended when it is asked for") {
    box.touch("end");
    eventually([&] { return journal()[0]["status"] == "completed"; }, "it is settled", 60s);
    box.touch("on");
  }
  box.comes_to(run, "completed");
  CHECK(journal()[0]["executions"] == 1);
  CHECK(box.bide({"log", run}).out == "begin\nbegin\nsaid\nend\n");
}

}  // namespace bide::test
