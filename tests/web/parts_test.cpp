// The smaller parts: listener, pool, router, queries, problem documents.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "tests/support/eventually.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"
#include "web/listener.h"
#include "web/problem.h"
#include "web/router.h"
#include "web/task_queue.h"

using namespace bide;
using namespace bide::test;
using namespace bide::web;
using namespace std::chrono_literals;

TEST_CASE("listener: a socket of mode 0660 whose file goes with it") {
  const TempDir folder;
  const std::string path = folder.str("new/bide.sock");
  {
    const Listener listener = Listener::unix_socket(path);
    struct stat there {};
    REQUIRE(::stat(path.c_str(), &there) == 0);
    CHECK((there.st_mode & 0777) == 0660);
    CHECK(S_ISSOCK(there.st_mode));
    CHECK_THROWS_AS(Listener::unix_socket(path), ConfigFault);  // it answers: it is somebody's
    CHECK(::stat(path.c_str(), &there) == 0);
  }
  struct stat there {};
  CHECK(::stat(path.c_str(), &there) != 0);
}

TEST_CASE("listener: a dead agent's socket is removed, any other file is not") {
  const TempDir folder;
  const std::string path = folder.str("bide.sock");
  {
    Listener listener = Listener::unix_socket(path);
    REQUIRE(::link(path.c_str(), folder.str("kept").c_str()) == 0);
  }
  REQUIRE(::rename(folder.str("kept").c_str(), path.c_str()) == 0);  // as after a kill
  const Listener again = Listener::unix_socket(path);
  CHECK(again.is_unix());
  write_file(folder / "plain", "precious");
  CHECK_THROWS_AS(Listener::unix_socket(folder.str("plain")), ConfigFault);
  CHECK(read_file(folder / "plain") == "precious");
}

TEST_CASE("listener: the flags of what it accepts") {
  const Listener listener = Listener::tcp("127.0.0.1:0");
  const HttpClient client = HttpClient::tcp(listener.port());
  Peer peer;
  Fd fd;
  eventually([&] { return (fd = listener.accept(peer)).valid(); }, "the connection is there");
  int value = 0;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &value, &size) == 0);
  CHECK(value == 1);
  CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(listener.fd(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(::getsockopt(listener.fd(), SOL_SOCKET, SO_REUSEPORT, &value, &size) == 0);
  CHECK(value == 0);
  REQUIRE(::getsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &value, &size) == 0);
  CHECK(value == 1);
}

TEST_CASE("listener: addresses that are none") {
  for (const char* bad :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "example.org:80", "[::1:80", ":80"}) {
    INFO(bad);
    CHECK_THROWS_AS(Listener::tcp(bad), ConfigFault);
  }
  CHECK_THROWS_AS(Listener::unix_socket("/tmp/" + std::string(200, 'x')), ConfigFault);
}

TEST_CASE("listener: one that was handed over") {
  const TempDir folder;
  Listener first = Listener::tcp("127.0.0.1:0");
  const Listener again = Listener::adopt(Fd(::dup(first.fd())));
  CHECK(again.port() == first.port());
  CHECK(again.rules({"Box.Lan"}).hosts.back() == "box.lan:" + std::to_string(first.port()));
  CHECK_THROWS_AS(Listener::adopt(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))), ConfigFault);
}

TEST_CASE("task queue: its bounds are hard, and threads leave when there is nothing to do") {
  std::atomic<bool> go{false};
  std::atomic<int> done{0};
  TaskQueue queue(2, 3, 20ms);
  const auto release = std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)>(&go, [](auto* at) {
    at->store(true);
    at->notify_all();
  });
  const auto task = [&] {
    go.wait(false);
    ++done;
  };
  for (int i = 0; i < 2; ++i) REQUIRE(queue.try_run(task));
  eventually([&] { return queue.busy() == 2; }, "both threads work");
  for (int i = 0; i < 3; ++i) REQUIRE(queue.try_run(task));
  CHECK_FALSE(queue.try_run(task));
  go = true;
  go.notify_all();
  eventually([&] { return done.load() == 5; }, "all are done");
  eventually([&] { return queue.busy() == 0; }, "nobody works");
  for (int i = 0; i < 50; ++i) {  // threads come and go between these
    const int before = done.load();
    REQUIRE(queue.try_run(task));
    eventually([&] { return done.load() == before + 1; }, "it is done");
    if (i % 10 == 0) eventually([&] { return queue.threads() == 0; }, "the threads have left");
  }
  queue.close();
  CHECK_FALSE(queue.try_run(task));
}

TEST_CASE("task queue: quick tasks share few threads, and none waits behind one that is not quick after all") {
  std::atomic<bool> go{false};
  std::atomic<int> done{0};
  TaskQueue queue(4, 3, 1s, 2);
  const auto release = std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)>(&go, [](auto* at) {
    at->store(true);
    at->notify_all();
  });
  const auto slow = [&] {
    go.wait(false);
    ++done;
  };
  const auto quick = [&] { ++done; };
  for (int i = 0; i < 2; ++i) REQUIRE(queue.try_run_quick(slow, 100));
  eventually([&] { return queue.busy() == 2; }, "both are worked at");
  REQUIRE(queue.try_run_quick(quick, 100));
  CHECK(queue.threads() == 2);                        // no third one: these two are to be done soon
  CHECK(queue.look(100 + limits::kQuickLateMs - 1));  // it waits, not for long yet
  CHECK(queue.threads() == 2);
  CHECK(done.load() == 0);
  (void)queue.look(100 + limits::kQuickLateMs);
  CHECK(queue.threads() == 3);
  eventually([&] { return done.load() == 1; }, "it is done");
  CHECK_FALSE(queue.look(1'000));
  CHECK(queue.threads() == 3);
  REQUIRE(queue.try_run(slow));  // a write has a thread at once
  eventually([&] { return queue.busy() == 3; }, "the write is worked at");
  // Bounds: a fourth thread may come, and three may wait.
  for (int i = 0; i < 4; ++i) REQUIRE(queue.try_run_quick(quick, 100));
  CHECK_FALSE(queue.try_run_quick(quick, 100));
  go = true;
  go.notify_all();
  eventually([&] { return done.load() == 8; }, "all are done");
  eventually([&] { return queue.busy() == 0; }, "nobody works");

  TaskQueue many(16, 5'000, 1s, 2);
  done = 0;
  for (int i = 0; i < 2'000; ++i) REQUIRE(many.try_run_quick(quick, 100));
  eventually([&] { return done.load() == 2'000; }, "all are done");
  CHECK(many.threads() <= 2);
  many.close();
  CHECK_FALSE(many.try_run_quick(quick, 100));
}

TEST_CASE("task queue: quick and other tasks from many sides are all done") {
  std::atomic<int> done{0};
  TaskQueue queue(8, 100'000, 0ms, 2);  // threads come and go all the time
  std::vector<std::thread> sides;
  for (int side = 0; side < 4; ++side) {
    sides.emplace_back([&queue, &done, side] {
      for (int i = 0; i < 5'000; ++i) {
        const auto task = [&done] { ++done; };
        const bool taken = (i + side) % 3 == 0 ? queue.try_run(task) : queue.try_run_quick(task, 100);
        if (!taken) --done;  // would be seen: none is refused here
      }
    });
  }
  for (std::thread& side : sides) side.join();
  eventually([&] { return done.load() == 20'000; }, "all are done");  // without a look: none took long
}

TEST_CASE("task queue: what is queued runs before it closes") {
  std::atomic<int> done{0};
  {
    TaskQueue queue(1, 100, 1s);
    for (int i = 0; i < 100; ++i) REQUIRE(queue.try_run([&] { ++done; }));
  }
  CHECK(done.load() == 100);
}

TEST_CASE("router: literals before captures, methods, decoding") {
  Router router;
  const auto handler = [](Request&) { return Response{}; };
  router.get("/v1/runs/{id}", kRead, handler);
  router.get("/v1/runs/new", kRead, handler);
  router.post("/v1/runs/{id}/signals/{name}", kStart, handler);
  router.open("/", handler);
  const auto found = [&router](const char* method, const char* path) -> std::string {
    const auto match = router.match(method, path);
    if (const auto* matched = std::get_if<Matched>(&match)) {
      std::string text = matched->route->pattern;
      for (const auto& [name, value] : matched->captures) text += " " + name + "=" + value;
      return text;
    }
    if (const auto* other = std::get_if<NoSuchMethod>(&match)) return "405 " + other->allow;
    return "404";
  };
  CHECK(found("GET", "/v1/runs/new") == "/v1/runs/new");
  CHECK(found("GET", "/v1/runs/12") == "/v1/runs/{id} id=12");
  CHECK(found("HEAD", "/v1/runs/12") == "/v1/runs/{id} id=12");
  CHECK(found("POST", "/v1/runs/1/signals/a%2Fb") == "/v1/runs/{id}/signals/{name} id=1 name=a/b");
  CHECK(found("POST", "/v1/runs/1") == "405 GET, HEAD, OPTIONS");
  CHECK(found("get", "/v1/runs/1") == "405 GET, HEAD, OPTIONS");
  CHECK(found("GET", "/") == "/");
  for (const char* none : {"/v1/runs/", "/v1/runs", "/v1/runs/1/", "//", "/v1/runs/%ff", "/v1/../v1/runs/1", "*"}) {
    INFO(none);
    CHECK(found("GET", none) == "404");
  }
  CHECK_THROWS_AS(router.get("/v1/runs/{id}", kRead, handler), Bug);
}

TEST_CASE("requests: queries and Prefer") {
  const auto pairs = parse_query("a=1&b=%20x+y&&c&=d");
  REQUIRE(pairs);
  REQUIRE(pairs->size() == 4);
  CHECK((*pairs)[1].second == " x+y");
  CHECK((*pairs)[2].first == "c");
  CHECK_FALSE(parse_query("a=%ff"));
  CHECK_FALSE(parse_query("a=%00"));
  CHECK(prefer_wait_ms("wait=30") == 30'000);
  CHECK(prefer_wait_ms("respond-async, Wait = 5; x=1") == 5'000);
  CHECK(prefer_wait_ms("wait=9999") == limits::kPreferWaitMs);
  CHECK(prefer_wait_ms("wait=-1") == 0);
  CHECK(prefer_wait_ms("return=minimal") == 0);
}

TEST_CASE("problems: the document says what happened, what to do and where to read on") {
  Problem refused = problem("invalid", "no \"workflow\"", "bide workflows");
  refused.errors.push_back({"/input/a", "must be a number"});
  refused.extra = "\"nearest\":\"rollout\"";
  const Response response = problem_response(refused);
  CHECK(response.status == 422);
  CHECK(response.content_type == "application/problem+json");
  const auto document = nlohmann::json::parse(response.body);
  CHECK(document["type"] == "/errors/invalid");
  CHECK(document["code"] == "invalid");
  CHECK(document["hint"] == "bide workflows");
  CHECK(document["errors"][0]["pointer"] == "/input/a");
  CHECK(document["nearest"] == "rollout");
  CHECK(problem_response(problem("no_such_code_ever", "x")).status == 500);
}

TEST_CASE("problems: every code that stands in the sources is in the table") {
  const std::string mark = "problem(\"";
  int found = 0;
  for (const char* folder : {"agent", "db", "web"}) {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(std::string(BIDE_SOURCE_DIR) + "/" + folder)) {
      if (file.path().extension() != ".cpp") continue;
      const std::string text = read_file(file.path());
      for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
        const std::size_t begin = at + mark.size();
        const std::string code = text.substr(begin, text.find('"', begin) - begin);
        INFO(file.path().string() << ": " << code);
        CHECK(problem_kind(code).code == code);
        ++found;
      }
    }
  }
  CHECK(found > 40);
}

TEST_CASE("problems: each code has a page, as HTML and as JSON") {
  for (const ProblemKind& kind : problem_kinds()) {
    INFO(kind.code);
    CHECK(kind.status >= 400);
    CHECK(kind.meaning.size() > 20);
    CHECK(kind.action.size() > 5);
    Request request;
    request.captures = {{"code", std::string(kind.code)}};
    CHECK(nlohmann::json::parse(problem_page(request).body)["code"] == std::string(kind.code));
    request.fields = {{"accept", "text/html"}};
    CHECK(problem_page(request).body.find(std::string(kind.code)) != std::string::npos);
  }
  Request request;
  request.captures = {{"code", "<script>"}};
  CHECK(problem_page(request).status == 404);
}
