// The verbs that operate an agent and many runs, against a real agent: what they print, and with which code they end.
#include <sqlite3.h>
#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::test {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

class Box {
 public:
  Box() {
    program("gate", "bide wait approval 'Install it?'\nbide result done:=true\n");
    program("wrong", "bide step break --effect pure -- sh -c 'exit 3'\n");
    serve();
  }
  void serve() {
    agent_.emplace(Command{.argv = {BIDE_EXECUTABLE, "serve", "--data", dir_.str("data"), "--workflows",
                                    dir_.str("flows"), "--socket", dir_.str("s"), "--listen", "127.0.0.1:0"},
                           .env = environment()});
    REQUIRE(holds_within(60s, [&] { return bide({"runs"}).exit.code == 0; }));
  }
  Finished bide(std::vector<std::string> words) const {
    words.insert(words.begin(), BIDE_EXECUTABLE);
    return run({.argv = std::move(words), .env = environment()});
  }
  Json json(std::vector<std::string> words) const {
    words.push_back("--json");
    const Finished done = bide(std::move(words));
    INFO(done.err);
    return Json::parse(done.out);
  }
  void start(const std::string& workflow, const std::string& status) const {
    const Finished begun = bide({"run", workflow, "--mission", "m"});
    REQUIRE(begun.exit.code == 0);
    const std::string id = begun.out.substr(0, begun.out.size() - 1);
    eventually([&] { return json({"show", id})["status"] == status; }, "run " + id + " is " + status, 60s);
  }
  Process& agent() { return *agent_; }
  std::string file() const { return dir_.str("data") + "/bide.db"; }

 private:
  void program(const std::string& name, const std::string& body) {
    const auto path = dir_ / ("flows/" + name + ".sh");
    write_file(path, "#!/bin/sh\nset -eu\n" + body);
    std::filesystem::permissions(path, std::filesystem::perms(0755));
  }
  std::vector<std::pair<std::string, std::string>> environment() const {
    return {{"BIDE_AGENT", dir_.str("s")}, {"HOME", dir_.str()}, {"XDG_CONFIG_HOME", dir_.str("config")}};
  }
  TempDir dir_;
  std::optional<Process> agent_;
};

void by_another_hand(const std::string& file, const char* sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
  sqlite3_busy_timeout(db, 20'000);  // the agent writes now and then
  CHECK(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

}  // namespace

TEST_CASE("cli: many runs at once, by what they have in common") {
  Box box;
  for (int i = 0; i < 3; ++i) box.start("gate", "waiting");
  box.start("wrong", "failed");
  const Finished dry = box.bide({"cancel", "--workflow", "gate", "--dry-run"});
  CHECK(dry.exit.code == 0);
  CHECK(dry.err.find("3 fit, none was touched") == 0);
  CHECK(box.bide({"pause", "--workflow", "gate"}).err.find("3 fit, 3 done") == 0);
  CHECK(box.bide({"resume", "--mission", "m"}).err.find("3 fit, 3 done") == 0);
  CHECK(box.bide({"retry", "--status", "failed"}).err.find("1 fit, 1 done") == 0);
  const Finished cancelled = box.bide({"cancel", "--workflow", "gate", "--status", "waiting", "--reason", "x"});
  CHECK(cancelled.exit.code == 0);
  CHECK(cancelled.err.find("3 fit, 3 done") == 0);
  CHECK(box.json({"show", "1"})["cancel_reason"] == "x");
  CHECK(box.bide({"cancel"}).exit.code == 2);
  CHECK(box.bide({"cancel", "1", "--workflow", "gate"}).exit.code == 2);
}

TEST_CASE("cli: workflows, export, tokens") {
  Box box;
  box.start("gate", "waiting");
  const Finished list = box.bide({"workflows"});
  CHECK(list.exit.code == 0);
  CHECK(list.out.find("gate") != std::string::npos);
  CHECK(list.out.find("wrong") != std::string::npos);  // lies in the folder, was never started
  const Finished exported = box.bide({"export", "1"});
  CHECK(exported.exit.code == 0);
  CHECK(Json::parse(exported.out)["run"]["workflow"] == "gate");
  CHECK(box.bide({"export", "99"}).exit.code == 3);

  const Finished made = box.bide({"token", "add", "board", "--scope", "read", "--scope", "approve", "--expires", "1d"});
  INFO(made.err);
  REQUIRE(made.exit.code == 0);
  CHECK(made.out.find("bide_") == 0);
  CHECK(box.bide({"token", "add", "board", "--scope", "read"}).exit.code == 4);
  CHECK(box.bide({"token", "add", "other"}).exit.code == 2);
  CHECK(box.json({"token", "list"})["items"].size() == 2);  // the admin's too
  CHECK(box.bide({"token", "remove", "board"}).exit.code == 0);
  CHECK(box.bide({"token", "remove", "board"}).exit.code == 3);
}

TEST_CASE("cli: doctor finds nothing wrong, then what is") {
  Box box;
  box.start("gate", "waiting");
  const Json well = box.json({"doctor"});
  INFO(well.dump());
  for (const Json& finding : well["findings"]) CHECK(finding["code"] == "disk_low");  // the machine's own matter
  REQUIRE(box.bide({"approve", "1"}).exit.code == 0);
  by_another_hand(box.file(), "UPDATE approvals_audit SET decided_by = 'eve'");
  const Finished sick = box.bide({"doctor"});
  CHECK(sick.exit.code == 1);
  CHECK(sick.out.find("type: bide audit verify") != std::string::npos);
}

TEST_CASE("[A7] cli: audit verify ends with 0, with 2 when the file was changed, with 3 when it cannot tell") {
  Box box;
  box.start("gate", "waiting");
  box.start("gate", "waiting");
  REQUIRE(box.bide({"approve", "1", "--comment", "seen"}).exit.code == 0);
  REQUIRE(box.bide({"deny", "2"}).exit.code == 0);
  const Finished whole = box.bide({"audit", "verify"});
  CHECK(whole.exit.code == 0);
  CHECK(whole.out.find("the chain of 2 decisions is whole\n") == 0);
  const std::string head = box.json({"audit", "verify"})["head"];
  CHECK(box.bide({"audit", "verify", "--head", head}).exit.code == 0);
  box.agent().signal(15);
  REQUIRE(box.agent().wait(60s));
  CHECK(box.agent().err().find("audit.head") != std::string::npos);
  CHECK(box.agent().err().find(head) != std::string::npos);
  by_another_hand(box.file(), "UPDATE approvals_audit SET decision = replace(decision, 'seen', 'read') WHERE id = 1");
  box.serve();
  const Finished changed = box.bide({"audit", "verify"});
  CHECK(changed.exit.code == 2);
  CHECK(changed.out.find("tampered with, row 1") != std::string::npos);
  by_another_hand(box.file(), "UPDATE approvals_audit SET chain = NULL");
  CHECK(box.bide({"audit", "verify"}).exit.code == 2);
  by_another_hand(box.file(), "DELETE FROM meta WHERE key = 'audit_head'");
  CHECK(box.bide({"audit", "verify"}).exit.code == 3);
  CHECK(box.bide({"audit", "verify", "--head", head}).exit.code == 2);
}

}  // namespace bide::test
