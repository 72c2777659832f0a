// The programs that are shipped as examples, run for real.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {

namespace fs = std::filesystem;

namespace {

const std::string kExamples = std::string(BIDE_SOURCE_DIR) + "/packaging/examples";

struct Rollout {
  TempDir site;
  Box box{BIDE_EXECUTABLE, kExamples};

  Rollout() {
    write_file(site / "new.conf", "colour = green\n");
    write_file(site / "app.conf", "colour = blue\n");
  }
  std::string target() const { return read_file(site / "app.conf"); }
  std::string start(Json more) const {
    more["source"] = site.str("new.conf");
    more["target"] = site.str("app.conf");
    return box.start("rollout", more.dump());
  }
};

}  // namespace

TEST_CASE("examples: a rollout asks, survives the death of the agent, and installs once") {
  Rollout world;
  const std::string run = world.start({{"check", "grep -q green \"$1\""}});
  world.box.suspended(run);
  CHECK(world.target() == "colour = blue\n");
  // What was asked about is what is installed, though the source has changed since.
  write_file(world.site / "new.conf", "colour = red\n");
  world.box.restart();
  world.box.decide(run, "approve");
  const Json done = world.box.comes_to(run, "completed");
  CHECK(done["result"]["target"] == world.site.str("app.conf"));
  CHECK(world.target() == "colour = green\n");
  const Json journal = world.box.json({"journal", run});
  for (const Json& step : journal["items"]) CHECK(step["executions"].get<int>() <= 1);
}

TEST_CASE("examples: a rollout whose check fails puts the old file back, one that is denied changes nothing") {
  Rollout world;
  const std::string checks = "echo x >> " + world.site.str("checked") + "; false";
  const std::string run = world.start({{"check", checks}});
  world.box.decide(run, "approve");
  const Json error = world.box.fails(run, "program_failed");
  CHECK(error.dump().find("did not verify") != std::string::npos);
  CHECK(world.target() == "colour = blue\n");
  CHECK(read_file(world.site / "checked") == "x\nx\nx\n");  // two retries: the new file was there
  CHECK_FALSE(fs::exists(world.site / "app.conf.bide-new"));

  const std::string denied = world.start(Json::object());
  world.box.decide(denied, "deny");
  world.box.comes_to(denied, "failed");
  CHECK(world.target() == "colour = blue\n");
  const std::string wrong = world.start({{"sha256", "00"}});
  world.box.fails(wrong, "CommandFailed");
  CHECK(world.target() == "colour = blue\n");
}

TEST_CASE("examples: a rollout of a file that was not there, whose check fails, leaves none") {
  Rollout world;
  fs::remove(world.site / "app.conf");
  const std::string run = world.start({{"check", "false"}});
  world.box.decide(run, "approve");
  world.box.fails(run, "program_failed");
  CHECK_FALSE(fs::exists(world.site / "app.conf"));
}

TEST_CASE("examples: a backup in Python archives once, asks, and removes what it was allowed to") {
  const TempDir place;
  Box box(BIDE_EXECUTABLE, kExamples);
  write_file(place / "notes/one.txt", "one\n");
  const std::string old = place.str("store/notes-20200101T000000Z.tar.gz");
  const std::string older = place.str("store/notes-20190101T000000Z.tar.gz");
  write_file(old, "old");
  write_file(older, "older");
  const Json input = {{"folder", place.str("notes")}, {"into", place.str("store")}, {"keep", 2}};
  const std::string run = box.start("backup", input.dump());
  const std::string question = box.wait_of(run);
  box.suspended(run);
  CHECK(fs::exists(older));
  box.restart();
  CHECK(box.bide({"answer", question, "yes"}).exit.code == 0);
  const Json result = box.comes_to(run, "completed")["result"];
  CHECK(result["removed"] == 1);
  CHECK_FALSE(fs::exists(older));
  CHECK(fs::exists(old));
  const std::string archive = result["archive"];
  CHECK(fs::file_size(archive) == result["bytes"].get<std::uintmax_t>());
  const Finished sum = test::run({.argv = {"sha256sum", archive}});
  CHECK(sum.out.substr(0, 64) == result["sha256"]);
  CHECK(test::run({.argv = {"tar", "-xzOf", archive, "notes/one.txt"}}).out == "one\n");
  const Json journal = box.json({"journal", run});
  for (const Json& step : journal["items"]) CHECK(step["executions"].get<int>() <= 1);
}

}  // namespace bide::test
