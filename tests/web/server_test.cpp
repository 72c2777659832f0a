// The front under load and slow clients: who waits for whom, and how it stops.
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/errors.h"
#include "tests/support/eventually.h"
#include "tests/web/front.h"
#include "web/problem.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;
using Moment = std::chrono::steady_clock;

namespace {

std::string get(const Front& front, const std::string& target, const std::string& fields = {}) {
  return "GET " + target + " HTTP/1.1\r\nHost: " + front.host() + "\r\n" + Front::bearer() + fields + "\r\n";
}

std::vector<HttpClient> hold(const Front& front, int count) {
  std::vector<HttpClient> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(front.tcp());
    clients.back().send(get(front, "/hold"));
  }
  return clients;
}

}  // namespace

TEST_CASE("server: a request over the socket and over TCP") {
  const Front front;
  HttpClient local = front.unix_socket();
  CHECK(local.ask("POST", "/v1/runs", "{\"a\":1}").status == 201);
  const HttpAnswer again = local.ask("GET", "/v1/runs/7%2F8");
  CHECK(again.body == "{\"id\":\"7/8\"}");
  HttpClient remote = front.tcp();
  CHECK(remote.ask("POST", "/v1/runs", "{\"b\": 2}", Front::bearer()).body == "{\"b\": 2}");
  CHECK(front.runs() == 2);
}

TEST_CASE("server: every answer carries what browsers must not do, and none allows another origin") {
  const Front front;
  for (const char* target : {"/healthz", "/nowhere", "/v1/waits"}) {
    HttpClient client = front.tcp();
    const HttpAnswer answer = client.ask("GET", target);
    INFO(target);
    REQUIRE(answer.field("content-security-policy") != nullptr);
    CHECK(answer.field("content-security-policy")->find("default-src 'self'; frame-ancestors 'none'") == 0);
    CHECK(*answer.field("x-content-type-options") == "nosniff");
    CHECK(*answer.field("referrer-policy") == "no-referrer");
    CHECK(*answer.field("cache-control") == "no-store");
    CHECK(answer.field("date")->size() == 29);
    CHECK(answer.field("access-control-allow-origin") == nullptr);
  }
}

TEST_CASE("server: 404, 405 with Allow, OPTIONS, HEAD") {
  const Front front;
  HttpClient client = front.unix_socket();
  CHECK(client.ask("GET", "/v1/nothing").status == 404);
  const HttpAnswer wrong = client.ask("GET", "/v1/runs");
  CHECK(wrong.status == 405);
  CHECK(*wrong.field("allow") == "OPTIONS, POST");
  const HttpAnswer options = client.ask("OPTIONS", "/v1/waits");
  CHECK(options.status == 204);
  CHECK(*options.field("allow") == "GET, HEAD, OPTIONS");
  const HttpAnswer head = client.ask("HEAD", "/v1/waits");
  CHECK(head.status == 200);
  CHECK(*head.field("content-length") == "24");
  CHECK(head.body.empty());
  // All of it on one connection: none of these ends it.
  CHECK(client.ask("GET", "/v1/waits").status == 200);
}

TEST_CASE("server: pipelined requests are answered in order, refused ones among them") {
  const Front front;
  HttpClient client = front.tcp();
  std::string all;
  for (int i = 1; i <= 200; ++i) all += get(front, i % 7 == 0 ? "/nothing" : "/v1/runs/" + std::to_string(i));
  REQUIRE(client.send(all));
  for (int i = 1; i <= 200; ++i) {
    const auto answer = client.read();
    REQUIRE(answer);
    if (i % 7 == 0) {
      CHECK(answer->status == 404);
    } else {
      CHECK(answer->body == "{\"id\":\"" + std::to_string(i) + "\"}");
    }
  }
}

TEST_CASE("server: a body beyond the limit is refused before it is sent") {
  const Front front;
  HttpClient client = front.tcp();
  client.send("POST /v1/runs HTTP/1.1\r\nHost: " + front.host() + "\r\n" + Front::bearer() +
              "Content-Type: application/json\r\nContent-Length: 1114113\r\nExpect: 100-continue\r\n\r\n");
  const auto answer = client.read(2s);
  REQUIRE(answer);
  CHECK(answer->status == 413);
  CHECK(*answer->field("connection") == "close");
  CHECK(client.closed_within(5s));
}

TEST_CASE("server: a refusal can be read although the client is still sending") {
  const Front front;
  HttpClient client = front.tcp();
  client.send("POST /v1/runs HTTP/1.1\r\nHost: " + front.host() +
              "\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n" + std::string(900'000, ' '));
  const auto answer = client.read(5s);
  REQUIRE(answer);
  CHECK(answer->status == 401);
  CHECK(*answer->field("www-authenticate") == "Bearer realm=\"bide\"");
}

TEST_CASE("server: 100-continue is answered when a body is wanted") {
  const Front front;
  HttpClient client = front.tcp();
  client.send("POST /v1/runs HTTP/1.1\r\nHost: " + front.host() + "\r\n" + Front::bearer() +
              "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  REQUIRE(client.read(5s)->status == 100);
  client.send("{}");
  CHECK(client.read(5s)->status == 201);
}

TEST_CASE("server: a head and a body that come too slowly are ended with 408, as a whole and not by the byte") {
  web::ServerOptions options;
  options.head_ms = 300;
  options.body_ms = 300;
  const Front front(options);
  const std::string head = "POST /v1/runs HTTP/1.1\r\nHost: " + front.host() + "\r\n" + Front::bearer() +
                           "Content-Type: application/json\r\nContent-Length: 1000\r\n";
  for (const std::string& begin : {head, head + "\r\n"}) {
    HttpClient client = front.tcp();
    client.send(begin);
    const auto started = Moment::now();
    while (Moment::now() - started < 3s && client.send(begin == head ? "A" : " ")) {
      if (const auto answer = client.read(20ms)) {
        CHECK(answer->status == 408);
        break;
      }
    }
    CHECK(Moment::now() - started < 2s);
  }
  CHECK(front.runs() == 0);
}

TEST_CASE("server: 500 idle connections do not starve a request") {
  const Front front;
  std::vector<HttpClient> idle;
  for (int i = 0; i < 500; ++i) {
    idle.push_back(front.tcp());
    if (i % 2 == 0) continue;  // half of them say nothing at all
    REQUIRE(idle.back().ask("GET", "/healthz").status == 200);
  }
  HttpClient client = front.tcp();
  const auto begin = Moment::now();
  CHECK(client.ask("GET", "/v1/waits", {}, Front::bearer()).status == 200);
  CHECK(Moment::now() - begin < 2s);
  // And each of them is still good.
  CHECK(idle[0].ask("GET", "/healthz").status == 200);
  CHECK(idle[499].ask("GET", "/healthz").status == 200);
}

TEST_CASE("server: 300 handlers that wait do not starve those that answer") {
  Front front;
  const auto waiting = hold(front, 300);
  eventually([&] { return front.holding() == 300; }, "300 handlers wait");
  CHECK(front.server().counts().waiting_requests == 300);
  HttpClient client = front.tcp();
  for (int i = 0; i < 50; ++i) REQUIRE(client.ask("GET", "/v1/waits", {}, Front::bearer()).status == 200);
}

TEST_CASE("server: beyond its bounds it says 503 and closes, and health goes on") {
  web::ServerOptions options;
  options.wait_threads = 3;
  options.request_threads = 1;
  options.queued_requests = 1;
  std::atomic<bool> release{false};
  Front front(options, [&release](web::Router& router) {
    router.open("/block", [&release](web::Request&) {
      release.wait(false);
      return web::json_response(200, "{}");
    });
  });
  auto waiting = hold(front, 3);
  eventually([&] { return front.holding() == 3; }, "3 handlers wait");
  HttpClient fourth = front.tcp();
  const HttpAnswer full = fourth.ask("GET", "/hold");
  CHECK(full.status == 503);
  CHECK(*full.field("retry-after") == "1");
  CHECK(*full.field("connection") == "close");
  CHECK(fourth.closed_within(5s));

  std::vector<HttpClient> blocked;
  for (int i = 0; i < 2; ++i) {
    blocked.push_back(front.tcp());
    blocked.back().send(get(front, "/block"));
    eventually([&] { return front.server().counts().short_requests == 1; }, "the one thread is taken");
  }
  HttpAnswer busy;
  eventually([&] { return (busy = front.tcp().ask("GET", "/v1/waits", {}, Front::bearer())).status == 503; },
             "it is full");
  CHECK(front.tcp().ask("GET", "/healthz").status == 200);
  release = true;
  release.notify_all();
  for (HttpClient& client : blocked) CHECK(client.read()->status == 200);
  // One that hung up makes room.
  waiting.pop_back();
  eventually([&] { return front.holding() == 2; }, "the handler was told that its peer is gone");
}

TEST_CASE("server: connections have a bound, and the one that was idle for longest goes first") {
  web::ServerOptions options;
  options.tcp_connections = 4;
  Front front(options);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(front.tcp());
    REQUIRE(clients.back().ask("GET", "/v1/waits", {}, Front::bearer()).status == 200);
    // The answer is read a moment before its connection is given back.
    eventually([&] { return front.server().counts().short_requests == 0; }, "its thread is done");
  }
  CHECK(clients[0].closed_within(5s));
  CHECK(clients[1].closed_within(5s));
  for (std::size_t i = 2; i < 6; ++i) CHECK(clients[i].ask("GET", "/healthz").status == 200);
  // All of them at work: the next is refused, on this listener; the other has its own bound.
  const auto begin = Moment::now();
  for (std::size_t i = 2; i < 6; ++i) clients[i].send(get(front, "/hold"));
  eventually([&] { return front.holding() == 4; }, "all four wait");
  CHECK(front.tcp().read(5s)->status == 503);
  CHECK(front.unix_socket().ask("GET", "/healthz").status == 200);
  CHECK(Moment::now() - begin < 10s);
}

TEST_CASE("server: an answer larger than the socket's buffer reaches a slow reader and holds no thread") {
  web::ServerOptions options;
  options.request_threads = 1;
  const Front front(options);
  HttpClient slow = front.unix_socket();
  slow.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  HttpClient other = front.unix_socket();
  CHECK(other.ask("GET", "/v1/waits").status == 200);
  const auto answer = slow.read();
  REQUIRE(answer);
  CHECK(answer->body.size() == (8u << 20) + 2);
  CHECK(slow.read()->status == 200);  // what was pipelined behind it
}

TEST_CASE("server: a reader that reads nothing is cut off") {
  web::ServerOptions options;
  options.write_ms = 200;
  Front front(options);
  HttpClient client = front.unix_socket();
  client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
  eventually([&] { return front.server().counts().connections == 0; }, "the connection was closed");
}

TEST_CASE("server: a request that is never answered holds no thread and ends with its peer") {
  Front front;
  {
    std::vector<HttpClient> clients;
    for (int i = 0; i < 600; ++i) {  // more than there are threads
      clients.push_back(front.unix_socket());
      clients.back().send("GET /parked HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    eventually([&] { return front.server().counts().connections == 600; }, "all are open");
    CHECK_FALSE(clients.back().closed_within(50ms));
    CHECK(front.unix_socket().ask("GET", "/v1/waits").status == 200);
  }
  eventually([&] { return front.server().counts().connections == 0; }, "all ended with their peers");
}

TEST_CASE("server: an outcome that is unknown closes the connection without an answer") {
  const Front front;
  HttpClient client = front.tcp();
  CHECK(client.ask("GET", "/gone").status == 0);
  CHECK(client.closed_within(1s));
}

TEST_CASE("server: it stops at once, whoever is connected") {
  Front front;
  auto waiting = hold(front, 20);
  eventually([&] { return front.holding() == 20; }, "20 handlers wait");
  std::vector<HttpClient> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(front.tcp());
    if (i % 2 == 0) others.back().send("GET / HT");
  }
  HttpClient parked = front.unix_socket();
  parked.send("GET /parked HTTP/1.1\r\nHost: localhost\r\n\r\n");
  eventually([&] { return front.server().counts().connections == 41; }, "all are here");
  const auto begin = Moment::now();
  front.stop();
  CHECK(Moment::now() - begin < 1s);
  // Those that waited got an answer that says that it is the last.
  for (HttpClient& client : waiting) {
    const auto answer = client.read(1s);
    REQUIRE(answer);
    CHECK(*answer->field("connection") == "close");
  }
  for (HttpClient& client : others) CHECK(client.closed_within(1s));
  CHECK(parked.closed_within(1s));
}

TEST_CASE("server: a stop before anything happened is not lost") {
  for (int i = 0; i < 20; ++i) {
    Front front;
    front.stop();
  }
}

TEST_CASE("server: a fault of a handler is told without its text") {
  const Front front;
  const HttpAnswer answer = front.tcp().ask("GET", "/throws");
  CHECK(answer.status == 500);
  CHECK(*answer.field("content-type") == "application/problem+json");
  CHECK(answer.body.find("secret") == std::string::npos);
  CHECK(answer.body.find("\"code\":\"internal\"") != std::string::npos);
}
