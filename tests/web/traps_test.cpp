// The traps of a bare cpp-httplib server. Each is a function that springs it and says whether the server fell into it;
// each is asked twice: our front must not fall, and the bare server must, or the trap shows nothing.
#include <fcntl.h>
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/errors.h"
#include "tests/web/bare.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using std::chrono::milliseconds;
using Moment = std::chrono::steady_clock;

namespace {

const std::string kType = "Content-Type: application/json\r\n";

template <class Target>
std::string line(const Target& target, const std::string& start, const std::string& fields) {
  return start + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(target.port()) + "\r\n" + Front::bearer() + fields +
         "\r\n";
}

// Sends it, waits for the answer or the end, and says whether a run was started.
template <class Target>
bool starts_run(const Target& target, const std::string& bytes) {
  HttpClient client = target.tcp();
  client.send(bytes);
  client.half_close();
  while (client.read(milliseconds(2'000))) {
  }
  return target.runs() > 0;
}
template <class Target>
bool starts_run_with(const Target& target, const std::string& fields, const std::string& body = "{}") {
  return starts_run(target, line(target, "POST /v1/runs", fields) + body);
}
template <class Target>
int status_of(const Target& target, const std::string& bytes) {
  HttpClient client = target.tcp();
  client.send(bytes);
  const auto answer = client.read(milliseconds(2'000));
  return answer ? answer->status : 0;
}

std::string repeat(int times, const std::string& text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// A gzip of 2 MiB of spaces around {} would do; the smallest that is valid is enough to see it unpacked.
const std::string kGzip("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00", 22);

// Asked of /proc, because the descriptors belong to other threads.
bool any_socket_without_cloexec() {
  for (int fd = 3; fd < 256; ++fd) {
    const std::string number = std::to_string(fd);
    std::error_code none;
    const auto what = std::filesystem::read_symlink("/proc/self/fd/" + number, none);
    if (what.string().rfind("socket:", 0) != 0) continue;
    const std::string info = read_file("/proc/self/fdinfo/" + number);
    const std::size_t flags = info.find("flags:");
    if (flags != std::string::npos && (std::strtol(info.c_str() + flags + 6, nullptr, 8) & O_CLOEXEC) == 0) return true;
  }
  return false;
}

template <class Target>
struct Traps {
  using Spring = bool (*)(Target&);
  struct Row {
    const char* what;
    Spring spring;
  };
  static std::vector<Row> rows() {
    return {
        {"requests that were pipelined are lost",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send(repeat(3, line(t, "GET /v1/waits", "")));
           for (int i = 0; i < 3; ++i) {
             if (!client.read(milliseconds(1'500))) return true;
           }
           return false;
         }},
        {"keep-alive ends after five requests",
         [](Target& t) {
           HttpClient client = t.tcp();
           for (int i = 0; i < 8; ++i) {
             if (!client.send(line(t, "GET /v1/waits", "")) || !client.read(milliseconds(2'000))) return true;
           }
           return false;
         }},
        {"eight idle connections starve the ninth",
         [](Target& t) {
           std::vector<HttpClient> idle;
           for (int i = 0; i < 8; ++i) {
             idle.push_back(t.tcp());
             idle.back().send(line(t, "GET /v1/waits", ""));
             (void)idle.back().read(milliseconds(2'000));
           }
           HttpClient client = t.tcp();
           client.send(line(t, "GET /v1/waits", ""));
           return !client.read(milliseconds(1'500));
         }},
        {"a chunked body is taken",
         [](Target& t) {
           return starts_run_with(t, kType + "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n");
         }},
        {"a packed body is unpacked",
         [](Target& t) {
           return starts_run_with(t, kType + "Content-Encoding: gzip\r\nContent-Length: 22\r\n", kGzip);
         }},
        {"a hundred header fields",
         [](Target& t) { return starts_run_with(t, kType + "Content-Length: 2\r\n" + repeat(100, "X: y\r\n")); }},
        {"twenty kilobytes of header fields",
         [](Target& t) {
           return starts_run_with(
               t, kType + "Content-Length: 2\r\n" + repeat(4, "X: " + std::string(5'000, 'a') + "\r\n"));
         }},
        {"a head that drips holds a thread for ever",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send("GET /v1/waits HTTP/1.1\r\nX: ");
           const auto end = Moment::now() + milliseconds(1'500);
           while (Moment::now() < end) {
             if (!client.send("a") || client.closed_within(milliseconds(50))) return false;
           }
           return true;
         }},
        {"the body of a GET is done as a request",
         [](Target& t) {
           const std::string inner = line(t, "POST /v1/runs", kType + "Content-Length: 2\r\n") + "{}";
           HttpClient client = t.tcp();
           client.send(line(t, "GET /v1/waits", "Content-Length: " + std::to_string(inner.size()) + "\r\n"));
           (void)client.read(milliseconds(2'000));
           client.send(inner);
           (void)client.read(milliseconds(2'000));
           return t.runs() > 0;
         }},
        {"Content-Length with Transfer-Encoding",
         [](Target& t) {
           return starts_run_with(t, kType + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                                  "2\r\n{}\r\n0\r\n\r\n");
         }},
        {"two Content-Lengths",
         [](Target& t) { return starts_run_with(t, kType + "Content-Length: 2\r\nContent-Length: 3\r\n", "{} "); }},
        {"Content-Length: 3abc",
         [](Target& t) { return starts_run_with(t, kType + "Content-Length: 3abc\r\n", "{} "); }},
        {"a POST without length", [](Target& t) { return starts_run_with(t, kType, ""); }},
        {"no Host",
         [](Target& t) {
           return starts_run(t, "POST /v1/runs HTTP/1.1\r\n" + Front::bearer() + kType + "Content-Length: 2\r\n\r\n{}");
         }},
        {"two Hosts",
         [](Target& t) { return starts_run_with(t, kType + "Host: evil.example\r\nContent-Length: 2\r\n"); }},
        {"a line that ends without a carriage return is passed over",
         [](Target& t) {
           return starts_run_with(t, "Transfer-Encoding: chunked\n" + kType + "Content-Length: 2\r\n");
         }},
        {"multipart",
         [](Target& t) {
           const std::string body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nbbbb\r\n--x--\r\n";
           return starts_run_with(t,
                                  "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: " +
                                      std::to_string(body.size()) + "\r\n",
                                  body);
         }},
        {"Range", [](Target& t) { return status_of(t, line(t, "GET /v1/waits", "Range: bytes=0-0\r\n")) == 206; }},
        {"encoded line ends in a value become real ones",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send(line(t, "GET /seen", "X-Echo: a%0d%0aB: c\r\n"));
           const auto answer = client.read(milliseconds(2'000));
           return answer && answer->body.find("a\\r\\nB: c") != std::string::npos;
         }},
        {"a token is percent-decoded",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send("GET /seen HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(t.port()) +
                       "\r\nAuthorization: Bearer bat_1_2_ab%2Bcd\r\n\r\n");
           const auto answer = client.read(milliseconds(2'000));
           return !answer || answer->body.find("bat_1_2_ab%2Bcd") == std::string::npos;
         }},
        {"a client says what its address is",
         [](Target& t) { return status_of(t, line(t, "GET /seen", "REMOTE_ADDR: 10.0.0.1\r\n")) == 200; }},
        {"what an exception says goes out",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send(line(t, "GET /throws", ""));
           const auto answer = client.read(milliseconds(2'000));
           if (!answer || answer->body.find("secret text") != std::string::npos) return true;
           const std::string* field = answer->field("exception_what");
           return field != nullptr;
         }},
        {"a wrong method is not found",
         [](Target& t) {
           return status_of(t, line(t, "PUT /v1/waits", kType + "Content-Length: 2\r\n") + "{}") == 404;
         }},
        {"answers are packed by brotli while the client waits",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send(line(t, "GET /v1/waits", "Accept-Encoding: br\r\n"));
           const auto answer = client.read(milliseconds(2'000));
           return !answer || answer->field("content-encoding") != nullptr;
         }},
        {"accepted sockets are inherited by programs",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send(line(t, "GET /v1/waits", ""));
           (void)client.read(milliseconds(2'000));
           return any_socket_without_cloexec();
         }},
        {"an idle connection delays the stop",
         [](Target& t) {
           HttpClient client = t.tcp();
           client.send(line(t, "GET /v1/waits", ""));
           (void)client.read(milliseconds(2'000));
           if (client.closed_within(milliseconds(200))) return true;  // it is idle for a while, as the trap wants it
           const auto begin = Moment::now();
           t.stop();
           return Moment::now() - begin > milliseconds(2'000);
         }},
    };
  }
};

Front* fresh_front(std::unique_ptr<Front>& holder) {
  web::ServerOptions options;
  options.head_ms = 300;
  holder = std::make_unique<Front>(options);
  holder->auth().set_attempt_token_is_known([](const web::AttemptToken&) { return true; });  // what was sent is shown
  return holder.get();
}

}  // namespace

TEST_CASE("traps: our front falls into none of them") {
  for (const auto& row : Traps<Front>::rows()) {
    INFO(row.what);
    std::unique_ptr<Front> holder;
    CHECK_FALSE(row.spring(*fresh_front(holder)));
  }
}

TEST_CASE("traps: a bare cpp-httplib falls into each of them, so that they show something") {
  for (const auto& row : Traps<Bare>::rows()) {
    INFO(row.what);
    Bare bare;
    CHECK(row.spring(bare));
  }
}

TEST_CASE("traps: a second process does not share the port") {
  const Bare bare;
  CHECK(bare.shares_its_port());
  const web::Listener first = web::Listener::tcp("127.0.0.1:0");
  CHECK_THROWS_AS(web::Listener::tcp(first.name()), ConfigFault);
}
