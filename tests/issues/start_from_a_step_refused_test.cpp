// `bide run --key` in a step was refused (403), though the contract allows it and our own hint sent people there. The
// command of a step may start a run now: only with a key, since it may run again, and in the name of whoever started
// its own run. The hint names what works.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/program/e2e_box.h"
#include "tests/web/program_front.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("issue: e2e: a step starts a run with a key, once, though it runs twice") {
  Box box;
  box.program("other", "bide result ok:=true\n");
  box.program("starts",
              "bide step s --effect idempotent --retries 1 --backoff 10ms -- sh -c '\n"
              "  bide run other --key k1 && echo started >> \"$1/starts\"\n"
              "  [ -e \"$1/failed\" ] || { touch \"$1/failed\"; exit 1; }' sh $OUT\n"
              "bide step t --try -- bide run other > $OUT/keyless 2>&1 || echo $? > $OUT/code\n"
              "bide result done:=true\n");
  const std::string run = box.start("starts");
  box.comes_to(run, "completed");
  CHECK(box.lines("starts") == 2);
  const Json others = box.sql(
      "SELECT r.created_by, p.created_by FROM runs r, runs p, workflows w WHERE w.id = "
      "r.workflow_id AND w.name = 'other' AND p.id = " +
      run);
  REQUIRE(others.size() == 1);
  CHECK(others[0][0] == others[0][1]);
  CHECK(box.lines("code") == 1);
}

TEST_CASE("issue: e2e: straight in a workflow bide run says what works, and what is for people says so") {
  Box box;
  box.program("straight", "bide run other --key k\n");
  box.program("greedy", "bide approve 1\n");
  const std::string first = box.fails(box.start("straight"), "Usage").dump();
  CHECK(first.find("bide call NAME") != std::string::npos);
  CHECK(first.find("--key KEY") != std::string::npos);
  const std::string second = box.fails(box.start("greedy"), "Usage").dump();
  CHECK(second.find("is for people") != std::string::npos);
}

TEST_CASE("issue: the token of a step starts runs with a key and nothing else") {
  Program program;
  const std::string reply = program.post("steps", R"({"name":"a","verb":"2"})").body;
  const std::string of_step = "Authorization: Bearer bst_" + std::to_string(program.run.value) + "_1_" +
                              std::to_string(json::int_member(reply, "step").value()) + "_" +
                              json::string_member(reply, "nonce").value() + "\r\n";
  const auto start = [&](const std::string& body, const std::string& token) {
    return program.front.ask("POST", "/v1/runs", body, token).status;
  };
  CHECK(start(R"({"workflow":"echo"})", of_step) == 422);
  CHECK(start(R"({"workflow":"echo","key":"k"})", of_step) == 201);
  CHECK(start(R"({"workflow":"echo","key":"k"})", of_step) == 200);
  CHECK(start(R"({"workflow":"echo","key":"k"})", program.token()) == 403);
  CHECK(start(R"({"workflow":"echo","key":"k2"})", "Authorization: Bearer bst_1_1_1_x\r\n") == 401);
  CHECK(program.front.rig.number("SELECT count(*) FROM runs WHERE created_by = 'ada'") == 2);
  const std::string run = "/v1/runs/" + std::to_string(program.run.value);
  CHECK(program.front.ask("POST", run + "/cancel", "{}", of_step).status == 403);
  CHECK(program.front.ask("POST", run + "/signals/x", "{}", of_step).status == 403);
}
