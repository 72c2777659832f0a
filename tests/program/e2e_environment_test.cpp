// A folder that runs of programs share, named by their manifest [W8]; and runs that a person deletes [W9].
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {

TEST_CASE("[N82] e2e: runs share the environment that their manifest names, and wait until it is there [W8]") {
  Box box;
  box.program("build",
              "echo \"run $BIDE_RUN\" >> $BIDE_ENVIRONMENT/said\n"
              "bide step look --effect pure -- sh -c 'cat \"$1\"/said \"$1\"/seeded' s $BIDE_ENVIRONMENT\n"
              "bide wait approval 'Go on?'\n"
              "bide result place=\"$BIDE_ENVIRONMENT\"\n");
  write_file(box.flows() + "/build.toml", "environment = \"builds\"\n");
  const std::string first = box.start("build");
  eventually([&] { return box.show(first)["reason"] == "environment_missing"; },
             [&] { return "it waits for its environment: " + box.show(first).dump(); });
  CHECK(box.bide({"explain", first}).out.find("bide environment add builds") != std::string::npos);
  std::filesystem::create_directories(box.out("seed"));
  write_file(box.out("seed/seeded"), "by hand\n");
  CHECK(box.bide({"environment", "add", "builds", "--seed", box.out("seed"), "--delete-after", "30d"}).exit.code == 0);
  box.suspended(first);  // rung when it was ready: sooner than it would have looked again
  box.restart();
  const std::string second = box.start("build");
  box.suspended(second);
  for (const auto& run : {first, second}) box.decide(run, "approve");
  const std::string place = box.comes_to(first, "completed")["result"]["place"];
  CHECK(box.comes_to(second, "completed")["result"]["place"] == place);
  CHECK(place == box.data() + "/environments/builds");
  CHECK(read_file(place + "/seeded") == "by hand\n");
  CHECK(read_file(place + "/said").find("run " + second) != std::string::npos);
  const Json list = box.json({"environment", "list"});
  REQUIRE(list["items"].size() == 1);
  CHECK(list["items"][0]["status"] == "ready");
  CHECK(list["items"][0]["delete_after"] == "30d");
  CHECK(box.bide({"environment", "remove", "builds"}).exit.code == 0);
  eventually([&] { return box.json({"environment", "list"})["items"].empty(); }, "removed");
  CHECK_FALSE(std::filesystem::exists(place));
  CHECK(box.bide({"environment", "remove", "builds"}).exit.code == 3);
}

TEST_CASE("[W9] e2e: a run is deleted with its files, a live one is not, and the sweep reports each duty") {
  Box box;
  box.program("job", "echo hello\nbide step work --effect pure -- true\nbide wait approval 'Go on?'\n");
  const std::string run = box.start("job");
  box.suspended(run);
  const Finished live = box.bide({"rm", run});
  CHECK(live.exit.code == 4);
  CHECK(live.err.find("run_live") != std::string::npos);
  box.decide(run, "approve");
  box.comes_to(run, "completed");
  const std::string log = box.data() + "/logs/" + run + ".log";
  const std::string workspace = box.data() + "/workspaces/" + run;
  CHECK(std::filesystem::exists(log));
  CHECK(box.bide({"rm", run}).exit.code == 0);
  CHECK(box.bide({"show", run}).exit.code == 3);
  CHECK(box.json({"runs"})["items"].empty());
  eventually([&] { return box.sql("SELECT count(*) FROM steps")[0][0] == 0; }, "its rows go");
  eventually([&] { return !std::filesystem::exists(log) && !std::filesystem::exists(workspace); }, "its files go");
  std::vector<std::string> duties;
  const Json report = box.json({"sweep"});
  for (const Json& duty : report["duties"]) duties.push_back(duty["name"]);
  CHECK(duties == std::vector<std::string>{"outbox", "timers", "children", "processes", "overdue", "tasks", "orphans",
                                           "orphans", "stalled", "undispatched", "undispatched", "environments",
                                           "retention", "hooks", "hooks"});
}

}  // namespace bide::test
