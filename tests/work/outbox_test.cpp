// Outbox on the fake clock, with a transport in memory: figures are exact [O1 to O5].
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "tests/support/vfs_shim.h"
#include "tests/work/outbox_box.h"

namespace bide {
namespace {

using test::MemoryTransport;
using Box = test::OutboxBox;
using test::Logged;

TEST_CASE("[N1] killed between the commit and the sending: the first pass sends it without grace, once") {
  Box box;
  box.open();
  const auto id = box.write();
  CHECK(box.transport.count() == 0);
  box.restart();  // what had committed and was not sent
  box.pass();
  CHECK(box.transport.count() == 1);
  CHECK_FALSE(box.read(id));
  box.pass();
  CHECK(box.transport.count() == 1);
}

TEST_CASE("[N2] killed between the delivery and the deletion: sent again under the same key") {
  Box box;
  box.open();
  (void)box.write();
  box.transport.answers([](const work::Envelope&) -> work::Answered { throw test::Died{}; });  // the receiver has it
  CHECK_THROWS_AS(box.deliver(), test::Died);
  box.transport.answers({});
  box.restart();
  box.pass();
  CHECK(box.transport.count() == 2);
  CHECK(box.transport.keys().size() == 1);
  CHECK(box.transport.sent()[0].body == box.transport.sent()[1].body);
  CHECK(box.rows() == 0);
}

TEST_CASE("[N3] a row whose delivery after the commit was dropped is due at 30.0 s, not at 29.9 s") {
  Box box;
  box.open();
  const TimeMs born = box.store->now();
  const auto id = box.write_quietly();
  CHECK(box.read(id)->next_try_at == born + 30'000);
  box.clock.step_wall(-3'600'000);  // somebody sets the wall clock back: nothing moves
  box.advance(29'900);
  CHECK(box.pass() == 0);
  CHECK(box.transport.count() == 0);
  box.advance(100);
  CHECK(box.pass() == 1);
  CHECK(box.transport.count() == 1);
}

TEST_CASE("[N4] the delivery after the commit fails: due at the next pass with tries 0") {
  Box box;
  box.open();
  box.transport.answers([](const work::Envelope&) { return MemoryTransport::refused(); });
  const TimeMs born = box.store->now();
  const auto id = box.write();  // answered before anything was sent
  CHECK(box.transport.count() == 0);
  box.deliver();
  CHECK(box.transport.count() == 1);
  CHECK(box.read(id)->next_try_at == born);
  CHECK(box.read(id)->tries == 0);
  box.transport.answers({});
  CHECK(box.pass() == 1);
  CHECK(box.transport.count() == 2);
  CHECK(box.transport.keys().size() == 1);
  CHECK(box.rows() == 0);
}

TEST_CASE("[N5] a transaction that rolls back after writing a row: no row, no sending, its event's id is used again") {
  Box box;
  box.open();
  const auto event = [&] {
    return box.store->write([](db::Tx& tx) { return kernel::append_event(tx, tx.now(), "x", RunId(), StepId()); });
  };
  const EventId before = event();
  CHECK_THROWS_AS(box.store->write([&](db::Tx& tx) {
    (void)box.row(tx, "http://a.example/", "{}");
    kernel::append_event(tx, tx.now(), "x", RunId(), StepId());
    throw std::runtime_error("no");
  }),
                  std::runtime_error);
  CHECK(event().value == before.value + 1);
  box.deliver();
  box.advance(60'000);
  box.pass();
  CHECK(box.transport.count() == 0);
  CHECK(box.rows() == 0);
}

TEST_CASE(
    "[N6] one row is poison: the pass tries all, it alone is due again in 5 s, the pass right after sends nothing") {
  Box box;
  box.open();
  const auto a = box.write_quietly("http://a.example/", R"("poison")");
  (void)box.write_quietly();
  (void)box.write_quietly();
  box.transport.answers(
      [](const work::Envelope& e) { return MemoryTransport::status(e.body == R"("poison")" ? 500 : 200); });
  box.advance(30'000);
  CHECK(box.pass() == 3);
  CHECK(box.transport.count() == 3);
  CHECK(box.rows() == 1);
  CHECK(box.read(a)->tries == 1);
  CHECK(box.read(a)->next_try_at == box.store->now() + 5'000);
  CHECK(box.pass() == 0);
  CHECK(box.transport.count() == 3);
}

TEST_CASE(
    "[N7] poison for ever: ten tries at exact times, nine warnings, one error, parked, retried afresh by an operator") {
  Box box;
  box.open();
  box.transport.answers([](const work::Envelope&) { return MemoryTransport::status(500); });
  const auto id = box.write_quietly();
  box.advance(30'000);
  const TimeMs begin = box.store->now();
  std::vector<std::int64_t> tried_at;
  Logged log(box.dir);
  for (TimeMs at = 0; at <= 3'600'000; at += 5'000) {
    const std::size_t before = box.transport.count();
    box.pass();
    if (box.transport.count() > before) tried_at.push_back((box.store->now() - begin) / 1000);
    box.advance(5'000);
  }
  CHECK(log.lines("warn outbox.failed") == 9);
  CHECK(log.lines("error outbox.parked") == 1);
  CHECK(tried_at == std::vector<std::int64_t>{0, 5, 15, 35, 75, 155, 315, 635, 1235, 1835});
  CHECK(box.read(id)->tries == 10);
  CHECK(kernel::status_of(*box.read(id)) == kernel::DeliveryStatus::parked);
  CHECK(box.deliverer->parked() == 1);
  CHECK(box.number("SELECT count(*) FROM stuck WHERE what = 'delivery'") == 1);
  CHECK(box.number("SELECT count(*) FROM events WHERE kind = 'delivery.failed'") == 9);
  CHECK(box.number("SELECT count(*) FROM events WHERE kind = 'delivery.parked'") == 1);
  CHECK(box.transport.keys().size() == 1);
  const auto outcome = box.store->write([&](db::Tx& tx) { return kernel::retry_delivery(tx, id, "ada", tx.now()); });
  CHECK(std::holds_alternative<kernel::DeliveryChanged>(outcome));
  CHECK(box.read(id)->tries == 0);
  box.transport.answers({});
  box.pass();
  CHECK(box.transport.count() == 11);
  CHECK(box.transport.keys().size() == 1);
  CHECK(box.rows() == 0);
  CHECK(box.deliverer->parked() == 0);
}

TEST_CASE("[O5] park_after of days: the eleventh try and more, then parked") {
  work::DelivererOptions options;
  options.park_after = 2 * 24 * 3'600'000;
  Box box(options);
  box.open();
  box.transport.answers([](const work::Envelope&) { return MemoryTransport::status(500); });
  const auto id = box.write_quietly();
  box.advance(30'000);
  const TimeMs begin = box.store->now();
  while (!box.read(id)->parked_at && box.store->now() - begin < 3 * 24 * 3'600'000) {
    box.pass();
    box.advance(60'000);
  }
  REQUIRE(box.read(id)->parked_at);
  CHECK(*box.read(id)->parked_at - begin >= options.park_after);
  CHECK(*box.read(id)->parked_at - begin < options.park_after + 700'000);
  CHECK(box.read(id)->tries > 280);
}

TEST_CASE(
    "[N9] the start-up statement that makes untried rows due fails: the door stays shut, the next start runs it") {
  test::VfsShim disk("outbox-start");
  Box box;
  box.vfs = disk.name();
  box.on_fatal = [](const std::string&) {};
  box.open();
  const auto id = box.write_quietly();
  disk.fail({.op = test::DiskOp::write, .nth = 1, .for_ever = true, .suffix = "-wal"});
  CHECK_THROWS_AS(box.deliverer->make_untried_due(), StorageFault);  // what opens the door comes after it
  disk.heal();
  box.restart();
  CHECK(box.read(id)->next_try_at <= box.store->now());
  box.pass();
  CHECK(box.transport.count() == 1);
}

TEST_CASE("[N10] 250 due rows of three destinations, the budget spent after a page: 100 handed out, none twice") {
  work::DelivererOptions options;
  options.budget = 100;
  Box box(options);
  box.open();
  for (int i = 0; i < 250; ++i)
    (void)box.write_quietly("http://" + std::string(1, static_cast<char>('a' + i % 3)) + ".example/");
  box.advance(30'000);
  CHECK(box.pass() == 100);
  CHECK(box.transport.count() == 100);
  CHECK(box.rows() == 150);
  CHECK(box.number("SELECT count(*) FROM outbox WHERE tries = 0") == 150);
  CHECK(box.pass() == 100);
  CHECK(box.pass() == 50);
  CHECK(box.pass() == 0);
  CHECK(box.transport.count() == 250);
  CHECK(box.transport.keys().size() == 250);
  CHECK(box.rows() == 0);
}

TEST_CASE("[O4] a pass that comes while rows are in their lanes does not hand them out again") {
  Box box;
  box.open();
  for (int i = 0; i < 10; ++i) (void)box.write_quietly();
  box.advance(30'000);
  (void)box.sweep->pass();
  (void)box.sweep->pass();
  CHECK(box.deliverer->in_flight() == 10);
  box.deliver();
  CHECK(box.transport.count() == 10);
  CHECK(box.deliverer->in_flight() == 0);
}

TEST_CASE("[N11] closing begins while the second of three rows is in the queue: one is gone, two stay as they were") {
  Box box;
  box.open();
  for (int i = 0; i < 3; ++i) (void)box.write_quietly();
  box.advance(30'000);
  box.transport.answers([&](const work::Envelope&) {
    box.deliverer->begin_closing();
    return MemoryTransport::status(200);
  });
  box.pass();
  CHECK(box.transport.count() == 1);
  CHECK(box.rows() == 2);
  CHECK(box.number("SELECT count(*) FROM outbox WHERE tries = 0 AND last_error IS NULL") == 2);
  CHECK(box.deliverer->in_flight() == 0);
  CHECK_FALSE(box.deliverer->run_one());
  box.transport.answers({});
  box.restart();
  box.pass();
  CHECK(box.transport.count() == 3);
  CHECK(box.rows() == 0);
}

TEST_CASE("[N12] deleting a delivered page fails once: its rows are sent again under the same keys, the pass says so") {
  Box box;
  box.open();
  for (int i = 0; i < 5; ++i) (void)box.write_quietly();
  box.advance(30'000);
  box.exec("CREATE TRIGGER stays BEFORE DELETE ON outbox WHEN OLD.id % 5 = 3 BEGIN SELECT RAISE(ABORT, 'stays'); END");
  CHECK(box.pass() == 5);
  CHECK(box.transport.count() == 5);
  CHECK(box.rows() == 5);  // one transaction: none of them
  box.exec("DROP TRIGGER stays");
  const auto report = box.sweep->pass();
  CHECK(report.first_error.find("outbox: a delivery could not be recorded") == 0);
  box.deliver();
  CHECK(box.transport.count() == 10);
  CHECK(box.transport.keys().size() == 5);
  CHECK(box.rows() == 0);
  CHECK(box.sweep->pass().first_error.empty());
}

TEST_CASE("[O4] delivered rows of a page are deleted also when a later one throws") {
  Box box;
  box.open();
  for (int i = 0; i < 3; ++i) (void)box.write_quietly("http://a.example/", std::to_string(i));
  box.advance(30'000);
  box.transport.answers([](const work::Envelope& e) -> work::Answered {
    if (e.body == "2") throw std::runtime_error("the transport broke");
    return MemoryTransport::status(200);
  });
  CHECK(box.pass() == 3);
  CHECK(box.rows() == 1);
  CHECK(box.number("SELECT count(*) FROM outbox WHERE tries = 1 AND last_error = 'the transport broke'") == 1);
}

TEST_CASE("[N98] ten restarts use up no tries of a row in backoff, and a destination that hangs holds back no other") {
  Box box;
  box.open();
  box.transport.answers([](const work::Envelope&) { return MemoryTransport::status(500); });
  const auto id = box.write_quietly("http://bad.example/");
  box.advance(30'000);
  for (int i = 0; i < 4; ++i) {
    box.pass();
    if (i < 3) box.advance(40'000);
  }
  REQUIRE(box.read(id)->tries == 4);
  const TimeMs next = box.read(id)->next_try_at;
  for (int i = 0; i < 10; ++i) {
    box.restart();
    box.pass();
  }
  CHECK(box.read(id)->tries == 4);
  CHECK(box.read(id)->next_try_at == next);
  CHECK(box.transport.count() == 4);
  // 200 rows of a destination that hangs: each try takes the whole deadline.
  for (int i = 0; i < 200; ++i) (void)box.write_quietly("http://hangs.example/");
  for (int i = 0; i < 20; ++i) (void)box.write_quietly("http://good.example/");
  box.transport.forget();
  box.transport.answers([&](const work::Envelope& e) {
    if (e.url.find("hangs") == std::string::npos) return MemoryTransport::status(200);
    box.advance(10'000);
    return work::Answered{work::Answered::Kind::failed, 0, "no answer within 10 s", {}};
  });
  box.exec("UPDATE outbox SET next_try_at = 0 WHERE tries = 0");
  (void)box.sweep->pass();  // handed out, and nothing waited for
  std::int64_t hung_before_all_good = 0;
  while (box.number("SELECT count(*) FROM outbox WHERE lane = 'http://good.example'") > 0) {
    REQUIRE(box.deliverer->run_one());
    hung_before_all_good = box.number("SELECT count(*) FROM outbox WHERE lane = 'http://hangs.example' AND tries > 0");
  }
  CHECK(hung_before_all_good <= 1);
}

}  // namespace
}  // namespace bide
