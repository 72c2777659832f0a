// The request matrix: only what is allowed in every respect changes anything, over TCP and over the socket. What is
// allowed is computed here from the rules, not asked from the gate.
#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <vector>

#include "agent/base/json.h"
#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;

namespace {

struct Choice {
  std::string value;
  bool fine = false;  // for a write
};
struct Combination {
  bool tcp = false;
  Choice host, origin, site, type, credential;
  std::string method;
  std::size_t path = 0;
  [[nodiscard]] bool allowed() const {
    return method == "POST" && host.fine && origin.fine && site.fine && type.fine && credential.fine;
  }
};

struct Box {
  AgentFront front;
  std::string cookie;
  std::string csrf;
  std::string wait;

  Box() {
    (void)front.start("gate");
    wait = std::to_string(front.wait_of(1));
    const std::string code = json::string_member(front.ask("POST", "/v1/session/codes", "{}").body, "code").value();
    HttpClient page = front.page();
    const HttpAnswer made = page.ask("POST", "/v1/session", "{\"code\":\"" + code + "\"}");
    cookie = made.field("set-cookie")->substr(0, made.field("set-cookie")->find(';'));
    csrf = json::string_member(made.body, "csrf").value();
  }

  [[nodiscard]] std::vector<Choice> hosts(bool tcp) const {
    const std::string port = std::to_string(front.port());
    if (tcp) {
      return {{"127.0.0.1:" + port, true},
              {"localhost:" + port, true},
              {"LOCALHOST:" + port, true},
              {"127.0.0.1", false},
              {"localhost:1", false},
              {"evil.example:" + port, false},
              {"", false}};
    }
    return {{"localhost", true}, {"bide", true}, {"localhost:99", true}, {"evil.example", false}, {"", false}};
  }
  [[nodiscard]] std::vector<Choice> origins(bool tcp) const {
    const std::string ours = "http://" + front.host();
    return {{"", true},
            {ours, tcp},
            {"null", false},
            {"http://localhost:9999", false},
            {"https://" + front.host(), false},
            {"http://evil.example", false},
            {ours + ".evil.example", false}};
  }
  [[nodiscard]] std::vector<Choice> credentials(bool tcp) const {
    return {{"", !tcp},
            {"Authorization: Bearer " + kAdminToken + "\r\n", true},
            {"Authorization: Bearer bide_READER\r\n", false},
            {"Authorization: Bearer bide_WRONG\r\n", false},
            {"Authorization: Basic YTpi\r\n", false},
            {"Cookie: " + cookie + "\r\n", !tcp},  // no CSRF token; over the socket a cookie means nothing
            {"Cookie: " + cookie + "\r\nX-Bide-CSRF: " + csrf + "\r\n", true},
            {"Cookie: " + cookie + "\r\nX-Bide-CSRF: guess\r\n", !tcp},
            {"Cookie: bide_session=guess\r\nX-Bide-CSRF: " + csrf + "\r\n", !tcp}};
  }
  [[nodiscard]] static std::vector<Choice> sites() {
    return {{"", true}, {"same-origin", true}, {"none", true}, {"same-site", false}, {"cross-site", false}};
  }
  [[nodiscard]] static std::vector<Choice> types() {
    return {{"application/json", true},
            {"application/json; charset=utf-8", true},
            {"text/plain", false},
            {"application/x-www-form-urlencoded", false},
            {"multipart/form-data; boundary=x", false},
            {"", false}};
  }

  // What a write changes: runs, signals, decisions.
  [[nodiscard]] std::int64_t changes() {
    return front.rig.store->read([](db::ReadTx& tx) {
      db::Query q(tx,
                  "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM signals) + (SELECT count(*) FROM waits "
                  "WHERE status <> 'pending') + (SELECT count(*) FROM decisions) + (SELECT count(*) FROM tokens)");
      return q.one().integer(0);
    });
  }

  int send(const Combination& c) const {
    const std::string paths[] = {"/v1/runs", "/v1/runs/1/signals/news", "/v1/waits/" + wait + "/resolve"};
    const std::string bodies[] = {R"({"workflow":"echo","run_at":"2099-01-01T00:00:00Z"})", "{}",
                                  R"({"decision":"approved"})"};
    const bool writes = c.method != "GET" && c.method != "HEAD" && c.method != "OPTIONS";
    std::string request = c.method + " " + paths[c.path] + " HTTP/1.1\r\n";
    if (!c.host.value.empty()) request += "Host: " + c.host.value + "\r\n";
    if (!c.origin.value.empty()) request += "Origin: " + c.origin.value + "\r\n";
    if (!c.site.value.empty()) request += "Sec-Fetch-Site: " + c.site.value + "\r\n";
    if (!c.type.value.empty()) request += "Content-Type: " + c.type.value + "\r\n";
    request += c.credential.value;
    if (writes) request += "Content-Length: " + std::to_string(bodies[c.path].size()) + "\r\n";
    request += "\r\n";
    if (writes) request += bodies[c.path];
    HttpClient client = c.tcp ? front.page() : front.client();
    client.send(request);
    const auto answer = client.read(std::chrono::seconds(20), c.method == "HEAD");
    if (!answer) return 0;
    CHECK(answer->field("access-control-allow-origin") == nullptr);
    return answer->status;
  }
};

std::string front_status(const AgentFront& front, const std::string& wait) {
  return json::string_member(front.ask("GET", "/v1/waits/" + wait).body, "status").value_or("");
}

}  // namespace

TEST_CASE("[F08] the request matrix: of 6000 combinations only those change anything that are allowed throughout") {
  Box box;
  std::minstd_rand chance(20'261'130);
  const auto pick = [&chance](const std::vector<Choice>& of) { return of[chance() % of.size()]; };
  // Most combinations would be wrong in several ways: each respect is right three times out of four.
  const auto lean = [&](const std::vector<Choice>& of) {
    for (int i = 0; i < 8; ++i) {
      Choice one = pick(of);
      if (one.fine || chance() % 4 == 0) return one;
    }
    return of.front();
  };
  const std::vector<std::string> methods = {"POST", "POST", "POST", "GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"};
  int allowed = 0;
  std::int64_t before = box.changes();
  for (int i = 0; i < 6'000; ++i) {
    Combination c;
    c.tcp = chance() % 2 == 0;
    c.host = lean(box.hosts(c.tcp));
    c.origin = lean(box.origins(c.tcp));
    c.site = lean(Box::sites());
    c.type = lean(Box::types());
    c.credential = lean(box.credentials(c.tcp));
    c.method = methods[chance() % methods.size()];
    c.path = chance() % 3;
    if (c.path == 2 && c.allowed()) c.path = 0;  // the wait stays open to the end
    const int status = box.send(c);
    const std::int64_t after = box.changes();
    INFO((c.tcp ? "tcp " : "socket ") << c.method << " path " << c.path << " host " << c.host.value << " origin "
                                      << c.origin.value << " site " << c.site.value << " type " << c.type.value << " "
                                      << c.credential.value << "-> " << status);
    CHECK(after - before == (c.allowed() ? 1 : 0));
    CHECK(status != 0);
    if (c.allowed()) {
      ++allowed;
      CHECK(status / 100 == 2);
    } else if (c.method == "POST" || c.method == "PUT" || c.method == "PATCH" || c.method == "DELETE") {
      CHECK(status / 100 == 4);
    }
    before = after;
  }
  CHECK(allowed > 300);
  CHECK(front_status(box.front, box.wait) == "pending");
}

TEST_CASE("[F03] a link preview, a mail scanner and a prefetch decide nothing") {
  Box box;
  const std::int64_t before = box.changes();
  const std::string target = "/v1/waits/" + box.wait + "/resolve";
  const std::string cookie = "Cookie: " + box.cookie + "\r\n";
  for (const std::string& fields :
       {std::string(), std::string("Sec-Purpose: prefetch\r\n"), std::string("Purpose: prefetch\r\n"),
        std::string("User-Agent: Slackbot-LinkExpanding 1.0\r\n"), cookie, Front::bearer()}) {
    for (const char* method : {"GET", "HEAD", "OPTIONS"}) {
      for (const std::string& path :
           {target, target + "?decision=approved", std::string("/"), "/v1/waits/" + box.wait}) {
        HttpClient client = box.front.page();
        client.send(std::string(method) + " " + path + " HTTP/1.1\r\nHost: " + box.front.host() + "\r\n" + fields +
                    "\r\n");
        CHECK(client.read(std::chrono::seconds(20), std::string(method) == "HEAD"));
      }
    }
  }
  CHECK(box.changes() == before);
  CHECK(front_status(box.front, box.wait) == "pending");
  CHECK(box.front.ask("POST", target, R"({"decision":"approved"})").status == 200);
  const HttpAnswer again = box.front.ask("POST", target, R"({"decision":"approved"})");
  CHECK(again.status == 200);
  const HttpAnswer other = box.front.ask("POST", target, R"({"decision":"denied"})");
  CHECK(other.status == 409);
  CHECK(other.body.find("resolved_at") != std::string::npos);
}
