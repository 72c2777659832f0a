// The verbs against a real agent: what they print, and with which code they end.
#include <sqlite3.h>
#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/eventually.h"
#include "tests/support/golden.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::test {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

class Box {
 public:
  Box() {
    program("hello", "bide step greet --effect pure -- printf hello\nbide result text=hello\n");
    program("gate",
            "bide wait approval 'Install it?'\nbide step install --effect pure -- true\nbide result done:=true\n");
    program("ask", "a=$(bide wait question 'Which colour?' --option red --option blue)\nbide result colour=\"$a\"\n");
    program("call", "p=$(bide wait signal uploaded)\nbide result got=\"$p\"\n");
    program("wrong", "bide step break --effect pure -- sh -c 'echo no luck >&2; exit 3'\n");
    serve();
  }

  void program(const std::string& name, const std::string& body) {
    const auto file = dir_ / ("flows/" + name + ".sh");
    write_file(file, "#!/bin/sh\nset -eu\n" + body);
    std::filesystem::permissions(file, std::filesystem::perms(0755));
  }
  void serve() {
    agent_.emplace(Command{.argv = {BIDE_EXECUTABLE, "serve", "--data", dir_.str("data"), "--workflows",
                                    dir_.str("flows"), "--socket", socket(), "--listen", "127.0.0.1:0"},
                           .env = environment()});
    INFO(agent_->err());
    REQUIRE(holds_within(60s, [&] { return bide({"runs"}).exit.code == 0; }));
  }
  Process& agent() { return *agent_; }
  std::string socket() const { return dir_.str("s"); }
  std::string data() const { return dir_.str("data"); }

  Finished bide(std::vector<std::string> words, const std::string& input = {}) const {
    return run(command(std::move(words), input));
  }
  Command command(std::vector<std::string> words, const std::string& input = {}) const {
    words.insert(words.begin(), BIDE_EXECUTABLE);
    return {.argv = std::move(words), .env = environment(), .input = input};
  }
  Json json(std::vector<std::string> words) const {
    words.push_back("--json");
    const Finished done = bide(std::move(words));
    INFO(done.err);
    REQUIRE(done.exit == Exit{0, 0});
    return Json::parse(done.out);
  }
  std::string start(const std::string& workflow) const {
    const Finished done = bide({"run", workflow});
    INFO(done.err);
    REQUIRE(done.exit.code == 0);
    return done.out.substr(0, done.out.size() - 1);
  }
  // The number of the wait that the run has in the inbox.
  std::string wait_of(const std::string& run) const {
    std::string id;
    REQUIRE(holds_within(60s, [&] {
      const Json inbox = json({"inbox"});
      for (const Json& wait : inbox["items"]) {
        if (std::to_string(wait["run"].get<int>()) == run) id = std::to_string(wait["id"].get<int>());
      }
      return !id.empty();
    }));
    return id;
  }
  std::string status(const std::string& run) const { return json({"show", run})["status"]; }

 private:
  std::vector<std::pair<std::string, std::string>> environment() const {
    return {{"BIDE_AGENT", socket()}, {"HOME", dir_.str()}, {"XDG_CONFIG_HOME", dir_.str("config")}};
  }
  TempDir dir_;
  std::optional<Process> agent_;
};

TEST_CASE("cli: run --wait prints the result alone, and a line a change on stderr") {
  Box box;
  const Finished done = box.bide({"run", "hello", "--wait", "60s"});
  INFO(done.err);
  CHECK(done.exit.code == 0);
  CHECK(Json::parse(done.out) == Json{{"text", "hello"}});
  CHECK(done.err.find("run 1 started\n") != std::string::npos);
  CHECK(done.err.find("step greet done") != std::string::npos);
  const Finished failed = box.bide({"run", "wrong", "--wait", "60s"});
  CHECK(failed.exit.code == 1);
  CHECK(failed.out.empty());
  CHECK(failed.err.find("step break failed") != std::string::npos);
  CHECK(failed.err.find("run 2 failed: ") != std::string::npos);
  const Finished unknown = box.bide({"run", "helo"});
  CHECK(unknown.exit.code == 3);
  CHECK(unknown.err.find("bide: workflow_unknown: ") == 0);
  CHECK(unknown.err.find("hello") != std::string::npos);
}

TEST_CASE("cli: decisions, and the exit codes that they give a waiting run") {
  Box box;
  const std::vector<std::pair<std::vector<std::string>, int>> decisions = {
      {{"approve"}, 0}, {{"deny", "--comment", "no"}, 10}, {{"request-changes", "--comment", "smaller"}, 11}};
  for (const auto& [words, code] : decisions) {
    Process watcher(box.command({"run", "gate", "--wait"}));
    std::string wait;
    REQUIRE(holds_within(60s, [&] { return watcher.err().find("waits for approval ") != std::string::npos; }));
    const Json inbox = box.json({"inbox"});
    for (const Json& item : inbox["items"]) wait = std::to_string(item["id"].get<int>());
    std::vector<std::string> decide = words;
    decide.insert(decide.begin() + 1, wait);
    const Finished decided = box.bide(decide);
    INFO(decided.err << watcher.err());
    CHECK(decided.exit.code == 0);
    const auto exit = watcher.wait(60s);
    REQUIRE(exit);
    CHECK(exit->code == code);
    CHECK(box.bide({words[0] == "approve" ? "deny" : "approve", wait}).exit.code == 4);
  }
  const std::string run = box.start("gate");
  CHECK(box.bide({"run", "gate", "--key", "k", "--wait", "1ms"}).exit.code == 5);
  CHECK(box.bide({"cancel", run, "--reason", "enough"}).exit.code == 0);
  REQUIRE(holds_within(60s, [&] { return box.status(run) == "cancelled"; }));
  CHECK(box.bide({"cancel", run}).exit.code == 4);
  CHECK(box.bide({"show", "999"}).exit.code == 3);
  CHECK(box.bide({"approve", "999"}).exit.code == 3);
}

TEST_CASE("cli: answers and signals") {
  Box box;
  const std::string asking = box.start("ask");
  const std::string wait = box.wait_of(asking);
  const Finished wrong = box.bide({"answer", wait, "green"});
  CHECK(wrong.exit.code == 2);
  CHECK(wrong.err.find("bide: answer_invalid: ") == 0);
  CHECK(box.bide({"answer", wait, "blue"}).exit.code == 0);
  REQUIRE(holds_within(60s, [&] { return box.status(asking) == "completed"; }));
  CHECK(box.json({"show", asking})["result"] == Json{{"colour", "blue"}});

  const std::string calling = box.start("call");
  CHECK(box.bide({"signal", calling, "uploaded", "{\"n\":12345678901234567890123}"}).exit.code == 0);
  REQUIRE(holds_within(60s, [&] { return box.status(calling) == "completed"; }));
  CHECK(box.bide({"show", calling}).out.find("12345678901234567890123") != std::string::npos);
}

TEST_CASE("cli: lists, journal, log, explain, sweep, sql, ui") {
  Box box;
  CHECK(box.bide({"run", "hello", "--wait"}).exit.code == 0);
  const std::string waiting = box.start("gate");
  const std::string wait = box.wait_of(waiting);
  CHECK(box.json({"runs"})["items"].size() == 2);
  CHECK(box.json({"runs", "--workflow", "hello"})["items"].size() == 1);
  CHECK(box.json({"runs", "--limit", "1"})["items"][0]["workflow"] == "gate");
  CHECK(box.bide({"inbox"}).out.find("bide approve " + wait) != std::string::npos);
  CHECK(box.bide({"runs"}).out.find("hello     completed") != std::string::npos);
  const Json journal = box.json({"journal", "1"});
  REQUIRE(journal["items"].size() == 1);
  CHECK(journal["items"][0]["result"] == "hello");
  CHECK(box.bide({"journal", "1"}).out.find("greet") != std::string::npos);
  CHECK(box.bide({"log", "1"}).out.find("hello") != std::string::npos);
  CHECK(box.bide({"explain", waiting}).out.find("bide approve " + wait) != std::string::npos);
  CHECK(box.json({"sweep"})["first_error"].is_null());
  const Finished sql = box.bide({"sql", "SELECT run, workflow FROM run_list ORDER BY run", "--data", box.data()});
  INFO(sql.err);
  CHECK(sql.exit.code == 0);
  const Json rows =
      Json::parse(box.bide({"sql", "--json", "--data", box.data()}, "SELECT count(*) AS n FROM runs").out);
  CHECK(rows == Json::parse(R"([{"columns":["n"],"rows":[[2]]}])"));
  CHECK(box.bide({"sql", "DELETE FROM runs", "--data", box.data()}).exit.code == 2);
  CHECK(box.json({"runs"})["items"].size() == 2);
  CHECK(box.bide({"ui"}).out.rfind("http://127.0.0.1:", 0) == 0);
}

// What differs from run to run is replaced by its name.
void make_stable(nlohmann::ordered_json& document) {
  for (auto& [key, value] : document.items()) {
    if (value.is_structured()) make_stable(value);
    if (!value.is_string()) continue;
    const std::string text = value;
    if (text.size() == 24 && text[10] == 'T' && text[23] == 'Z') value = "TIME";
    if (key == "etag") value = "ETAG";
    if (key == "created_by" || key == "resolved_by" || key == "by") value = "WHO";
    if (key == "sqlite" || key == "build" || key == "version") value = "VERSION";
  }
}

TEST_CASE("cli: --json gives the documents of the API, which stay as they are") {
  Box box;
  REQUIRE(box.bide({"run", "hello", "--wait"}).exit.code == 0);
  const std::string gate = box.start("gate");
  const std::string wait = box.wait_of(gate);
  REQUIRE(holds_within(60s, [&] { return box.status(gate) == "waiting"; }));
  // Suspended comes before the last of its processes is gone.
  REQUIRE(holds_within(60s, [&] { return box.json({"explain", gate})["held_by"].empty(); }));
  std::string all;
  const auto add = [&](std::vector<std::string> words) {
    std::string typed = "$ bide";
    for (const std::string& word : words) typed += " " + word;
    words.push_back("--json");
    auto document = nlohmann::ordered_json::parse(box.bide(words).out);
    make_stable(document);
    all += typed + " --json\n" + document.dump(1) + "\n\n";
  };
  add({"runs"});
  add({"show", gate});
  add({"journal", "1"});
  add({"log", "1"});
  add({"explain", gate});
  add({"inbox"});
  add({"signal", gate, "hey", "{}"});
  add({"approve", wait, "--comment", "fine"});
  add({"approve", "999"});
  add({"retry", "1"});
  add({"run", "hello", "--key", "k"});
  add({"drain"});
  add({"drain", "--off"});
  add({"version"});
  check_golden("cli-json.txt", all);
}

TEST_CASE("cli: a watcher outlives the agent") {
  Box box;
  Process watcher(box.command({"run", "gate", "--wait"}));
  REQUIRE(holds_within(60s, [&] { return watcher.err().find("waits for approval 1 ") != std::string::npos; }));
  box.agent().kill();
  REQUIRE(holds_within(60s, [&] { return watcher.err().find("the agent is away") != std::string::npos; }));
  box.serve();
  CHECK(box.bide({"approve", "1"}).exit.code == 0);
  const auto exit = watcher.wait(60s);
  INFO(watcher.err());
  REQUIRE(exit);
  CHECK(exit->code == 0);
}

TEST_CASE("[N85] cli: an agent that is held because the clock was set back says so, and goes on at bide clock accept") {
  Box box;
  box.agent().kill();
  // As after a month with a clock that went ahead.
  sqlite3* file = nullptr;
  REQUIRE(sqlite3_open((box.data() + "/bide.db").c_str(), &file) == SQLITE_OK);
  CHECK(
      sqlite3_exec(file,
                   "INSERT INTO meta (key, value) VALUES ('clock_mark', CAST(strftime('%s','now') AS INTEGER) * 1000 + "
                   "2592000000) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                   nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(file);
  box.serve();
  const Finished started = box.bide({"run", "hello"});
  REQUIRE(started.exit.code == 0);
  const std::string run = started.out.substr(0, started.out.size() - 1);
  CHECK_FALSE(holds_within(500ms, [&] { return box.json({"show", run})["status"] != "queued"; }));
  CHECK(box.bide({"clock"}).exit.code == 2);
  CHECK(box.bide({"clock", "set"}).exit.code == 2);
  const Json accepted = box.json({"clock", "accept"});
  CHECK(accepted["was_held"] == true);
  CHECK(accepted["was"] > accepted["now"]);
  eventually([&] { return box.json({"show", run})["status"] == "completed"; }, "it goes on");
  CHECK(box.json({"clock", "accept"})["was_held"] == false);
  box.agent().kill();
  box.serve();  // it is the file's clock too
  CHECK(box.json({"clock", "accept"})["was_held"] == false);
  CHECK(box.bide({"clock", "accept"}).out.find("the agent's clock was 20") == 0);
}

TEST_CASE("[K1] cli: drain returns when nothing executes any more, and what it says is true") {
  Box box;
  const std::string gate = box.data() + "/go";
  box.program("slow", "bide step hold --effect pure -- sh -c 'until [ -e \"$1\" ]; do sleep 0.05; done' hold " + gate +
                          "\nbide result done:=true\n");
  const std::string slow = box.start("slow");
  REQUIRE(holds_within(60s, [&] { return box.bide({"journal", slow}).out.find("hold") != std::string::npos; }));
  Process drain(box.command({"drain"}));
  REQUIRE(holds_within(60s, [&] { return drain.err().find("1 run, 0 runs of apps and 0 tasks execute") == 0; }));
  const std::string later = box.start("hello");
  CHECK(box.bide({"explain", later}).out.find("bide drain --off") != std::string::npos);
  CHECK(drain.running());
  CHECK(box.status(later) == "queued");
  write_file(gate, "");
  CHECK(drain.wait(60s) == Exit{0, 0});
  CHECK(drain.out() == "idle: nothing executes any more\n");
  CHECK(box.status(slow) == "completed");
  CHECK(box.json({"drain"}) == Json{{"draining", true}, {"idle", true}, {"runs", 0}, {"apps", 0}, {"tasks", 0}});
  CHECK(box.status(later) == "queued");
  const Finished off = box.bide({"drain", "--off"});
  CHECK(off.exit.code == 0);
  CHECK(off.out == "runs and tasks are claimed again\n");
  eventually([&] { return box.status(later) == "completed"; }, "it goes on");

  // Whoever waits hears that somebody else ended it; an agent that is started anew claims.
  std::filesystem::remove(gate);
  (void)box.start("slow");
  REQUIRE(holds_within(60s, [&] { return box.json({"runs", "--status", "running"})["items"].size() == 1; }));
  Process other(box.command({"drain"}));
  REQUIRE(holds_within(60s, [&] { return !other.err().empty(); }));
  CHECK(box.bide({"drain", "--off"}).exit.code == 0);
  write_file(gate, "");
  CHECK(other.wait(60s) == Exit{4, 0});
  CHECK(box.bide({"drain"}).exit.code == 0);
  box.agent().kill();
  box.serve();
  const std::string last = box.start("hello");
  eventually([&] { return box.status(last) == "completed"; }, "a new process claims");
}

TEST_CASE("cli: over TCP a token is needed, and said to be") {
  Box box;
  const std::string link = box.bide({"ui"}).out;
  const std::string url = link.substr(0, link.find('#'));
  const Finished without = box.bide({"runs", "--agent", url});
  CHECK(without.exit.code == 1);
  CHECK(without.err.find("bide: unauthorized: ") == 0);
  CHECK(without.err.find("BIDE_TOKEN") != std::string::npos);
  Command with = box.command({"run", "hello", "--agent", url, "--wait"});
  with.env.emplace_back("BIDE_TOKEN", read_file(box.data() + "/admin.token"));
  const Finished done = run(with);
  INFO(done.err);
  CHECK(done.exit.code == 0);
  CHECK(Json::parse(done.out) == Json{{"text", "hello"}});
}

TEST_CASE("cli: a second agent on the folder ends within a second and names the first") {
  Box box;
  // What it takes on this machine, at this moment, to start the program at all is not what is bounded.
  const auto start = std::chrono::steady_clock::now();
  CHECK(box.bide({"serve", "--help"}).exit.code == 0);
  const auto begin = std::chrono::steady_clock::now();
  const Finished second = box.bide({"serve", "--data", box.data(), "--socket", box.socket() + "2", "--listen", "none"});
  CHECK(std::chrono::steady_clock::now() - begin < 1000ms + 4 * (begin - start));
  CHECK(second.exit.code == 2);
  CHECK(second.err.find(std::to_string(box.agent().pid())) != std::string::npos);
  box.agent().signal(SIGTERM);
  const auto exit = box.agent().wait(30s);
  REQUIRE(exit);
  CHECK(*exit == Exit{0, 0});
}

}  // namespace
}  // namespace bide::test
