// The transport against real receivers on loopback, and the targets that it refuses [O4, O6, F06, F09].
#include <catch2/catch.hpp>

#include <chrono>
#include <map>

#include "agent/base/clock.h"
#include "agent/base/limits.h"
#include "agent/work/delivery.h"
#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/sink.h"

namespace bide {
namespace {

using test::Sink;
using work::Answered;
using Kind = Answered::Kind;

// Answers from a table, in turn, and counts how often it is asked.
class TableResolver final : public work::Resolver {
 public:
  work::Resolved resolve(const std::string& host, int port, DurationMs) override {
    ++asked;
    const auto found = names.find(host);
    if (found == names.end()) return work::NoSuchName{"no such name"};
    const auto& turns = found->second;
    std::vector<work::Address> addresses;
    for (const std::string& text : turns[std::min<std::size_t>(static_cast<std::size_t>(asked - 1), turns.size() - 1)])
      addresses.push_back(work::parse_address(text, port).value());
    return addresses;
  }
  std::map<std::string, std::vector<std::vector<std::string>>> names;
  int asked = 0;
};

struct Post {
  explicit Post(const work::HttpTransportOptions& options = {}) : transport(clock, resolver, options) {}
  Answered operator()(const std::string& url, std::vector<std::string> allow = {}, DurationMs deadline = 5'000) {
    work::Envelope envelope;
    envelope.url = url;
    envelope.headers = {{"Content-Type", "application/json"}, {"Idempotency-Key", "k1"}};
    envelope.body = body;
    envelope.allow = std::move(allow);
    envelope.deadline = deadline;
    return transport.send(envelope);
  }
  SystemClock clock;
  TableResolver resolver;
  work::HttpTransport transport;
  std::string body = R"({"a": [1, 2.50, "ü"]})";
};

TEST_CASE("[O4] a request arrives byte for byte, on the path and for the host of its URL") {
  Sink sink;
  Post post;
  const auto answer = post(sink.url("/a%20b/c?x=%2F&y=1#gone"), {sink.address()});
  CHECK(answer.kind == Kind::answered);
  CHECK(answer.status == 200);
  REQUIRE(sink.count() == 1);
  const auto got = sink.requests()[0];
  CHECK(got.line == "POST /a%20b/c?x=%2F&y=1 HTTP/1.1");
  CHECK(got.body == post.body);
  CHECK(got.field("host") == sink.address());
  CHECK(got.field("idempotency-key") == "k1");
  CHECK(got.field("content-type") == "application/json");
  post.body = std::string(1 << 20, 'x');
  CHECK(post(sink.url(), {sink.address()}).status == 200);
  CHECK(sink.requests()[1].body.size() == 1 << 20);
}

TEST_CASE("[F06] a receiver that hangs or drips does not extend the deadline, and one that resets is a failure") {
  Sink sink;
  Post post;
  const auto timed = [&](Sink::Reply reply) {
    sink.script([reply](const Sink::Request&, int) { return reply; });
    const BootMs began = post.clock.boot_ms();
    auto answer = post(sink.url(), {sink.address()}, 400);
    CHECK(post.clock.boot_ms() - began < 2'000);
    CHECK(answer.kind == Kind::failed);
    return answer;
  };
  CHECK(timed(Sink::act(Sink::Reply::Act::hang)).error == "no answer in time");
  CHECK(timed(Sink::act(Sink::Reply::Act::drip)).error == "no answer in time");
  Sink::Reply body_drips;  // the head is there at once, the body a byte at a time
  body_drips.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc";
  CHECK(timed(body_drips).kind == Kind::failed);
  (void)timed(Sink::act(Sink::Reply::Act::reset));
  Sink::Reply silent;
  silent.bytes = "";
  CHECK(timed(silent).kind == Kind::failed);
}

TEST_CASE("[O4] of an answer only the head counts, and none is read without end") {
  Sink sink;
  Post post;
  const auto said = [&](std::string bytes) {
    Sink::Reply reply;
    reply.bytes = std::move(bytes);
    sink.script([reply](const Sink::Request&, int) { return reply; });
    return post(sink.url(), {sink.address()});
  };
  CHECK(said("HTTP/1.1 200 OK\r\n\r\n" + std::string(8 << 20, 'x')).status == 200);
  CHECK(said("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").status == 200);
  CHECK(said("HTTP/1.1 204 No\r\n\r\n").status == 204);
  CHECK(said("HTTP/1.1 204 No\r\nRetry-After: 7\r\n\r\n").retry_after == "7");
  const auto asked = said("HTTP/1.1 429 Slow\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n");
  CHECK(asked.status == 429);
  CHECK(asked.retry_after == "120");
  CHECK(said("HTTP/1.1 200 OK\r\nX: " + std::string(8 << 20, 'x') + "\r\n\r\n").kind == Kind::failed);
  CHECK(said("SSH-2.0-OpenSSH_9.2\r\n").kind == Kind::failed);
}

TEST_CASE("[O6] [F09] redirects are not followed: every status × every form of a place, allowed or not") {
  Sink canary;
  Sink sink;
  Post post;
  const std::string port = std::to_string(canary.port());
  int vectors = 0;
  for (const int status : {300, 301, 302, 303, 304, 305, 306, 307, 308}) {
    for (const std::string& place :
         {canary.url(), "//127.0.0.1:" + port + "/", "http://127.1:" + port + "/", "HTTP://localhost:" + port + "/x",
          "http://2130706433:" + port + "/", "http://x@127.0.0.1:" + port + "/", "http://[::ffff:127.0.0.1]:" + port,
          "/\\127.0.0.1:" + port, std::string("file:///etc/passwd"), std::string("http://169.254.169.254/")}) {
      INFO(status << " " << place);
      sink.script([&](const Sink::Request&, int) { return Sink::status(status, "Location: " + place + "\r\n"); });
      const bool allowed = ++vectors % 2 == 0;  // though it be: where a row goes is decided when it is written
      CHECK(post(sink.url(), {sink.address(), allowed ? canary.address() : sink.address()}).status == status);
    }
  }
  CHECK(vectors == 90);
  CHECK(sink.count() == 90);
  CHECK(canary.connections() == 0);
}

TEST_CASE(
    "[O6] [F09] a resolver that changes its answer: a name is asked once a try, and each address of it is checked") {
  Sink canary;
  Sink good;
  Post post;
  const std::string port = std::to_string(good.port());
  int vectors = 0;
  int delivered = 0;
  // `0.0.0.0` and the others all reach a receiver of this machine if anybody connects to them.
  for (const char* other : {"127.0.0.2", "127.255.255.254", "0.0.0.0", "::1", "::", "::ffff:127.0.0.2", "10.0.0.7",
                            "169.254.169.254", "fe80::1", "fd00::1"}) {
    for (const std::vector<std::vector<std::string>>& turns :
         {std::vector<std::vector<std::string>>{{"127.0.0.1"}, {other}},
          {{other}, {"127.0.0.1"}},
          {{"127.0.0.1", other}, {other, "127.0.0.1"}},
          {{"127.0.0.1"}, {"127.0.0.1", other}},
          {{other}, {other}}}) {
      post.resolver.names = {{"turns.example", turns}};
      post.resolver.asked = 0;
      for (std::size_t n = 0; n < turns.size(); ++n, ++vectors) {
        const bool clean = turns[n] == std::vector<std::string>{"127.0.0.1"};
        const auto answer = post("http://turns.example:" + port + "/", {good.address()});
        CHECK(answer.kind == (clean ? Kind::answered : Kind::never));
        CHECK(post.resolver.asked == static_cast<int>(n) + 1);
        delivered += clean ? 1 : 0;
      }
    }
  }
  CHECK(vectors == 100);
  CHECK(delivered == 30);
  CHECK(good.connections() == delivered);
  CHECK(canary.connections() == 0);
}

TEST_CASE("[O4] closing cuts what is under way, and what is sent later") {
  Sink sink([](const Sink::Request&, int) { return Sink::act(Sink::Reply::Act::hang); });
  Post post;
  Answered answer;
  std::jthread sender([&] { answer = post(sink.url(), {sink.address()}, 60'000); });
  test::eventually([&] { return sink.count() == 1; }, "the request is there");
  post.transport.close();
  sender.join();
  CHECK(answer.kind == Kind::interrupted);
  CHECK(post(sink.url(), {sink.address()}).kind == Kind::interrupted);
}

TEST_CASE("[O5] refused is a failure, no network is none") {
  int port = 0;
  {
    const Sink gone;
    port = gone.port();
  }
  Post post;
  CHECK(post("http://127.0.0.1:" + std::to_string(port) + "/", {"127.0.0.1"}).kind == Kind::failed);
  CHECK(post("http://nowhere.example/").kind == Kind::failed);
  CHECK(post("http://nowhere.example/").error == "nowhere.example: no such name");
  class Mute final : public work::Resolver {
    work::Resolved resolve(const std::string&, int, DurationMs) override { return work::NoAnswer{"try again"}; }
  } mute;
  SystemClock clock;
  for (const bool network : {true, false}) {
    work::HttpTransport transport(clock, mute, {{}, {}, [network] { return network; }});
    work::Envelope envelope;
    envelope.url = "http://some.example/";
    envelope.body = "{}";
    envelope.deadline = 500;
    CHECK(transport.send(envelope).kind == (network ? Kind::failed : Kind::no_network));
  }
}

TEST_CASE("[F09] the webhook that calls home: no forged target reaches the canary, the one that was allowed does") {
  Sink canary;
  Sink agent;  // the agent's own door
  const std::string port = std::to_string(canary.port());
  Post post({work::parse_address("127.0.0.1", agent.port()), {}, work::has_network});
  post.resolver.names = {{"localhost", {{"127.0.0.1"}}},
                         {"localhost.", {{"127.0.0.1"}}},
                         {"two.example", {{"93.184.216.34", "127.0.0.1"}}},
                         {"mapped.example", {{"::ffff:127.0.0.1"}}},
                         {"inside.example", {{"10.0.0.7"}}},
                         {"six.example", {{"::1"}}}};
  const std::vector<std::string> hosts = {"127.1",
                                          "2130706433",
                                          "0x7f000001",
                                          "0x7f.1",
                                          "0177.0.0.1",
                                          "127.0.0.01",
                                          "127.0.1",
                                          "[::ffff:127.0.0.1]",
                                          "[::ffff:7f00:1]",
                                          "[::127.0.0.1]",
                                          "localhost",
                                          "localhost.",
                                          "LOCALHOST",
                                          "x@127.0.0.1",
                                          "x:y@127.0.0.1",
                                          "[::]",
                                          "[::1]",
                                          "0.0.0.0",
                                          "0",
                                          "127.0.0.1",
                                          "127.0.0.2",
                                          "127.255.255.254",
                                          "two.example",
                                          "mapped.example",
                                          "six.example",
                                          "inside.example",
                                          "169.254.169.254",
                                          "[fe80::1]",
                                          "[fe80::1%25lo]",
                                          "[fd00::1]",
                                          "10.0.0.1",
                                          "172.16.0.1",
                                          "192.168.1.1",
                                          "100.64.0.1",
                                          "[64:ff9b::7f00:1]",
                                          "[2002:7f00:1::]",
                                          "127.0.0.1.",
                                          "%31%32%37.0.0.1",
                                          "127。0。0。1",
                                          "[::ffff:0:7f00:1]",
                                          "224.0.0.1",
                                          "255.255.255.255",
                                          "127.0.0.1 ",
                                          "0x7f.0x0.0x0.0x1",
                                          "017700000001",
                                          "[0:0:0:0:0:ffff:127.0.0.1]",
                                          "192.0.2.1",
                                          "198.18.0.1"};
  int vectors = 0;
  const auto refused = [&](const std::string& url) {
    INFO(url);
    const auto answer = post(url, {}, 300);
    CHECK(answer.kind == Kind::never);
    CHECK_FALSE(answer.error.empty());
    ++vectors;
  };
  for (const std::string& host : hosts) {
    for (const char* scheme : {"http", "https", "HTTP"}) {
      for (const char* path : {"", "/hook", "?x=1#y"}) refused(std::string(scheme) + "://" + host + ":" + port + path);
    }
  }
  for (const char* odd : {"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:70/", "//127.0.0.1/",
                          "http:127.0.0.1", "http://", "http:///x", "http://[::1", "http://127.0.0.1:0/",
                          "http://127.0.0.1:99999/", "http://127.0.0.1:80:80/", "http://127.0.0.1\\@example.org/",
                          "http://a\r\nHost: b/", "javascript:1", "http://127.0.0.1:-1/", "http://example.org:/"})
    refused(odd);
  CHECK(vectors >= 400);
  CHECK(canary.connections() == 0);
  // The agent's own door stays shut also for who was allowed it.
  CHECK(post(agent.url(), {"127.0.0.0/8"}).kind == Kind::never);
  CHECK(agent.connections() == 0);
  // What the operator allowed for exactly this address and port works; the neighbour's port does not.
  CHECK(post(canary.url(), {canary.address()}).status == 200);
  CHECK(post(canary.url(), {"127.0.0.1:1"}).kind == Kind::never);
  CHECK(canary.count() == 1);
}

TEST_CASE("[O6] rules of what is allowed") {
  const auto allowed = [](const char* rule, const char* host, int port) {
    return work::allowed_by(rule, work::parse_address(host, port).value());
  };
  CHECK(allowed("127.0.0.1:9000", "127.0.0.1", 9000));
  CHECK(allowed("127.0.0.1:9000", "::ffff:127.0.0.1", 9000));
  CHECK_FALSE(allowed("127.0.0.1:9000", "127.0.0.1", 9001));
  CHECK_FALSE(allowed("127.0.0.1:9000", "127.0.0.2", 9000));
  CHECK(allowed("127.0.0.1", "127.0.0.1", 1));
  CHECK(allowed("10.0.0.0/8", "10.255.1.1", 1));
  CHECK_FALSE(allowed("10.0.0.0/8", "11.0.0.1", 1));
  CHECK(allowed("10.0.0.0/9", "10.127.0.1", 1));
  CHECK_FALSE(allowed("10.0.0.0/9", "10.128.0.1", 1));
  CHECK(allowed("[::1]:80", "::1", 80));
  CHECK(allowed("fd00::/8", "fd12::1", 80));
  CHECK_FALSE(allowed("::1", "127.0.0.1", 80));
  for (const char* wrong :
       {"", "localhost", "127.1", "10.0.0.0/33", "127.0.0.1:", "127.0.0.1:0", "[::1", "[::1]80", "*"}) {
    INFO(wrong);
    CHECK_FALSE(work::is_allow_rule(wrong));
  }
  for (const char* open : {"1.1.1.1", "93.184.216.34", "2606:4700::1111", "172.32.0.1", "100.128.0.1"})
    CHECK(work::is_public(work::parse_address(open, 1).value()));
}

TEST_CASE("[O6] TLS: verified against the host of the URL") {
  const test::TempDir dir;
  const auto openssl = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "openssl");
    REQUIRE(test::run({.argv = words, .cwd = dir.str()}).exit == (test::Exit{0, 0}));
  };
  openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
           "/CN=receiver", "-addext", "subjectAltName=DNS:receiver.example,IP:127.0.0.1", "-keyout", "key.pem", "-out",
           "cert.pem"});
  test::write_file(dir / "receiver.py",
                   "import http.server, ssl, sys\n"
                   "class H(http.server.BaseHTTPRequestHandler):\n"
                   "  def do_POST(self):\n"
                   "    n = int(self.headers['Content-Length']); body = self.rfile.read(n)\n"
                   "    self.send_response(200 if body == b'{\"a\":1}' else 400)\n"
                   "    self.send_header('Content-Length', '0'); self.end_headers()\n"
                   "  def log_message(self, *a): pass\n"
                   "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
                   "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('cert.pem', 'key.pem')\n"
                   "s.socket = c.wrap_socket(s.socket, server_side=True)\n"
                   "print(s.server_address[1], flush=True); s.serve_forever()\n");
  test::Process receiver({.argv = {"python3", "-B", "receiver.py"}, .cwd = dir.str()});
  test::eventually([&] { return receiver.out().find('\n') != std::string::npos; }, "the receiver listens");
  const std::string port = receiver.out().substr(0, receiver.out().find('\n'));
  Post good({{}, dir.str("cert.pem"), work::has_network});
  good.body = R"({"a":1})";
  good.resolver.names = {{"receiver.example", {{"127.0.0.1"}}}, {"other.example", {{"127.0.0.1"}}}};
  const std::vector<std::string> allow = {"127.0.0.1:" + port};
  CHECK(good("https://receiver.example:" + port + "/", allow).status == 200);
  CHECK(good("https://127.0.0.1:" + port + "/", allow).status == 200);
  const auto other = good("https://other.example:" + port + "/", allow);
  CHECK(other.kind == Kind::failed);
  CHECK(other.error.find("TLS") == 0);
  Post stranger;  // who trusts the authorities of the system only
  stranger.resolver.names = good.resolver.names;
  CHECK(stranger("https://receiver.example:" + port + "/", allow).kind == Kind::failed);
}

}  // namespace
}  // namespace bide
