// How many runs of a program go at once: its newest manifest says it, also to a running agent [K1].
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("[N78] e2e: max_running holds after a restart, and a newer manifest is learnt without one [K1]") {
  Box box;
  box.program(
      "job",
      "bide step work --effect pure -- sh -c 'echo x >> \"$1\"/began; until [ -e \"$1\"/go ]; do sleep 0.02; done' "
      "work $OUT\nbide result done:=true\n");
  write_file(box.flows() + "/job.toml", "max_running = 1\n");
  std::vector<std::string> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(box.start("job"));
  const auto running = [&] {
    return box.sql("SELECT count(*) AS n FROM runs WHERE status = 'running'")[0][0].get<int>();
  };
  eventually([&] { return box.lines("began") == 1; }, "one runs");
  CHECK_FALSE(holds_within(500ms, [&] { return running() > 1; }));
  box.restart();  // nobody starts one now: the limit is that of what was pinned
  eventually([&] { return box.sql("SELECT count(*) AS n FROM events WHERE kind = 'run.claimed'")[0][0] == 2; },
             "one runs again");  // the same, or the next one, while what is left of the first is ended
  CHECK_FALSE(holds_within(500ms, [&] { return running() > 1; }));
  write_file(box.flows() + "/job.toml", "max_running = 3\n");
  eventually([&] { return running() == 3; }, "the newer manifest counts");
  CHECK_FALSE(holds_within(500ms, [&] { return running() > 3; }));
  box.touch("go");
  for (const auto& run : runs) box.comes_to(run, "completed");
}

}  // namespace bide::test
