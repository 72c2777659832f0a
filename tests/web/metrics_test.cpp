// /metrics: the form, the number of series, the board that asks for them, and each family moves after its cause.
#include <catch2/catch.hpp>

#include <algorithm>
#include <latch>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/flow/context.h"
#include "tests/support/eventually.h"
#include "tests/support/openmetrics.h"
#include "tests/support/vfs_shim.h"
#include "tests/web/front.h"
#include "tests/web/program_front.h"
#include "tests/web/sse_client.h"

using namespace bide;
using namespace bide::test;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

constexpr const char* kForm = "application/openmetrics-text; version=1.0.0; charset=utf-8";

Exposition read(const AgentFront& front) {
  const HttpAnswer answer = front.ask("GET", "/metrics");
  REQUIRE(answer.status == 200);
  return parse_openmetrics(answer.body);
}

// Which families were seen to move, each by its cause.
class Moves {
 public:
  explicit Moves(const AgentFront& front) : front_(front) {}

  // `cause` makes the sample grow by `by` at least.
  template <class Cause>
  void after(const std::string& family, const std::string& sample, Cause cause, double by = 1) {
    INFO(family << sample);
    const Exposition before = read(front_);
    REQUIRE(before.contains(family));
    REQUIRE(before.at(family).samples.contains(sample));
    cause();
    const double was = before.at(family).samples.at(sample);
    (void)holds_within(20s, [&] { return read(front_).at(family).samples.at(sample) >= was + by; });
    CHECK(read(front_).at(family).samples.at(sample) >= was + by);
    moved_.insert(family);
  }
  [[nodiscard]] const std::set<std::string>& moved() const { return moved_; }

 private:
  const AgentFront& front_;
  std::set<std::string> moved_;
};

std::int64_t start(const AgentFront& front, const std::string& body) {
  const HttpAnswer answer = front.ask("POST", "/v1/runs", body);
  INFO(answer.body);
  REQUIRE(answer.status == 201);
  return json::int_member(answer.body, "id").value();
}
void post(const AgentFront& front, const std::string& path, const std::string& body = "{}") {
  const HttpAnswer answer = front.ask("POST", path, body);
  INFO(path << ": " << answer.body);
  REQUIRE(answer.status / 100 == 2);
}

// The handler over a store whose clock or disk is not well, without a server.
struct Ill {
  Rig rig;
  web::Sessions sessions{rig.clock, rig.random};
  web::Router router;
  std::optional<web::Ports> ports;

  Ill() {
    rig.add("echo", [](flow::Context& c) { return c.input(); });
  }
  [[nodiscard]] Exposition metrics() {
    if (!ports) {
      ports.emplace(web::Ports{*rig.commands, rig.clock, rig.random, sessions, "0.0.0-test", "", {}, {}});
      web::add_metrics_routes(router, *ports);
    }
    auto matched = router.match("GET", "/metrics");
    web::Request request;
    return parse_openmetrics(std::get<web::Matched>(matched).route->handler(request).body);
  }
};

}  // namespace

TEST_CASE("metrics: the reader of OpenMetrics takes nothing that is none") {
  const std::string head = "# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes what\n";
  CHECK(parse_openmetrics(head + "a_bytes{x=\"1\\\"\"} 2.5\n# EOF\n").at("a_bytes").samples.at("{x=\"1\\\"\"}") == 2.5);
  for (const std::string& bad :
       {head, head + "a_bytes 1\n", head + "a_bytes 1\n# EOF", head + "a_bytes 1\n# EOF\n\n", head + "b 1\n# EOF\n",
        head + "a_bytes x\n# EOF\n", head + "a_bytes 1\na_bytes 2\n# EOF\n", head + "a_bytes{x} 1\n# EOF\n",
        head + "a_bytes 1\n" + head + "# EOF\n", std::string("# TYPE a counter\na 1\n# EOF\n"),
        std::string("# TYPE a counter\na_total -1\n# EOF\n"), std::string("# TYPE a gauge\n# UNIT a bytes\n# EOF\n"),
        std::string("a 1\n# EOF\n"), std::string("# TYPE a odd\n# EOF\n")}) {
    INFO(bad);
    CHECK_THROWS(parse_openmetrics(bad));
  }
}

TEST_CASE("metrics: each family moves after its cause, and there is none without one") {
  Program program;
  AgentFront& front = program.front;
  Moves moves(front);
  const Exposition first = read(front);
  CHECK(first.at("bide_build").samples.at("_info{version=\"0.0.0-test\"}") == 1);
  CHECK(first.at("bide_runs").samples.at("{state=\"running\"}") == 1);  // the program's
  std::int64_t gate = 0;
  std::int64_t wait = 0;
  moves.after("bide_runs", "{state=\"waiting\"}", [&] { gate = start(front, R"({"workflow":"gate"})"); });
  moves.after("bide_runs", "{state=\"paused\"}", [&] { post(front, "/v1/runs/" + std::to_string(gate) + "/pause"); });
  post(front, "/v1/runs/" + std::to_string(gate) + "/resume");
  moves.after("bide_runs", "{state=\"queued\"}",
              [&] { start(front, R"({"workflow":"echo","run_at":"2099-01-01T00:00:00Z"})"); });
  moves.after("bide_runs", "{state=\"ended\"}", [&] { start(front, R"({"workflow":"echo"})"); });
  moves.after("bide_commits", "_total", [&] { start(front, R"({"workflow":"echo"})"); });
  moves.after("bide_jobs", "_total", [&] { start(front, R"({"workflow":"echo"})"); });
  moves.after("bide_wal_bytes", "", [&] { start(front, R"({"workflow":"echo"})"); });

  // A person's part.
  moves.after("bide_waits_pending", "{kind=\"approval\"}", [&] {
    gate = start(front, R"({"workflow":"gate"})");
    wait = front.wait_of(gate);
  });
  moves.after(
      "bide_oldest_wait_seconds", "", [&] { front.rig.clock.advance(90'500); }, 90.5);
  moves.after("bide_audit_rows", "",
              [&] { post(front, "/v1/waits/" + std::to_string(wait) + "/resolve", R"({"decision":"approved"})"); });
  for (const char* kind : {"question", "reconcile"}) {
    moves.after("bide_waits_pending", "{kind=\"" + std::string(kind) + "\"}", [&] {
      wait = front.wait_of(start(front, R"({"workflow":"gate"})"));
      front.rig.store->write([&](db::Tx& tx) {
        db::Query(tx, "UPDATE waits SET kind = ?2 WHERE id = ?1").bind(WaitId(wait), std::string_view(kind)).run();
      });
    });
  }

  // What goes out, and what cannot; an app that fails.
  moves.after("bide_outbox_rows", "{state=\"due\"}", [&] {
    post(front, "/v1/workflows", R"({"name":"app","version":"1","url":"https://app.example/wake"})");
    start(front, R"({"workflow":"app"})");
    front.rig.executor->ring();
  });
  moves.after(
      "bide_outbox_lag_seconds", "", [&] { front.rig.clock.advance(7'000); }, 7);
  moves.after("bide_runs", "{state=\"failed\"}", [&] {
    const HttpAnswer given = front.ask("POST", "/v1/attempts", R"({"workflows":["app"]})");
    REQUIRE(given.status == 200);
    CHECK(front
              .ask("POST", json::string_member(given.body, "attempt").value() + "finish",
                   R"({"error":{"code":"Broken","message":"no"}})",
                   "Authorization: Bearer " + json::string_member(given.body, "token").value() + "\r\n")
              .status == 200);
  });
  moves.after("bide_outbox_rows", "{state=\"parked\"}", [&] {
    front.rig.store->write([](db::Tx& tx) {
      db::Query(tx, "UPDATE outbox SET parked_at = created_at WHERE id = (SELECT min(id) FROM outbox)").run();
    });
  });

  // What runs in the background, and who listens.
  moves.after("bide_sweep_passes", "_total", [&] { post(front, "/v1/sweep"); });
  front.rig.sweep->add("hooks", [](TimeMs) -> std::int64_t { throw std::runtime_error("no"); });
  moves.after("bide_sweep_errors", "_total", [&] { post(front, "/v1/sweep"); });
  moves.after("bide_clock_steps", "_total", [&] {
    front.rig.clock.step_wall(-120'000);
    post(front, "/v1/sweep");
  });
  moves.after("bide_clock_steps", "_total", [&] { post(front, "/v1/clock/accept"); });
  {
    std::latch begun(1);
    std::latch go(1);
    front.rig.store->submit(
        [&](db::Tx&) {
          begun.count_down();
          go.wait();
        },
        [](const std::optional<std::string>&) {});
    begun.wait();
    moves.after("bide_writer_queue", "", [&] {
      for (int i = 0; i < 3; ++i) front.rig.store->submit([](db::Tx&) {}, [](const std::optional<std::string>&) {});
    });
    go.count_down();
    front.rig.store->flush_riders();  // the latches are looked at until that job is over
  }
  std::vector<SseClient> readers;
  moves.after("bide_streams", "", [&] { readers.emplace_back(front.client(), "/v1/events"); });
  moves.after("bide_foreign_writer_seen", "", [&] {
    front.rig.exec("UPDATE runs SET labels = '{\"by\":\"hand\"}' WHERE id = 1");
    start(front, R"({"workflow":"echo"})");
  });
  moves.after("bide_draining", "", [&] { post(front, "/v1/drain"); });

  // The rest has causes of its own kind, below.
  std::set<std::string> known = moves.moved();
  known.insert({"bide_build", "bide_clock_held", "bide_storage_full", "bide_streams_refused"});
  for (const auto& [family, what] : read(front)) {
    INFO(family);
    CHECK(known.erase(family) == 1);
    CHECK_FALSE(what.help.empty());
    CHECK((family.find("_seconds") == std::string::npos || what.unit == "seconds"));
  }
  CHECK(known.empty());
}

TEST_CASE("metrics: a clock that is held, a disk that is full, and readers beyond the bound show") {
  {
    Ill ill;
    ill.rig.start("echo");
    ill.rig.clock.step_wall(-600'000);
    ill.rig.restart();
    CHECK(ill.metrics().at("bide_clock_held").samples.at("") == 1);
    (void)ill.rig.commands->accept_clock(Rig::person());
    CHECK(ill.metrics().at("bide_clock_held").samples.at("") == 0);
    CHECK(ill.metrics().at("bide_clock_steps").samples.at("_total") == 1);
  }
  {
    VfsShim disk("metrics-full");
    Ill ill;
    ill.rig.vfs = disk.name();
    ill.rig.start("echo");
    CHECK(ill.metrics().at("bide_storage_full").samples.at("") == 0);
    disk.fail({.op = DiskOp::write, .full = true, .for_ever = true});
    CHECK_THROWS_AS(ill.rig.start("echo"), StorageFull);
    CHECK(ill.metrics().at("bide_storage_full").samples.at("") == 1);
  }
  web::StreamBounds bounds;
  bounds.streams = 1;
  AgentFront front({}, bounds);
  SseClient reader(front.client(), "/v1/events");
  CHECK(reader.next()->event == "ready");
  CHECK(front.ask("GET", "/v1/events", {}, "Accept: text/event-stream\r\n").status == 503);
  CHECK(read(front).at("bide_streams_refused").samples.at("_total") == 1);
}

TEST_CASE("metrics: no series grows with what users do, and the board asks for nothing that is not there") {
  AgentFront front;
  front.until(start(front, R"({"workflow":"echo"})"), "completed");
  front.until(start(front, R"({"workflow":"gate","mission":"secret-name"})"), "waiting");
  const HttpAnswer answer = front.ask("GET", "/metrics");
  CHECK(*answer.field("content-type") == kForm);
  const std::string& text = answer.body;
  CHECK(text.find("gate") == std::string::npos);
  CHECK(text.find("secret-name") == std::string::npos);
  HttpClient nobody = front.page();
  CHECK(nobody.ask("GET", "/metrics").status == 401);
  const std::string board = read_file(std::string(kSourceDirectory) + "/packaging/grafana.json");
  int asked = 0;
  for (std::size_t name = board.find("bide_"); name != std::string::npos; name = board.find("bide_", name + 1)) {
    const std::string sample = board.substr(name, board.find_first_of("{[) \"", name) - name);
    INFO(sample);
    CHECK((text.find("\n" + sample + " ") != std::string::npos || text.find("\n" + sample + "{") != std::string::npos));
    ++asked;
  }
  CHECK(asked > 15);
  for (int i = 0; i < 20; ++i) start(front, R"({"workflow":"gate","mission":"m)" + std::to_string(i) + "\"}");
  const std::string later = front.ask("GET", "/metrics").body;
  CHECK(std::count(later.begin(), later.end(), '\n') == std::count(text.begin(), text.end(), '\n'));
}
