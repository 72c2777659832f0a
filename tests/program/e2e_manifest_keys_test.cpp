// Keys of the manifest whose effect nobody else's test shows on a whole agent: accepts, allow_default_approved, the
// deadlines, scopes.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("[K1] e2e: accepts: a live run of a listed version goes on in the newest one, others with their own") {
  Box box;
  const auto flow = [&](const std::string& said) {
    box.program("flow", "bide wait approval 'Go?'\nbide result said=" + said + "\n");
  };
  flow("first");
  const std::string first = box.start("flow");
  box.suspended(first);
  const std::string hash = box.sql("SELECT version FROM workflow_versions")[0][0];
  flow("second");
  const std::string second = box.start("flow");
  box.suspended(second);
  flow("third");
  write_file(box.flows() + "/flow.toml", "accepts = [\"" + hash + "\"]\n");
  CHECK(box.bide({"sweep"}).exit.code == 0);
  box.decide(first, "approve");
  box.decide(second, "approve");
  CHECK(box.comes_to(first, "completed")["result"] == Json{{"said", "third"}});
  CHECK(box.comes_to(second, "completed")["result"] == Json{{"said", "second"}});
  const Json moved = box.sql("SELECT run_id FROM events WHERE kind = 'run.moved'");
  REQUIRE(moved.size() == 1);
  CHECK(moved[0][0] == std::stoi(first));
}

TEST_CASE("[A4] e2e: allow_default_approved: without it a deadline approves nothing") {
  Box box;
  const std::string body = "bide wait approval 'Go?' --timeout 50ms --default approved\nbide result went:=true\n";
  box.program("strict", body);
  box.program("lax", body);
  write_file(box.flows() + "/lax.toml", "allow_default_approved = true\n");
  CHECK(box.comes_to(box.start("lax"), "completed")["result"] == Json{{"went", true}});
  const Json error = box.comes_to(box.start("strict"), "failed")["error"];
  CHECK(error.dump().find("allow_default_approved") != std::string::npos);
}

TEST_CASE(
    "[X5] e2e: run_deadline over a wait, attempt_deadline over a program that works on: Timeout, and taken back") {
  Box box;
  const std::string step = "bide step one --compensate 'echo x >> '$OUT'/undone' -- true\n";
  box.program("waits", step + "bide wait approval 'Go?'\n");
  box.program("works", step + "while :; do sleep 0.05; done # TAG\n");
  write_file(box.flows() + "/waits.toml", "run_deadline = \"1s\"\n");
  write_file(box.flows() + "/works.toml", "attempt_deadline = \"1s\"\n");
  const std::string waits = box.start("waits");
  const std::string works = box.start("works");
  box.fails(waits, "Timeout");
  box.fails(works, "Timeout");
  CHECK(box.lines("undone") == 2);
  box.nothing_left();
}

TEST_CASE("[A7] e2e: scopes: whoever decides needs them beside approve") {
  Box box;
  box.program("flow", "bide wait approval 'Go?'\nbide result went:=true\n");
  write_file(box.flows() + "/flow.toml", "scopes = [\"work\"]\n");
  const std::string run = box.start("flow");
  const std::string wait = box.wait_of(run);
  const auto decided_by = [&](const std::string& name, const std::vector<std::string>& scopes) {
    std::vector<std::string> words = {"token", "add", name};
    for (const std::string& scope : scopes) words.insert(words.end(), {"--scope", scope});
    const Json token = box.json(words);
    return test::run({.argv = {BIDE_EXECUTABLE, "approve", wait},
                      .env = {{"BIDE_AGENT", box.socket()}, {"BIDE_TOKEN", token["token"].get<std::string>()}}});
  };
  const Finished lacks = decided_by("ann", {"read", "approve"});
  CHECK(lacks.exit.code == 1);
  CHECK(lacks.err.find("work") != std::string::npos);
  const Finished has = decided_by("ben", {"read", "approve", "work"});
  INFO(has.err);
  CHECK(has.exit.code == 0);
  CHECK(box.comes_to(run, "completed")["result"] == Json{{"went", true}});
}

}  // namespace bide::test
