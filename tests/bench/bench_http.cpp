// What the front costs: wrk on GET of a run and on POST of a decision, against handlers of a bare cpp-httplib that give
// as many bytes; and how long a request takes while readers of events come and vanish.
#include <httplib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/fd.h"
#include "agent/base/json.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_agent.h"

namespace bide::bench {
namespace {

constexpr int kConnections = 8;  // as many as the bare server has threads: each of its connections owns one
constexpr const char* kGate = "#!/bin/sh\nset -eu\nbide wait approval 'May it go?' --name go\nbide result done:=true\n";

// The server that the package makes by itself, but for what only makes it slow: Nagle, and 5 requests a connection.
class Bare {
 public:
  Bare(std::string get, std::string post) {
    server_.set_tcp_nodelay(true);
    server_.set_keep_alive_max_count(1'000'000'000);
    server_.new_task_queue = [] { return new httplib::ThreadPool(kConnections); };
    server_.Get("/get", [get = std::move(get)](const httplib::Request&, httplib::Response& response) {
      response.set_content(get, "application/json");
    });
    server_.Post("/post", [post = std::move(post)](const httplib::Request&, httplib::Response& response) {
      response.set_content(post, "application/json");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~Bare() {
    server_.stop();
    thread_.join();
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

struct Wrk {
  double a_second = 0;
  double p99_us = 0;
};

double in_us(const std::string& text) {
  char unit[8] = {};
  double value = 0;
  if (std::sscanf(text.c_str(), "%lf%7s", &value, unit) != 2) return 0;
  if (std::strcmp(unit, "us") == 0) return value;
  return std::strcmp(unit, "ms") == 0 ? value * 1e3 : value * 1e6;
}

// `lua`: a file with the request's method, body and fields.
Wrk wrk(const std::string& url, const std::string& lua, double seconds) {
  const int whole = std::max(1, static_cast<int>(seconds));
  const std::string command = "wrk -t1 -c" + std::to_string(kConnections) + " -d" + std::to_string(whole) +
                              "s --latency -s " + lua + " " + url + " 2>&1";
  FILE* out = ::popen(command.c_str(), "r");
  if (out == nullptr) throw std::runtime_error("wrk cannot be started");
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), out) != nullptr) text += buffer.data();
  if (::pclose(out) != 0) throw std::runtime_error("wrk is needed (apt install wrk); it said: " + text);
  if (text.find("Non-2xx") != std::string::npos) throw std::runtime_error("not all answers were good:\n" + text);
  Wrk found;
  if (const auto at = text.find("Requests/sec:"); at != std::string::npos)
    found.a_second = std::atof(text.c_str() + at + 13);
  if (const auto at = text.find("99%"); at != std::string::npos)
    found.p99_us = in_us(text.substr(text.find_first_not_of(' ', at + 3)));
  return found;
}

std::string lua_file(const std::string& path, const std::string& method, const std::string& body,
                     const std::string& token) {
  std::ofstream out(path);
  out << "wrk.method = '" << method << "'\nwrk.headers['Authorization'] = 'Bearer " << token << "'\n";
  if (!body.empty()) out << "wrk.headers['Content-Type'] = 'application/json'\nwrk.body = '" << body << "'\n";
  return path;
}

struct Side {
  std::string url;
  std::string lua;
  std::vector<double> a_second;
  std::vector<double> p99;
  void turn(double seconds) {
    const Wrk one = wrk(url, lua, seconds);
    a_second.push_back(one.a_second);
    p99.push_back(one.p99_us);
  }
};

// A reader of events; it vanishes with it.
Fd reader(const std::string& socket) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path, sizeof name.sun_path, "%s", socket.c_str());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    throw std::runtime_error("cannot connect to " + socket);
  const std::string request = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) throw std::runtime_error("cannot send");
  return fd;
}

struct Took {
  double p50 = 0;
  double p99 = 0;
};
// One GET after the other until `over`; how long they took.
Took latency(cli::Client& client, const std::string& path, const std::function<bool()>& over) {
  std::vector<double> each;
  while (!over()) {
    const double begin = now_seconds();
    if (!client.get(path).ok()) throw std::runtime_error("a request failed");
    each.push_back((now_seconds() - begin) * 1e6);
  }
  std::sort(each.begin(), each.end());
  return {each[each.size() / 2], each[each.size() * 99 / 100]};
}

}  // namespace

Report http_benchmark(const Options& options) {
  const std::string directory = options.directory + "/bide-bench.tmp";
  Agent agent(directory);
  agent.add("gate", kGate);
  agent.start("127.0.0.1:0");
  const std::string run = agent.run("gate", R"({"what":")" + std::string(200, 'x') + "\"}");
  agent.until(run, "waiting");
  const std::string wait = json::at_pointer(agent.client().get("/v1/waits?status=pending").body, "/items/0/id").value();
  const std::string resolve = "/v1/waits/" + wait + "/resolve";
  const std::string decision = R"({"decision":"approved"})";
  const std::string answer = agent.client().post(resolve, decision).body;
  agent.until(run, "completed");
  const std::string shown = agent.client().get("/v1/runs/" + run).body;
  const Bare bare(shown, answer);
  const std::string get = lua_file(directory + "/get.lua", "GET", "", agent.token());
  const std::string post = lua_file(directory + "/post.lua", "POST", decision, agent.token());
  const std::string url = agent.url();
  // The same decision again: 200, and a row of the audit, durable before it is answered [A6, A7].
  Side sides[] = {{bare.url() + "/get", get, {}, {}},
                  {url + "/v1/runs/" + run, get, {}, {}},
                  {bare.url() + "/post", post, {}, {}},
                  {url + resolve, post, {}, {}}};
  for (int round = 0; round < options.rounds; ++round) {
    for (Side& side : sides) side.turn(options.seconds);
  }
  const auto rate = [&](int i) { return median(sides[i].a_second); };
  const auto p99 = [&](int i) { return median(sides[i].p99); };
  Report report;
  report.title = "HTTP, 8 connections by wrk, against bare handlers of the same size";
  report.figures.push_back({"GET /v1/runs/N / bare handler", rate(1) / rate(0), "", "0.70"});
  report.figures.push_back({"POST …/resolve / bare handler (writes nothing)", rate(3) / rate(2), "", ""});
  report.figures.push_back({"GET /v1/runs/N", rate(1), "a second", ""});
  report.figures.push_back({"bare handler, " + std::to_string(shown.size()) + " bytes", rate(0), "a second", ""});
  report.figures.push_back({"POST …/resolve", rate(3), "a second", ""});
  report.figures.push_back({"bare POST handler, " + std::to_string(answer.size()) + " bytes", rate(2), "a second", ""});
  report.figures.push_back({"GET /v1/runs/N, p99", p99(1), "us", ""});
  report.figures.push_back({"bare handler, p99", p99(0), "us", ""});
  report.figures.push_back({"POST …/resolve, p99", p99(3), "us", ""});
  return report;
}

Report streams_benchmark(const Options& options) {
  constexpr int kStay = 50;
  constexpr int kVanish = 1'000;
  Agent agent(options.directory + "/bide-bench.tmp");
  agent.add("gate", kGate);
  agent.start();
  const std::string path = "/v1/runs/" + agent.run("gate");
  agent.until(path.substr(9), "waiting");
  std::vector<double> quiet_p50;
  std::vector<double> quiet_p99;
  std::vector<double> busy_p50;
  std::vector<double> busy_p99;
  for (int round = 0; round < options.rounds; ++round) {
    const double until = now_seconds() + options.seconds;
    const Took quiet = latency(agent.client(), path, [&] { return now_seconds() > until; });
    std::vector<Fd> stay;
    for (int i = 0; i < kStay; ++i) stay.push_back(reader(agent.socket()));
    std::atomic<bool> over{false};
    std::thread vanishing([&] {
      for (int i = 0; i < kVanish; ++i) {
        (void)reader(agent.socket());
        std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds / kVanish));
      }
      over = true;
    });
    const Took busy = latency(agent.client(), path, [&] { return over.load(); });
    vanishing.join();
    quiet_p50.push_back(quiet.p50);
    quiet_p99.push_back(quiet.p99);
    busy_p50.push_back(busy.p50);
    busy_p99.push_back(busy.p99);
  }
  Report report;
  report.title = "A request while 1000 readers of events come and vanish and 50 stay";
  report.figures.push_back({"p99 meanwhile / p99 alone", median(busy_p99) / median(quiet_p99), "", "2.00 at most"});
  report.figures.push_back({"p50 meanwhile / p50 alone", median(busy_p50) / median(quiet_p50), "", ""});
  report.figures.push_back({"p99 alone", median(quiet_p99), "us", ""});
  report.figures.push_back({"p99 meanwhile", median(busy_p99), "us", ""});
  return report;
}

}  // namespace bide::bench
