// The attempt's routes, as a program's verbs use them, over an attempt whose driver only holds it open.
#include <catch2/catch.hpp>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/base/json.h"
#include "tests/support/eventually.h"
#include "tests/web/program_front.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

std::string steps(const Json& reply, const char* what) {
  return "steps/" + std::to_string(reply["step"].get<std::int64_t>()) + "/" + what;
}

}  // namespace

TEST_CASE("attempt: a step is begun, executed and settled, and the same again is answered at once") {
  Program program;
  const Json begun = Json::parse(
      program.post("steps", R"({"name":"fetch","effect":"idempotent","request":{"argv":["a"]},"verb":"1"})").body);
  REQUIRE(begun["state"] == "execute");
  CHECK(begun["execution"] == 1);
  CHECK_FALSE(begun["idempotency_key"].get<std::string>().empty());
  const std::string nonce = begun["nonce"];
  const HttpAnswer stale = program.post(steps(begun, "complete"), R"({"nonce":"other","result":"x"})");
  CHECK(stale.status == 409);
  const std::string done = "{\"nonce\":\"" + nonce + "\",\"result\":{ \"n\":1.0 }}";
  const HttpAnswer settled = program.post(steps(begun, "complete"), done);
  CHECK(settled.body == "{\"state\":\"settled\",\"result\":{ \"n\":1.0 }}");
  CHECK(program.post(steps(begun, "complete"), done).body == settled.body);
  CHECK(program.post("result", R"({"result":{"ok":true}})").body == "{\"state\":\"ok\"}");
  CHECK(program.post("progress", R"({"percent":40,"text":"half"})").status == 200);
  CHECK(program.front.ask("GET", program.at("input"), {}, program.token()).body == "{\"file\": \"a\"}");
  program.holder.leave = true;
  program.front.until(program.run.value, "completed");
  CHECK(bide::json::member(program.front.ask("GET", "/v1/runs/" + std::to_string(program.run.value)).body, "result") ==
        R"({"ok":true})");
}

TEST_CASE("attempt: who may speak for it") {
  Program program;
  const std::string body = R"({"name":"fetch","verb":"1"})";
  CHECK(program.front.ask("POST", program.at("steps"), body, program.token("WRONG")).status == 401);
  const HttpAnswer old = program.front.ask("POST", program.at("steps"), body, program.token("SECRET", 2));
  CHECK(old.status == 409);
  CHECK(bide::json::string_member(old.body, "code") == "lease_lost");
  CHECK(program.front.ask("POST", "/v1/runs/999/attempt/steps", body, program.token()).status == 403);
  CHECK(program.front.ask("POST", program.at("steps"), body).status == 403);  // an admin is no attempt
  // It reads, as long as it is driven: another secret, or another epoch's, is nobody's.
  CHECK(program.front.ask("GET", "/v1/waits", {}, program.token()).status == 200);
  CHECK(program.front.ask("GET", "/v1/waits", {}, program.token("WRONG")).status == 401);
  CHECK(program.front.ask("GET", "/v1/waits", {}, program.token("SECRET", 2)).status == 401);
  // A step's command may say how far it is, and nothing more.
  const Json begun = Json::parse(program.post("steps", R"({"name":"a","verb":"2"})").body);
  const std::string of_step = "Authorization: Bearer bst_" + std::to_string(program.run.value) + "_1_" +
                              std::to_string(begun["step"].get<std::int64_t>()) + "_" +
                              begun["nonce"].get<std::string>() + "\r\n";
  CHECK(program.front.ask("POST", program.at("progress"), R"({"text":"x"})", of_step).status == 200);
  CHECK(program.front.ask("GET", "/v1/waits", {}, of_step).status == 200);
  CHECK(program.front.ask("POST", program.at("steps"), body, of_step).status == 403);
  CHECK(program.front.ask("POST", program.at("progress"), "{}", "Authorization: Bearer bst_1_1_1_x\r\n").status == 401);
}

TEST_CASE("[V1] attempt: a step that fails without try ends the run, and its request stays open") {
  Program program;
  const Json begun = Json::parse(program.post("steps", R"({"name":"pay","effect":"idempotent","verb":"1"})").body);
  const std::string failed = "{\"nonce\":\"" + begun["nonce"].get<std::string>() +
                             R"(","error":{"code":"CommandFailed","message":"pay exited 3","exit_code":3}})";
  HttpClient open = program.open(steps(begun, "fail"), failed);
  CHECK_FALSE(open.read(300ms));
  program.front.until(program.run.value, "failed");
  const Json run = Json::parse(program.front.ask("GET", "/v1/runs/" + std::to_string(program.run.value)).body);
  CHECK(run["error"]["code"] == "CommandFailed");
  CHECK(run["error"]["step"] == "pay");
}

TEST_CASE("[V1] attempt: with try the failure is handed out") {
  Program program;
  const Json begun =
      Json::parse(program.post("steps", R"({"name":"pay","effect":"idempotent","try":true,"verb":"1"})").body);
  const Json failed =
      Json::parse(program
                      .post(steps(begun, "fail"), "{\"nonce\":\"" + begun["nonce"].get<std::string>() +
                                                      R"(","error":{"code":"CommandFailed","message":"no"}})")
                      .body);
  CHECK(failed["state"] == "failed");
  CHECK(failed["error"]["code"] == "CommandFailed");
}

TEST_CASE("[V1] attempt: a wait is answered in place, and a denial ends the run with the person's words") {
  Program program;
  HttpClient first = program.open("waits", R"({"kind":"approval","name":"one","request":{"text":"1?"},"verb":"1"})");
  const std::int64_t one = program.front.wait_of(program.run.value);
  REQUIRE(
      program.front.ask("POST", "/v1/waits/" + std::to_string(one) + "/resolve", R"({"decision":"approved"})").status ==
      200);
  const auto answer = first.read(10s);
  REQUIRE(answer);
  CHECK(Json::parse(answer->body)["outcome"] == "approved");

  HttpClient second = program.open("waits", R"({"kind":"approval","name":"two","request":{"text":"2?"},"verb":"2"})");
  const std::int64_t two = program.front.wait_of(program.run.value);
  REQUIRE(program.front
              .ask("POST", "/v1/waits/" + std::to_string(two) + "/resolve",
                   R"({"decision":"denied","comment":"not today"})")
              .status == 200);
  CHECK_FALSE(second.read(300ms));
  program.front.until(program.run.value, "failed");
  const Json run = Json::parse(program.front.ask("GET", "/v1/runs/" + std::to_string(program.run.value)).body);
  CHECK(run["error"]["code"] == "Denied");
  CHECK(run["error"]["message"].get<std::string>().find("not today") != std::string::npos);
}

TEST_CASE("attempt: values are recorded once, misuse ends the run") {
  Program program;
  const std::string ask = R"({"name":"uuid","key":"a","verb":"1"})";
  const HttpAnswer made = program.post("values", ask);
  CHECK(Json::parse(made.body)["result"].get<std::string>().size() == 36);
  CHECK(program.post("values", R"({"name":"dice","verb":"2"})").status == 422);
  CHECK(Json::parse(program.post("values", R"({"name":"random","verb":"3"})").body)["result"].is_number_integer());
  HttpClient open = program.open("end", R"({"code":"NestedVerb","message":"a verb inside a step"})");
  CHECK_FALSE(open.read(200ms));
  program.front.until(program.run.value, "failed");
}
