// The routes over a whole agent without processes: what goes in, what comes out, and what it is called when it is
// refused.
#include <catch2/catch.hpp>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "agent/base/json.h"
#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

std::string code_of(const HttpAnswer& answer) { return bide::json::string_member(answer.body, "code").value_or(""); }
std::string path(const char* before, std::int64_t id, const char* after = "") {
  return before + std::to_string(id) + after;
}

}  // namespace

TEST_CASE("routes: a run from its start to its end, its JSON byte for byte") {
  AgentFront front;
  const std::string input = "{ \"b\":1.50, \"a\" : [1e2,\"\\u00e4\"] }";
  const HttpAnswer begun =
      front.ask("POST", "/v1/runs", "{\"workflow\":\"echo\",\"input\":" + input + ",\"labels\":{\"x\":\"y\"}}");
  REQUIRE(begun.status == 201);
  const auto id = bide::json::int_member(begun.body, "id").value();
  CHECK(*begun.field("location") == path("/v1/runs/", id));
  const HttpAnswer ended = front.ask("GET", path("/v1/runs/", id), {}, "Prefer: wait=20\r\n");
  REQUIRE(ended.status == 200);
  CHECK(bide::json::string_member(ended.body, "status") == "completed");
  CHECK(bide::json::member(ended.body, "result") == input);
  CHECK(bide::json::member(ended.body, "input") == input);
  CHECK(Json::parse(ended.body)["created_by"] == "uid:" + std::to_string(::getuid()));
  CHECK(Json::parse(front.ask("GET", path("/v1/runs/", id, "/explain")).body)["reason"] == "completed");
  CHECK(Json::parse(front.ask("GET", path("/v1/runs/", id, "/journal")).body)["items"].empty());
  const auto events = Json::parse(front.ask("GET", path("/v1/runs/", id, "/events?limit=200")).body);
  CHECK(events["ended"] == true);
  CHECK(events["items"].size() >= 2);
  CHECK(front.ask("GET", path("/v1/runs/", id, "/log")).status == 200);
}

TEST_CASE("routes: what is refused has a code and a page") {
  AgentFront front;
  struct Row {
    const char* method;
    const char* target;
    const char* body;
    int status;
    const char* code;
  };
  const std::vector<Row> rows = {
      {"POST", "/v1/runs", "{\"workflow\":\"none\"}", 404, "workflow_unknown"},
      {"POST", "/v1/runs", "{}", 422, "invalid"},
      {"POST", "/v1/runs", "{\"workflow\":1}", 422, "invalid"},
      {"POST", "/v1/runs", "{\"workflow\":\"echo\",\"inptu\":1}", 422, "invalid"},
      {"POST", "/v1/runs", "{\"workflow\":\"echo\",\"run_at\":\"soon\"}", 422, "invalid"},
      {"POST", "/v1/runs", "{\"workflow\":\"echo\",\"workflow\":\"echo\"}", 400, "bad_json"},
      {"POST", "/v1/runs", "{\"workflow\":\"\\ud800\"}", 400, "bad_json"},
      {"POST", "/v1/runs", "[]", 422, "invalid"},
      {"GET", "/v1/runs?limit=201", "", 400, "bad_request"},
      {"GET", "/v1/runs?limit=0", "", 400, "bad_request"},
      {"GET", "/v1/runs?status=odd", "", 400, "bad_request"},
      {"GET", "/v1/runs?cursor=x", "", 400, "bad_request"},
      {"GET", "/v1/runs/999", "", 404, "run_not_found"},
      {"GET", "/v1/runs/x", "", 404, "run_not_found"},
      {"GET", "/v1/runs/999/journal", "", 404, "run_not_found"},
      {"GET", "/v1/runs/999/events", "", 404, "run_not_found"},
      {"GET", "/v1/waits/999", "", 404, "wait_not_found"},
      {"POST", "/v1/runs/999/cancel", "{}", 404, "run_not_found"},
      {"POST", "/v1/runs/999/signals/a", "{}", 404, "run_not_found"},
      {"POST", "/v1/waits/999/resolve", "{\"decision\":\"approved\"}", 404, "wait_not_found"},
      {"POST", "/v1/waits/999/resolve", "{}", 422, "bad_decision"},
      {"POST", "/v1/runs/1/attempt/steps", "{}", 403, "forbidden"},
  };
  for (const Row& row : rows) {
    INFO(row.method << " " << row.target << " " << row.body);
    const HttpAnswer answer = front.ask(row.method, row.target, row.body);
    CHECK(answer.status == row.status);
    CHECK(code_of(answer) == row.code);
    CHECK(*answer.field("content-type") == "application/problem+json");
    const HttpAnswer page = front.ask("GET", Json::parse(answer.body)["type"].get<std::string>());
    CHECK(page.status == 200);
    CHECK(code_of(page) == row.code);
  }
  CHECK(front.rig.number("SELECT count(*) FROM runs") == 0);
  // D5: the document itself, not what stands around it.
  const std::string large = "{\"workflow\":\"echo\",\"input\":\"" + std::string(limits::kDocumentBytes, 'x') + "\"}";
  CHECK(front.ask("POST", "/v1/runs", large).status == 413);
  const std::string fits = "{\"workflow\":\"echo\",\"input\":\"" + std::string(limits::kDocumentBytes - 2, 'x') + "\"}";
  CHECK(front.ask("POST", "/v1/runs", fits).status == 201);
}

TEST_CASE("routes: lists come in pages without a gap") {
  AgentFront front;
  for (int i = 0; i < 7; ++i) (void)front.start("echo");
  std::vector<std::int64_t> seen;
  std::string cursor;
  do {
    const auto page =
        Json::parse(front.ask("GET", "/v1/runs?limit=3" + (cursor.empty() ? "" : "&cursor=" + cursor)).body);
    for (const auto& run : page["items"]) seen.push_back(run["id"].get<std::int64_t>());
    cursor = page["next"].is_null() ? "" : page["next"].get<std::string>();
  } while (!cursor.empty());
  CHECK(seen == std::vector<std::int64_t>{7, 6, 5, 4, 3, 2, 1});
  // Events: each once, and `next` is there also at the end.
  std::int64_t last = 0;
  int count = 0;
  while (true) {
    const auto page = Json::parse(front.ask("GET", "/v1/events?limit=5&cursor=" + std::to_string(last)).body);
    if (page["items"].empty()) {
      CHECK(page["next"] == std::to_string(last));
      break;
    }
    for (const auto& event : page["items"]) {
      CHECK(event["id"].get<std::int64_t>() > last);
      last = event["id"].get<std::int64_t>();
      ++count;
    }
  }
  CHECK(count >= 14);
}

TEST_CASE("[M1] a command with an Idempotency-Key is done once, and another body is refused") {
  AgentFront front;
  const std::string key = "Idempotency-Key: k1\r\n";
  const HttpAnswer first = front.ask("POST", "/v1/runs", "{\"workflow\":\"echo\",\"input\":{\"a\":1}}", key);
  const HttpAnswer again = front.ask("POST", "/v1/runs", "{ \"input\":{\"a\":1}, \"workflow\":\"echo\" }", key);
  CHECK(first.status == 201);
  CHECK(again.status == 201);
  CHECK(again.body == first.body);
  CHECK(*again.field("idempotent-replayed") == "true");
  CHECK(*again.field("location") == *first.field("location"));
  CHECK(first.field("idempotent-replayed") == nullptr);
  const HttpAnswer other = front.ask("POST", "/v1/runs", "{\"workflow\":\"echo\",\"input\":{\"a\":2}}", key);
  CHECK(other.status == 422);
  CHECK(code_of(other) == "idempotency_conflict");
  // [N101] the same key of another principal is another command.
  HttpClient remote = front.page();
  CHECK(remote.ask("POST", "/v1/runs", "{\"workflow\":\"echo\",\"input\":{\"a\":1}}", key + Front::bearer()).status ==
        201);
  CHECK(front.rig.number("SELECT count(*) FROM runs") == 2);
  // A start key: the same input gives the run, another is refused.
  const std::string keyed = "{\"workflow\":\"echo\",\"key\":\"s\",\"input\":1}";
  const auto run = bide::json::int_member(front.ask("POST", "/v1/runs", keyed).body, "id");
  const HttpAnswer same = front.ask("POST", "/v1/runs", keyed);
  CHECK(same.status == 200);
  CHECK(bide::json::int_member(same.body, "id") == run);
  CHECK(code_of(front.ask("POST", "/v1/runs", "{\"workflow\":\"echo\",\"key\":\"s\",\"input\":2}")) ==
        "start_key_conflict");
  CHECK(front.ask("POST", "/v1/runs", "{\"workflow\":\"gate\",\"key\":\"s\",\"input\":2}").status == 201);
}

TEST_CASE("routes: a decision is held to what was shown, and stands") {
  AgentFront front;
  const std::int64_t run = front.start("gate");
  const std::int64_t wait = front.wait_of(run);
  const HttpAnswer shown = front.ask("GET", path("/v1/waits/", wait));
  REQUIRE(shown.status == 200);
  CHECK(Json::parse(shown.body)["asks"] == "May it go?");
  const std::string etag = *shown.field("etag");
  const std::string resolve = path("/v1/waits/", wait, "/resolve");
  const std::string yes = "{\"decision\":\"approved\",\"comment\":\"go\"}";
  const std::string other = "\"" + std::string(64, '0') + "\"";
  CHECK(front.ask("POST", resolve, yes, "If-Match: " + other + "\r\n").status == 412);
  CHECK(code_of(front.ask("POST", resolve, yes, "If-Match: nonsense\r\n")) == "bad_request");
  // GET never decides; neither does somebody who may only read, and the audit has that.
  CHECK(front.ask("GET", resolve).status == 405);
  HttpClient reader = front.page();
  CHECK(reader.ask("POST", resolve, yes, "Authorization: Bearer bide_READER\r\n").status == 403);
  CHECK(front.rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'refused' AND decided_by = 'reader'") ==
        1);

  const HttpAnswer decided = front.ask("POST", resolve, yes, "If-Match: " + etag + "\r\n");
  CHECK(decided.status == 200);
  CHECK(Json::parse(decided.body)["status"] == "resolved");
  CHECK(front.ask("POST", resolve, yes).status == 200);  // a double click
  const HttpAnswer late = front.ask("POST", resolve, "{\"decision\":\"denied\"}");
  CHECK(late.status == 409);
  CHECK(code_of(late) == "wait_decided");
  CHECK(Json::parse(late.body)["status"] == 409);
  front.until(run, "completed");
}

TEST_CASE("routes: a decision by name, also ahead of its question") {
  AgentFront front;
  const std::int64_t run = front.start("gate");
  (void)front.wait_of(run);
  CHECK(front.ask("POST", path("/v1/runs/", run, "/waits/go/resolve"), "{\"decision\":\"approved\"}").status == 200);
  front.until(run, "completed");
  const std::int64_t napping = front.start("nap");
  const HttpAnswer kept =
      front.ask("POST", path("/v1/runs/", napping, "/waits/later/resolve"), "{\"decision\":\"approved\"}");
  CHECK(kept.status == 202);
}

TEST_CASE("routes: signals and cancels") {
  AgentFront front;
  const std::int64_t run = front.start("ear");
  (void)front.wait_of(run);
  const std::string signals = path("/v1/runs/", run, "/signals/news");
  CHECK(front.ask("POST", signals, "{\"payload\":{\"a\":1},\"dedupe_key\":\"d\"}").status == 200);
  front.until(run, "completed");
  CHECK(code_of(front.ask("POST", signals, "{\"payload\":1}")) == "run_ended");

  const std::int64_t napping = front.start("nap");
  front.until(napping, "queued");
  const std::string cancel = path("/v1/runs/", napping, "/cancel");
  const HttpAnswer told = front.ask("POST", cancel, "{\"reason\":\"enough\"}");
  CHECK((told.status == 200 || told.status == 202));
  front.until(napping, "cancelled");
  const HttpAnswer again = front.ask("POST", cancel);
  CHECK(again.status == 409);
  CHECK(code_of(again) == "run_ended");
}

TEST_CASE("routes: who waits for a change hears of it, and of nothing when the time is over") {
  AgentFront front;
  const std::int64_t run = front.start("gate");
  const std::int64_t wait = front.wait_of(run);
  front.until(run, "waiting");
  const auto newest =
      Json::parse(front.ask("GET", path("/v1/runs/", run, "/events?limit=200")).body)["next"].get<std::string>();
  const std::string more = path("/v1/runs/", run, "/events?cursor=") + newest;
  CHECK(Json::parse(front.ask("GET", more, {}, "Prefer: wait=1\r\n").body)["items"].empty());
  HttpClient waiting = front.client();
  waiting.send("GET " + more + " HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=20\r\n\r\n");
  CHECK_FALSE(waiting.read(100ms));
  REQUIRE(front.ask("POST", path("/v1/waits/", wait, "/resolve"), "{\"decision\":\"approved\"}").status == 200);
  const auto heard = waiting.read(10s);
  REQUIRE(heard);
  CHECK_FALSE(Json::parse(heard->body)["items"].empty());
}

TEST_CASE("routes: sweep, health, info") {
  AgentFront front;
  CHECK(front.ask("POST", "/v1/sweep", "{}").status == 200);
  CHECK(front.ask("GET", "/healthz").status == 200);
  CHECK(front.ask("GET", "/readyz").status == 200);
  const auto info = Json::parse(front.ask("GET", "/v1/info").body);
  CHECK(info["version"] == "0.0.0-test");
  CHECK(info["you"]["name"] == "uid:" + std::to_string(::getuid()));
  HttpClient remote = front.page();
  CHECK(remote.ask("GET", "/healthz").status == 200);
  CHECK(remote.ask("GET", "/v1/info").status == 401);
  CHECK(remote.ask("POST", "/v1/sweep", "{}", "Authorization: Bearer bide_READER\r\n").status == 403);
}

TEST_CASE("routes: the page signs in once with a code, and its writes need its token") {
  AgentFront front;
  const auto made = Json::parse(front.ask("POST", "/v1/session/codes", "{}").body);
  const std::string code = made["code"];
  CHECK(made["url"].get<std::string>().find("#code=" + code) != std::string::npos);
  HttpClient page = front.page();
  CHECK(code_of(page.ask("POST", "/v1/session", "{\"code\":\"WRONG\"}")) == "session_code");
  const HttpAnswer signed_in = page.ask("POST", "/v1/session", "{\"code\":\"" + code + "\"}");
  REQUIRE(signed_in.status == 201);
  CHECK(page.ask("POST", "/v1/session", "{\"code\":\"" + code + "\"}").status == 401);  // once
  const std::string set = *signed_in.field("set-cookie");
  CHECK(set.find("HttpOnly") != std::string::npos);
  CHECK(set.find("SameSite=Strict") != std::string::npos);
  const std::string cookie = "Cookie: " + set.substr(0, set.find(';')) + "\r\n";
  const std::string csrf = "X-Bide-CSRF: " + Json::parse(signed_in.body)["csrf"].get<std::string>() + "\r\n";
  CHECK(page.ask("GET", "/v1/runs", {}, cookie).status == 200);
  CHECK(page.ask("GET", "/v1/session", {}, cookie).body.find("csrf") != std::string::npos);
  const std::string start = "{\"workflow\":\"echo\"}";
  CHECK(code_of(page.ask("POST", "/v1/runs", start, cookie)) == "csrf");
  HttpClient again = front.page();  // a refusal with an unread body closed the first
  CHECK(again.ask("POST", "/v1/runs", start, cookie + csrf).status == 201);
  CHECK(again.ask("DELETE", "/v1/session", {}, cookie + csrf).status == 204);
  CHECK(again.ask("GET", "/v1/runs", {}, cookie).status == 401);
}
