// The sample apps in Python and Node over a real agent: each is killed, stopped and left behind, and so is the agent.
// What the app pays is a command of its own: it writes a line with its key into the ledger and then waits for a file.
#include <catch2/catch.hpp>

#include <csignal>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kExamples = std::string(BIDE_SOURCE_DIR) + "/packaging/examples/";

struct Apps {
  CrashBox box;
  TempDir place;
  std::vector<std::string> app;

  explicit Apps(const std::string& language) {
    app = language == "python" ? std::vector<std::string>{"python3", "-B", kExamples + "remote-app.py"}
                               : std::vector<std::string>{"node", kExamples + "remote-app.mjs"};
    write_file(place / "bide.toml", "remote_lease = \"2s\"\n");
    const auto pay = place / "pay";
    write_file(pay, "#!/bin/sh\necho \"pay $1 $2\" >>'" + ledger() + "'\nuntil [ -e '" + place.str("go") +
                        "' ]; do sleep 0.02; done\n");
    fs::permissions(pay, fs::perms(0755));
    box.agent().signal(SIGTERM);
    REQUIRE(box.agent().wait(30s).has_value());
    box.flags = {"--config", place.str("bide.toml")};
    box.serve();
  }
  [[nodiscard]] std::string ledger() const { return place.str("ledger"); }
  [[nodiscard]] Command start_app() const {
    Command command;
    command.argv = app;
    command.argv.push_back(box.socket());
    command.argv.push_back(place.str("pay"));
    command.own_group = true;
    return command;
  }
  // Registered, and one run of it begun.
  [[nodiscard]] std::int64_t run() const {
    eventually(
        [&] {
          return box.ask("POST", "/v1/runs", {{"workflow", "refund"}, {"input", {{"order", 7}, {"amount", 25}}}})
                     .first == 201;
        },
        "the app has registered", 30s);
    return std::stoll(box.sql("SELECT max(id) FROM runs"));
  }
  void approve(std::int64_t run) const { box.answer(box.wait_of(run, "approval"), {{"decision", "approved"}}); }
  void parcel(std::int64_t run) const {
    CHECK(box.ask("POST", "/v1/runs/" + std::to_string(run) + "/signals/parcel", {{"payload", {{"weight", 2}}}}).first <
          300);
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::string line;
    std::istringstream text(fs::exists(ledger()) ? read_file(ledger()) : "");
    while (std::getline(text, line)) all.push_back(line);
    return all;
  }
  [[nodiscard]] std::size_t keys() const {
    const auto all = lines();
    return std::set<std::string>(all.begin(), all.end()).size();
  }
  void until_lines(std::size_t count) const {
    eventually([&] { return lines().size() >= count; }, [&] { return "lines of the ledger: " + std::to_string(count); },
               60s);
  }
  void go() const { write_file(place / "go", ""); }
  void ends_right(std::int64_t run) const {
    box.until_status(run, "completed");
    CHECK(box.show(run)["result"] == Json({{"refunded", 23}, {"weight", 2}}));
    CHECK(keys() == 1);
    CHECK(box.events(run, "run.completed") == 1);
  }
};

}  // namespace

TEST_CASE("remote: the sample app as its first lines say: a step, a branch, an approval, a signal") {
  const std::string language = GENERATE("python", "node");
  const Apps world(language);
  world.go();
  Process app(world.start_app());
  const std::int64_t run = world.run();
  world.box.until_status(run, "waiting");  // nobody holds it
  world.approve(run);
  world.parcel(run);
  world.ends_right(run);
  CHECK(world.lines().size() == 1);
  const std::int64_t denied = world.run();
  world.box.answer(world.box.wait_of(denied, "approval"), {{"decision", "denied"}});
  world.parcel(denied);
  world.box.until_status(denied, "completed");
  CHECK(world.box.show(denied)["result"] == Json({{"refunded", 0}}));
  CHECK(world.lines().size() == 1);
}

TEST_CASE("[I2] remote: a sample app that is killed in a step, at a wait, or when its answer was sent, ends right") {
  const std::string language = GENERATE("python", "node");
  Apps world(language);
  std::optional<Process> app(std::in_place, world.start_app());
  const std::int64_t run = world.run();
  const auto another = [&] {
    app->kill();
    app.emplace(world.start_app());
  };
  (void)world.box.wait_of(run, "approval");
  another();  // at a wait, or just before it
  world.approve(run);
  another();  // one branch has its answer, the other waits
  world.parcel(run);
  world.until_lines(1);
  another();  // in the step
  world.until_lines(2);
  world.go();
  eventually([&] { return world.box.step(run, "pay").value("status", "") == "completed"; }, "it is paid", 30s);
  another();  // its outcome was sent
  world.ends_right(run);
  another();  // … and the run's
  CHECK(world.lines().size() == 2);
  CHECK(world.box.step(run, "pay")["executions"] == 2);
  CHECK(world.box.status(run) == "completed");
}

TEST_CASE("[K2] remote: a worker that is stopped past its lease and goes on changes nothing, and the run ends once") {
  const std::string language = GENERATE("python", "node");
  Apps world(language);
  Process stopped(world.start_app());
  const std::int64_t run = world.run();
  world.approve(run);
  world.parcel(run);
  world.until_lines(1);
  stopped.signal(SIGSTOP);
  eventually([&] { return world.box.events(run, "run.recovered") == 1; }, "its lease ends", 30s);
  std::optional<Process> second(std::in_place, world.start_app());
  world.until_lines(2);
  world.go();
  world.ends_right(run);
  const std::string journal = world.box.sql(
      "SELECT group_concat(position || status || executions || coalesce(result,'')) "
      "FROM steps WHERE run_id = " +
      std::to_string(run));
  second.reset();
  stopped.signal(SIGCONT);
  // It drives the next one: what it had to say of the first is said.
  const std::int64_t next = world.run();
  world.approve(next);
  world.parcel(next);
  world.box.until_status(next, "completed");
  CHECK(world.box.sql("SELECT group_concat(position || status || executions || coalesce(result,'')) FROM steps WHERE "
                      "run_id = " +
                      std::to_string(run)) == journal);
  CHECK(world.box.events(run, "run.completed") == 1);
  CHECK(stopped.running());
}

TEST_CASE("[K4] remote: an agent that is killed and started again under an app disturbs no step of it") {
  const std::string language = GENERATE("python", "node");
  Apps world(language);
  Process app(world.start_app());
  const std::int64_t run = world.run();
  (void)world.box.wait_of(run, "approval");
  world.box.kill_agent();
  world.box.serve();
  world.approve(run);
  world.parcel(run);
  world.until_lines(1);
  world.box.kill_agent();
  world.box.serve();
  world.go();
  world.ends_right(run);
  CHECK(world.lines().size() == 1);
  CHECK(world.box.step(run, "pay")["executions"] == 1);
}

}  // namespace bide::test
