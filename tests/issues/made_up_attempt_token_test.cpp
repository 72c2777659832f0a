// A token that only looked like that of an attempt ("Bearer bat_1_1_x") was taken apart and believed wherever the
// secret was not compared: whoever reached the port read all runs, inputs and results, and could fill the audit and the
// disk with refused decisions. Now the secret must be that of an attempt that is driven, or of a step's execution.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/web/agent_front.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;

namespace {

constexpr const char* kMadeUp[] = {"bat_1_1_x", "bat_1_2_SECRET", "bst_1_1_1_x", "bst_1_1_1_SECRET"};

std::string bearer(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }

}  // namespace

TEST_CASE("[A7] [I10] issue: a made-up token of an attempt opens nothing") {
  const Front front;  // its Auth was not told whom to ask: then no such token is known
  for (const char* token : kMadeUp) {
    INFO(token);
    for (const char* path : {"/v1/waits", "/v1/runs/1", "/seen"}) {
      INFO(path);
      CHECK(front.tcp().ask("GET", path, {}, bearer(token)).status == 401);
      CHECK(front.unix_socket().ask("GET", path, {}, bearer(token)).status == 401);
    }
  }
}

TEST_CASE("[A7] [I10] issue: a made-up token of an attempt reads no run and writes no audit") {
  AgentFront front;
  const std::int64_t run = front.start("gate");
  const std::string wait = std::to_string(front.wait_of(run));
  const std::string number = std::to_string(run);
  for (const std::string& token : {"bat_" + number + "_1_x", "bst_" + number + "_1_1_x"}) {
    INFO(token);
    for (const std::string path : {"/v1/runs", "/v1/waits", "/v1/events", "/v1/info"}) {
      INFO(path);
      CHECK(front.page().ask("GET", path, {}, bearer(token)).status == 401);
      CHECK(front.ask("GET", path, {}, bearer(token)).status == 401);
    }
    for (const std::string rest : {"", "/journal", "/explain"})
      CHECK(front.ask("GET", "/v1/runs/" + number + rest, {}, bearer(token)).status == 401);
    const std::string decision = R"({"decision":"approved"})";
    const std::string key = "Idempotency-Key: k1\r\n";
    CHECK(front.ask("POST", "/v1/waits/" + wait + "/resolve", decision, bearer(token) + key).status == 401);
  }
  CHECK(front.rig.number("SELECT count(*) FROM approvals_audit") == 0);
  CHECK(front.rig.number("SELECT count(*) FROM idempotency") == 0);
  CHECK(front.wait_of(run) == std::stoll(wait));
}
