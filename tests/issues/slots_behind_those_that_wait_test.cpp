// Verbs that waited for a step's turn, for an answer, and readers' long polls had one pool of threads with the verbs
// that held the turns: ten runs with `bide each -P 64` filled it with those that waited, `hold` was refused for ever,
// no turn ended, and every program of the box stood still. Now whoever has a turn has threads of its own, so have
// readers, and one run cannot hold all of any kind.
#include <catch2/catch.hpp>

#include <chrono>
#include <list>
#include <optional>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "tests/web/program_front.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;

namespace {

std::string step(int i) {
  const std::string n = std::to_string(i);
  return R"({"name":"s","effect":"idempotent","holder":true,"key":")" + n + R"(","verb":")" + n + R"("})";
}

// The number and nonce of an execution that was offered.
struct Turn {
  std::string path;
  std::string nonce;
};
Turn turn_of(const std::string& reply) {
  REQUIRE(json::string_member(reply, "state") == "hold");
  return {"steps/" + std::to_string(json::int_member(reply, "step").value()) + "/",
          json::string_member(reply, "nonce").value()};
}
std::string hold_of(const Turn& turn) {
  const auto self = read_process(::getpid()).value().key;
  return R"({"nonce":")" + turn.nonce + R"(","pid":)" + std::to_string(self.pid) + R"(,"pid_start":)" +
         std::to_string(self.start) + "}";
}

// All steps at once, and more that wait for their turn, as `bide each -P 64` does.
struct Crowd {
  std::list<HttpClient> clients;
  std::vector<Turn> turns;

  Crowd(const Program& program, int in_line) {
    for (int i = 0; i < limits::kStepsAtOnce; ++i) turns.push_back(turn_of(program.post("steps", step(i)).body));
    for (int i = 0; i < in_line; ++i) clients.push_back(program.open("steps", step(limits::kStepsAtOnce + i)));
    eventually([&] { return program.front.counts().waiting_requests == in_line; }, "they wait for their turn");
  }
};

}  // namespace

TEST_CASE("[P1] [A3] issue: whoever has a turn is heard, however many wait for one") {
  Program program(web::ServerOptions{.wait_threads = 16});
  Crowd crowd(program, 16);
  CHECK(program.post("waits", R"({"kind":"approval","name":"w","request":{"text":"?"},"verb":"w"})").status == 503);
  const Turn& turn = crowd.turns.at(0);
  const HttpAnswer held = program.post(turn.path + "hold", hold_of(turn));
  CHECK(held.status == 200);
  CHECK(json::string_member(held.body, "state") == "execute");
  // Its end gives the turn to the next.
  const std::string done = R"({"nonce":")" + turn.nonce + R"(","result":1})";
  CHECK(json::string_member(program.post(turn.path + "complete", done).body, "state") == "settled");
  const Turn& other = crowd.turns.at(1);
  CHECK(json::string_member(program.post(other.path + "hold", hold_of(other)).body, "state") == "execute");
  eventually([&] { return program.front.counts().waiting_requests == 15; }, "one more has its turn");
}

TEST_CASE("[P1] issue: what a failed step waits for holds no thread of those that have a turn") {
  Program program(web::ServerOptions{.wait_threads = 64, .act_threads = 1});
  std::list<HttpClient> failed;
  for (int i = 0; i < 4; ++i) {  // each is to be tried again in a minute, and waits for it
    const std::string n = std::to_string(i);
    const std::string reply =
        program
            .post("steps", R"({"name":"f","effect":"idempotent","retries":1,"backoff_ms":60000,"key":")" + n +
                               R"(","verb":")" + n + R"("})")
            .body;
    const std::string nonce = json::string_member(reply, "nonce").value();
    failed.push_back(program.open("steps/" + std::to_string(json::int_member(reply, "step").value()) + "/fail",
                                  R"({"nonce":")" + nonce + R"(","error":{"code":"X","message":"no"}})"));
  }
  eventually([&] { return program.front.counts().waiting_requests == 4; }, "they wait for their next try");
  for (auto& client : failed) CHECK_FALSE(client.read(20ms));
  const Turn turn = turn_of(program.post("steps", step(0)).body);
  CHECK(program.post(turn.path + "hold", hold_of(turn)).status == 200);
}

TEST_CASE("issue: readers that poll for long keep no verb waiting") {
  Program program(web::ServerOptions{.wait_threads = 4, .poll_threads = 2});
  const std::string run = "/v1/runs/" + std::to_string(program.run.value);
  std::list<HttpClient> readers;
  for (int i = 0; i < 4; ++i) {
    readers.push_back(program.front.client());
    readers.back().send("GET " + run + " HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=60\r\n\r\n");
  }
  int refused = 0;
  eventually(
      [&] {
        for (auto& reader : readers) {
          const auto answer = reader.read(10ms);
          if (answer && answer->status == 503) ++refused;
        }
        return refused == 2;
      },
      "two poll, and two are told that there is no room");
  CHECK(program.post("steps", step(0)).status == 200);
  CHECK(program.front.ask("GET", run).status == 200);
}

TEST_CASE("[P1] issue: a run has so many steps in line, and others are told to ask again") {
  Program program;
  Crowd crowd(program, limits::kStepsInLine);
  std::optional<HttpAnswer> refused;  // one more is too many once all of them stand in line
  int more = 0;
  eventually(
      [&] {
        HttpClient client = program.open("steps", step(1000 + more++));
        refused = client.read(500ms);
        if (!refused) crowd.clients.push_back(std::move(client));
        return refused.has_value();
      },
      "one is refused", 60s);
  CHECK(more < 20);
  CHECK(refused->status == 503);
  CHECK(json::string_member(refused->body, "code") == "busy");
  CHECK(program.front.rig.number("SELECT count(*) FROM runs WHERE status = 'running'") == 1);
  int in_line = limits::kStepsInLine + more - 1;
  const auto as_counted = [&] {
    in_line -=
        static_cast<int>(std::erase_if(crowd.clients, [](HttpClient& client) {  // refused in the place of a later one
          const auto late = client.read(1ms);
          return late && late->status == 503;
        }));
    return program.front.counts().waiting_requests == in_line;
  };
  eventually(as_counted, "the refused one's thread is done");
  const Turn& turn = crowd.turns.at(0);
  CHECK(program.post(turn.path + "hold", hold_of(turn)).status == 200);
  CHECK(program.post(turn.path + "complete", R"({"nonce":")" + turn.nonce + R"(","result":1})").status == 200);
  eventually([&] { return program.front.counts().waiting_requests == in_line - 1; }, "one of them has its turn");
}

TEST_CASE("[A3] issue: a run that waits for more than can be held open is told what to write instead") {
  Program program;
  std::list<HttpClient> waits;
  const auto wait = [](std::size_t i) {
    const std::string n = std::to_string(i);
    return R"({"kind":"signal","name":"w","key":")" + n + R"(","verb":")" + n + R"("})";
  };
  for (std::size_t i = 0; i < limits::kWaitsAtOnce; ++i) waits.push_back(program.open("waits", wait(i)));
  eventually([&] { return program.front.counts().waiting_requests == static_cast<int>(limits::kWaitsAtOnce); },
             "they wait");
  eventually([&] { return program.front.rig.number("SELECT count(*) FROM waits") == 256; }, "they are asked");
  CHECK(program.front.rig.number("SELECT count(*) FROM runs WHERE status = 'running'") == 1);
  std::size_t more = 0;  // one more is too many once all of them are asleep
  eventually(
      [&] {
        if (more < 64) waits.push_back(program.open("waits", wait(1000 + more++)));
        return program.front.rig.number("SELECT count(*) FROM runs WHERE status = 'failed'") == 1;
      },
      "the run ends");
  const std::string run = program.front.ask("GET", "/v1/runs/" + std::to_string(program.run.value)).body;
  const std::string error = json::member(run, "error").value_or("");
  CHECK(json::string_member(error, "code") == "TooManyWaits");
  CHECK(error.find("bide wait any") != std::string::npos);
}
