// Outbox: what is new, what comes back later, what is damaged, and wakes of remote runs [O2, O5, O7, F05, F07].
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "tests/work/outbox_box.h"

namespace bide {
namespace {

using test::MemoryTransport;
using Box = test::OutboxBox;

TEST_CASE("[O2] new rows are tried in the order of their transactions, and what has no room is due at once") {
  Box box;
  box.open();
  box.store->write([&](db::Tx& tx) {
    for (int i = 0; i < 7; ++i) (void)box.row(tx, "http://a.example/", std::to_string(i));
  });
  box.deliver();
  std::string order;
  for (const auto& one : box.transport.sent()) order += one.body;
  CHECK(order == "0123456");
  box.transport.forget();
  box.store->write([&](db::Tx& tx) {
    for (std::size_t i = 0; i < limits::kFreshRows + 10; ++i) (void)box.row(tx, "http://a.example/", "1");
  });
  box.deliver();
  const std::int64_t due =
      box.number("SELECT count(*) FROM outbox WHERE next_try_at <= " + std::to_string(box.store->now()));
  CHECK(due >= 10);  // not only in 30 s
  for (int i = 0; i < 100 && box.rows() > 0; ++i) box.pass();
  CHECK(box.rows() == 0);
  CHECK(box.transport.count() == limits::kFreshRows + 10);  // none twice
}

TEST_CASE("[O5] no network at all counts for nothing") {
  Box box;
  box.open();
  const auto id = box.write();
  box.transport.answers([](const work::Envelope&) {
    return work::Answered{work::Answered::Kind::no_network, 0, "network is unreachable", {}};
  });
  box.deliver();
  for (int i = 0; i < 1'000; ++i) {
    box.advance(5'000);
    box.pass();
  }
  CHECK(box.read(id)->tries == 0);
  CHECK_FALSE(box.read(id)->parked_at);
  box.transport.answers({});
  box.advance(5'000);
  box.pass();
  CHECK(box.rows() == 0);
}

TEST_CASE("[F07] come back later: both forms, the cap, rubbish, 410, redirects, and rows that fail together") {
  Box box;
  box.open();
  const TimeMs now = [&] {
    box.advance(30'000);
    return box.store->now();
  }();
  struct Case {
    const char* name;
    work::Answered answer;
    TimeMs least;
    TimeMs most;
    bool parked;
  };
  // The box's clock stands at 2027-01-01T00:00:30Z.
  const std::vector<Case> cases = {
      {"seconds", MemoryTransport::status(429, "120"), 120'000, 120'000, false},
      {"date", MemoryTransport::status(503, "Fri, 01 Jan 2027 00:02:00 GMT"), 90'000, 90'000, false},
      {"rfc850", MemoryTransport::status(503, "Friday, 01-Jan-27 00:02:00 GMT"), 90'000, 90'000, false},
      {"asctime", MemoryTransport::status(503, "Fri Jan  1 00:02:00 2027"), 90'000, 90'000, false},
      {"cap", MemoryTransport::status(429, "99999999"), 3'600'000, 3'600'000, false},
      {"huge", MemoryTransport::status(429, "99999999999999999999"), 5'000, 5'000, false},
      {"negative", MemoryTransport::status(429, "-5"), 5'000, 5'000, false},
      {"rubbish", MemoryTransport::status(503, "abc"), 5'000, 5'000, false},
      {"past", MemoryTransport::status(503, "Fri, 01 Jan 2021 00:02:00 GMT"), 5'000, 5'000, false},
      {"gone", MemoryTransport::status(410), 0, 0, true},
      {"redirect", MemoryTransport::status(302), 5'000, 5'000, false},
  };
  std::map<std::string, DeliveryId> ids;
  for (const Case& one : cases) ids[one.name] = box.write_quietly("http://" + std::string(one.name) + ".example/");
  box.exec("UPDATE outbox SET next_try_at = 0");
  box.transport.answers([&](const work::Envelope& e) {
    for (const Case& one : cases) {
      if (e.url.find(one.name) != std::string::npos) return one.answer;
    }
    return MemoryTransport::status(500);
  });
  box.pass();
  CHECK(box.transport.count() == cases.size());  // no second request for the redirect either
  for (const Case& one : cases) {
    INFO(one.name);
    const auto row = box.read(ids[one.name]).value();
    CHECK(row.tries == 1);
    CHECK(row.parked_at.has_value() == one.parked);
    if (one.parked) continue;
    CHECK(row.next_try_at - now >= one.least);
    CHECK(row.next_try_at - now <= one.most);
  }
  // 100 rows of one destination that fail in the same second.
  for (int i = 0; i < 100; ++i) (void)box.write_quietly("http://together.example/");
  box.exec("UPDATE outbox SET next_try_at = 0 WHERE lane = 'http://together.example'");
  box.pass();
  CHECK(box.number("SELECT count(*) FROM outbox WHERE lane = 'http://together.example' AND tries = 1") == 100);
  CHECK(box.number("SELECT max(n) FROM (SELECT count(*) AS n FROM outbox WHERE lane = 'http://together.example' GROUP "
                   "BY next_try_at / 1000)") <= 10);
  CHECK(box.number("SELECT min(next_try_at) FROM outbox WHERE lane = 'http://together.example'") - now >= 4'000);
}

TEST_CASE("[F05] damaged rows park at once with their reason, 500 good ones behind them go out in order") {
  Box box;
  box.open();
  const auto torn = box.write_quietly();
  const auto odd = box.write_quietly();
  std::string sent;
  for (int i = 0; i < 500; ++i) (void)box.write_quietly("http://a.example/", std::to_string(i));
  box.exec("UPDATE outbox SET request = '{\"a\":' WHERE id = " + std::to_string(torn.value));
  box.exec("UPDATE outbox SET destination = 'foo://x', lane = 'foo://x' WHERE id = " + std::to_string(odd.value));
  box.transport.answers([](const work::Envelope& e) {
    if (!e.url.starts_with("http")) return work::Answered{work::Answered::Kind::never, 0, "no http URL", {}};
    return MemoryTransport::status(200);
  });
  box.restart();
  for (int i = 0; i < 6; ++i) {
    (void)box.sweep->pass();
    CHECK(box.deliverer->in_flight() <= 2 * limits::kLaneRows);
    box.deliver();
  }
  std::vector<int> order;
  for (const auto& one : box.transport.sent()) {
    if (one.url == "http://a.example/") order.push_back(std::stoi(one.body));
  }
  CHECK(order.size() == 500);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(box.rows() == 2);
  CHECK(box.deliverer->parked() == 2);
  CHECK(box.read(torn)->last_error->find("not JSON") != std::string::npos);
  CHECK(box.read(odd)->last_error == "no http URL");
}

TEST_CASE("[N8] a parked wake of a queued remote run gets a new row after 60 s, and the parked one stays") {
  Box box;
  box.open();
  const RunId run = box.store->write([](db::Tx& tx) {
    const WorkflowId flow = kernel::ensure_workflow(tx, "far");
    kernel::StartRun start;
    start.workflow = flow;
    start.version = kernel::ensure_version(tx, flow, "1", kernel::WorkflowKind::remote,
                                           R"({"url":"http://app.example/wake"})", tx.now());
    start.uid = "far-1";
    start.created_by = "ada";
    const RunId made = std::get<kernel::RunStarted>(kernel::start_run(tx, start, tx.now())).run;
    CHECK(kernel::write_wake(tx, made, tx.now()));
    return made;
  });
  box.transport.answers([](const work::Envelope&) { return MemoryTransport::status(410); });
  box.deliver();
  CHECK(box.number("SELECT count(*) FROM outbox WHERE kind = 'wake' AND parked_at IS NOT NULL") == 1);
  box.transport.answers({});
  box.transport.forget();
  box.advance(59'000);
  box.pass();
  CHECK(box.transport.count() == 0);
  box.advance(1'000);
  box.pass();
  CHECK(box.transport.count() == 1);
  CHECK(json::int_member(box.transport.sent()[0].body, "run") == run.value);
  CHECK(box.number("SELECT count(*) FROM outbox WHERE kind = 'wake' AND parked_at IS NOT NULL") == 1);
  // Delivered, and still nobody came for the run: again with W5's backoff, at 30, 90, 210 s …
  std::vector<std::int64_t> again;
  const TimeMs begin = box.store->now();
  box.transport.forget();
  for (int i = 0; i < 60; ++i) {
    box.advance(5'000);
    const std::size_t before = box.transport.count();
    box.pass();
    if (box.transport.count() > before) again.push_back((box.store->now() - begin) / 1000);
  }
  CHECK(again == std::vector<std::int64_t>{30, 90, 210});
  CHECK(box.transport.keys().size() == 3);
  // An app that is away for long leaves one parked row, not one every time.
  box.transport.answers([](const work::Envelope&) { return MemoryTransport::status(410); });
  box.transport.forget();
  for (int i = 0; i < 10; ++i) {
    box.advance(600'000);
    box.pass();
  }
  CHECK(box.transport.count() == 10);
  const auto newest = box.number("SELECT max(id) FROM outbox WHERE kind = 'wake'");
  CHECK(box.number("SELECT count(*) FROM outbox WHERE kind = 'wake' AND id < " + std::to_string(newest)) == 1);
  CHECK(box.number("SELECT count(*) FROM events WHERE kind = 'delivery.dropped'") >= 9);  // nothing goes unseen
  box.transport.answers({});
  // A run that goes on needs none.
  box.exec("UPDATE runs SET paused_at = 1 WHERE id = " + std::to_string(run.value));
  box.advance(1'000'000);
  box.transport.forget();
  box.pass();
  CHECK(box.transport.count() == 0);
}

}  // namespace
}  // namespace bide
