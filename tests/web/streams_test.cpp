// Events as server-sent events: the first at once, resume without a gap or 410, end, heartbeat, bounds, and nothing
// left behind by readers that vanish.
#include <catch2/catch.hpp>

#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"
#include "tests/web/front.h"
#include "tests/web/sse_client.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;

namespace {

// Writes an event as the kernel does; its id.
std::int64_t tell(AgentFront& front, const std::string& kind, const std::string& payload = "{}", RunId run = {}) {
  return front.rig.store
      ->write([&](db::Tx& tx) { return kernel::append_event(tx, tx.now(), kind, run, StepId(), payload); })
      .value;
}

// Reads messages up to the one of this id; their ids. Fails if it does not come.
std::vector<std::int64_t> ids_up_to(SseClient& client, std::int64_t last) {
  std::vector<std::int64_t> ids;
  while (ids.empty() || ids.back() < last) {
    const auto message = client.next();
    REQUIRE(message);
    if (!message->event.empty() || message->comment) continue;
    ids.push_back(std::stoll(message->id));
    CHECK(json::int_member(message->data, "id") == ids.back());
  }
  return ids;
}

int threads_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return -1;
}
int descriptors_of_process() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

TEST_CASE("streams: the first message comes at once, then each event as it is committed") {
  AgentFront front;
  front.until(front.start("echo"), "completed");
  const std::int64_t before = tell(front, "test.before");
  SseClient client(front.client(), "/v1/events");
  CHECK(client.status() == 200);
  CHECK(client.head().find("Content-Type: text/event-stream") != std::string::npos);
  CHECK(client.head().find("Content-Length") == std::string::npos);
  const auto ready = client.next();
  REQUIRE(ready);
  CHECK(ready->event == "ready");
  CHECK(json::int_member(ready->data, "last_event") == before);
  CHECK(ready->id == std::to_string(before));
  const std::int64_t first = tell(front, "test.first", "{\"a\": 1.50e2,\n\r\n \"b\":2}");
  const auto message = client.next();
  REQUIRE(message);
  CHECK(message->id == std::to_string(first));
  CHECK(json::string_member(message->data, "kind") == "test.first");
  // The lines of a document are joined again, its numbers stand as they were written.
  CHECK(json::member(message->data, "payload") == "{\"a\": 1.50e2,\n\n \"b\":2}");
  for (int i = 0; i < 500; ++i) tell(front, "test.more");
  const std::int64_t last = tell(front, "test.last");
  CHECK(ids_up_to(client, last).size() == 501);
}

TEST_CASE("streams: a reader that comes again with Last-Event-ID misses nothing and hears nothing twice") {
  web::StreamBounds bounds;
  bounds.ring_events = 16;  // most of what it asks for has left the ring
  AgentFront front({}, bounds);
  const std::int64_t seen = tell(front, "test.seen");
  for (int i = 0; i < 700; ++i) tell(front, "test.missed");
  const std::int64_t last = tell(front, "test.last");
  // What the browser remembers counts more than what the address says.
  SseClient by_field(front.client(), "/v1/events?cursor=1", "Last-Event-ID: " + std::to_string(seen) + "\r\n");
  SseClient by_query(front.client(), "/v1/events?cursor=" + std::to_string(seen));
  for (SseClient* client : {&by_field, &by_query}) {
    const auto ids = ids_up_to(*client, last);
    REQUIRE(ids.size() == 701);
    for (std::size_t i = 0; i < ids.size(); ++i) CHECK(ids[i] == seen + 1 + static_cast<std::int64_t>(i));
  }
  for (int i = 0; i < 100; ++i) {
    const std::int64_t next = tell(front, "test.next");
    CHECK(ids_up_to(by_field, next) == std::vector<std::int64_t>{next});
    CHECK(ids_up_to(by_query, next) == std::vector<std::int64_t>{next});
  }
}

TEST_CASE("streams: what was deleted in between is 410 with the oldest id, and a page that still goes on is none") {
  AgentFront front;
  const std::int64_t gone = tell(front, "test.gone");
  const std::int64_t kept = tell(front, "test.kept");
  const std::int64_t newest = tell(front, "test.newest");
  front.rig.store->write([&](db::Tx& tx) {
    db::Query(tx, "DELETE FROM events WHERE id <= ?").bind(gone).run();
    db::Query(tx, "INSERT INTO meta (key, value) VALUES ('events_pruned', ?)").bind(std::to_string(gone)).run();
  });
  SseClient late(front.client(), "/v1/events", "Last-Event-ID: " + std::to_string(gone - 1) + "\r\n");
  CHECK(late.status() == 410);
  const auto body = late.head();  // the answer keeps its connection: read it by its length
  CHECK(body.find("application/problem+json") != std::string::npos);
  HttpClient asking = front.client();
  const HttpAnswer answer = asking.ask(
      "GET", "/v1/events", {}, "Accept: text/event-stream\r\nLast-Event-ID: " + std::to_string(gone - 1) + "\r\n");
  CHECK(answer.status == 410);
  CHECK(json::string_member(answer.body, "code") == "events_pruned");
  CHECK(json::int_member(answer.body, "oldest") == kept);
  CHECK(json::int_member(answer.body, "last_event") == newest);
  SseClient just(front.client(), "/v1/events", "Last-Event-ID: " + std::to_string(gone) + "\r\n");
  CHECK(ids_up_to(just, newest) == std::vector<std::int64_t>{kept, newest});
  CHECK(asking.ask("GET", "/v1/events", {}, "Accept: text/event-stream\r\nLast-Event-ID: x\r\n").status == 400);
  CHECK(asking.ask("GET", "/v1/runs/99/events", {}, "Accept: text/event-stream\r\n").status == 404);
}

TEST_CASE("streams: a run's stream has its history, ends with the run, and is closed") {
  AgentFront front;
  const std::int64_t run = front.start("gate");
  const std::int64_t wait = front.wait_of(run);
  const std::string target = "/v1/runs/" + std::to_string(run) + "/events";
  SseClient client(front.client(), target);
  CHECK(client.next()->event == "ready");
  std::vector<std::string> kinds;
  bool decided = false;
  std::string end;
  while (end.empty()) {
    const auto message = client.next();
    REQUIRE(message);
    if (message->event == "end") end = message->data;
    kinds.push_back(json::string_member(message->data, "kind").value_or(""));
    if (kinds.back() == "wait.created" && !decided) {
      decided = true;
      (void)front.start("echo");  // another run's events do not come
      CHECK(front.ask("POST", "/v1/waits/" + std::to_string(wait) + "/resolve", "{\"decision\":\"approved\"}").status ==
            200);
    }
    if (message->event.empty()) CHECK(json::int_member(message->data, "run") == run);
  }
  CHECK(kinds.front() == "run.created");
  CHECK(kinds[kinds.size() - 2] == "run.completed");
  CHECK(json::string_member(end, "status") == "completed");
  CHECK(client.closed_within(5s));
  // One that had everything and lost only the end gets it at once.
  const std::int64_t last = front.rig.number("SELECT max(id) FROM events");
  SseClient again(front.client(), target, "Last-Event-ID: " + std::to_string(last) + "\r\n");
  CHECK(again.next()->event == "ready");
  CHECK(again.next()->event == "end");
  CHECK(again.closed_within(5s));
}

TEST_CASE("streams: a silent stream has a heartbeat, HEAD has no body, a page is still JSON") {
  web::ServerOptions options;
  options.heartbeat_ms = 100;
  AgentFront front(std::move(options));
  SseClient client(front.client(), "/v1/events");
  CHECK(client.next()->event == "ready");
  for (int i = 0; i < 3; ++i) CHECK(client.next()->comment);
  HttpClient head = front.client();
  head.send("HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  CHECK(head.closed_within(5s));
  CHECK(front.ask("GET", "/v1/events").field("content-type")->find("application/json") == 0);
  eventually([&] { return front.streams().counts().open == 1; }, "the HEAD holds no slot");
}

TEST_CASE("streams: at most N of them, the next is told when to come again") {
  web::StreamBounds bounds;
  bounds.streams = 2;
  AgentFront front({}, bounds);
  std::vector<SseClient> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back(front.client(), "/v1/events");
    CHECK(readers.back().next()->event == "ready");
  }
  HttpClient third = front.client();
  const HttpAnswer refused = third.ask("GET", "/v1/events", {}, "Accept: text/event-stream\r\n");
  CHECK(refused.status == 503);
  CHECK(json::string_member(refused.body, "code") == "too_many_streams");
  CHECK(refused.field("retry-after") != nullptr);
  CHECK(third.ask("GET", "/v1/events").status == 200);  // pages are no streams
  readers.pop_back();
  eventually([&] { return front.streams().counts().open == 1; }, "its slot is free");
  SseClient now(front.client(), "/v1/events");
  CHECK(now.next()->event == "ready");
}

TEST_CASE("streams: they end at once with the token that opened them, and with the page's session") {
  AgentFront front;
  const HttpAnswer made = front.ask("POST", "/v1/tokens", "{\"name\":\"board\",\"scopes\":\"read\"}");
  REQUIRE(made.status == 201);
  const std::string token = json::string_member(made.body, "token").value();
  SseClient by_token(front.page(), "/v1/events", "Authorization: Bearer " + token + "\r\n", front.host());
  CHECK(by_token.next()->event == "ready");
  const std::string code = json::string_member(front.ask("POST", "/v1/session/codes", "{}").body, "code").value();
  HttpClient page = front.page();
  const HttpAnswer signed_in = page.ask("POST", "/v1/session", "{\"code\":\"" + code + "\"}");
  REQUIRE(signed_in.status == 201);
  const std::string cookie =
      "Cookie: " + signed_in.field("set-cookie")->substr(0, signed_in.field("set-cookie")->find(';')) + "\r\n";
  SseClient by_cookie(front.page(), "/v1/events", cookie, front.host());
  CHECK(by_cookie.next()->event == "ready");
  SseClient by_uid(front.client(), "/v1/events");
  CHECK(by_uid.next()->event == "ready");
  CHECK(front.ask("DELETE", "/v1/tokens/board").status == 200);
  CHECK(by_token.closed_within(5s));
  HttpClient revoked = front.page();
  CHECK(revoked.ask("GET", "/v1/runs", {}, "Authorization: Bearer " + token + "\r\n").status == 401);
  const std::string csrf = json::string_member(signed_in.body, "csrf").value();
  page.send("DELETE /v1/session HTTP/1.1\r\nHost: " + front.host() + "\r\n" + cookie + "X-Bide-CSRF: " + csrf +
            "\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n");
  CHECK(page.read()->status == 204);
  CHECK(by_cookie.closed_within(5s));
  const std::int64_t last = tell(front, "test.on");
  CHECK(ids_up_to(by_uid, last).back() == last);
}

TEST_CASE("streams: a reader that takes nothing is cut off, and others hear everything meanwhile") {
  web::ServerOptions options;
  options.write_ms = 500;
  AgentFront front(std::move(options));
  SseClient deaf(front.page(), "/v1/events", Front::bearer(), front.host());
  SseClient hears(front.client(), "/v1/events");
  CHECK(deaf.next()->event == "ready");
  CHECK(hears.next()->event == "ready");
  const std::string payload = "{\"x\":\"" + std::string(400'000, 'x') + "\"}";
  for (int i = 0; i < 60; ++i) {
    const std::int64_t large = tell(front, "test.large", payload);
    CHECK(ids_up_to(hears, large) == std::vector<std::int64_t>{large});
  }
  eventually([&] { return front.streams().counts().open == 1; }, "the deaf one is gone");
}

TEST_CASE("streams: 1000 readers that come and vanish and 50 that stay leave nothing behind") {
  AgentFront front;
  (void)front.ask("GET", "/v1/info");
  std::vector<SseClient> stay;
  for (int i = 0; i < 50; ++i) {
    stay.emplace_back(front.client(), i % 2 == 0 ? "/v1/events" : "/v1/events?cursor=0");
    CHECK(stay.back().next()->event == "ready");
  }
  eventually([&] { return front.streams().counts().open == 50; }, "50 are open");
  const int threads = threads_of_process();
  // The store opens its readers of the file (three descriptors each) when they are needed.
  const int descriptors = descriptors_of_process() + 12;
  for (int i = 0; i < 1000; ++i) {
    SseClient vanishes(front.client(), "/v1/events", i % 3 == 0 ? "Last-Event-ID: 0\r\n" : "");
    if (i % 2 == 0) CHECK(vanishes.status() == 200);  // the others are gone before they hear anything
    if (i % 50 == 0) tell(front, "test.tick");
  }
  const std::int64_t last = tell(front, "test.last");
  for (SseClient& client : stay) CHECK(ids_up_to(client, last).back() == last);
  eventually([&] { return front.streams().counts().open == 50; }, "the 1000 are gone");
  CHECK(front.streams().counts().opened >= 550);
  eventually([&] { return descriptors_of_process() <= descriptors; }, "no descriptor is left");
  // Pool threads come and go by themselves; none of them belongs to a reader.
  CHECK(threads_of_process() <= threads + 64);
  CHECK(front.server().counts().waiting_requests == 0);
  stay.clear();
  eventually([&] { return front.streams().counts().open == 0; }, "all are gone");
  CHECK(front.ask("GET", "/v1/info").status == 200);
}
