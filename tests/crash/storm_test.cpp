// Many deliveries to receivers that fail in every way they know: none is lost, each keeps its key and its bytes, and
// what comes twice was not acknowledged [O2 to O5]. The store's clock is the test's, so that backoffs take no time;
// connections and their deadlines are real.
#include <catch2/catch.hpp>

#include <map>
#include <memory>

#include "agent/base/hash.h"
#include "agent/base/random.h"
#include "agent/work/deliverer.h"
#include "agent/work/delivery.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_clock.h"
#include "tests/support/sink.h"
#include "tests/support/temp_dir.h"

namespace bide::test {
namespace {

using namespace std::chrono_literals;

// A receiver: three of ten first and second tries of a key fail, in a way that follows from the key.
class Receiver {
 public:
  explicit Receiver(bool faulty) {
    sink_.script([this, faulty](const Sink::Request& request, int) { return answer(request, faulty); });
  }
  struct Seen {
    std::string body;
    int tries = 0;
    int acknowledged = 0;
    bool changed = false;  // other bytes under one key
  };
  // Once nothing is under way any more.
  [[nodiscard]] const std::map<std::string, Seen>& seen() const { return seen_; }
  [[nodiscard]] std::string url() const { return sink_.url(); }
  int hangs = 0;  // that it may still do: each takes a whole deadline

 private:
  Sink::Reply answer(const Sink::Request& request, bool faulty) {
    Seen& one = seen_[request.field("idempotency-key")];
    one.changed = one.changed || (one.tries > 0 && one.body != request.body);
    one.body = request.body;
    ++one.tries;
    const auto chance =
        static_cast<unsigned char>(sha256(request.field("idempotency-key") + std::to_string(one.tries))[0]);
    if (faulty && one.tries <= 2 && chance < 77) {
      switch (chance % 4) {
        case 0: return Sink::status(500);
        case 1: return Sink::status(429, "Retry-After: 7\r\n");
        case 2: return Sink::act(Sink::Reply::Act::reset);
        default: break;
      }
      if (hangs > 0) {
        --hangs;
        return Sink::act(Sink::Reply::Act::hang);
      }
      return Sink::act(Sink::Reply::Act::reset);
    }
    ++one.acknowledged;
    Sink::Reply whole;
    if (faulty && chance > 250) {  // it comes, byte by byte
      whole.act = Sink::Reply::Act::drip;
      whole.every = 3ms;
    }
    return whole;
  }
  std::map<std::string, Seen> seen_;
  Sink sink_;
};

struct Storm {
  TempDir dir;
  FakeClock clock;
  SystemClock real;
  SystemRandom random;
  work::SystemResolver resolver;
  work::HttpTransport transport{real, resolver, {std::nullopt, {}, [] { return true; }}};
  work::FreshRows fresh;
  std::unique_ptr<db::Store> store;
  std::unique_ptr<work::Deliverer> deliverer;
  std::map<std::string, std::string> written;  // key → body

  Storm() {
    db::StoreOptions options;
    options.directory = dir.str("data");
    options.announced = [this](std::int64_t id) { fresh.push(id); };
    store = std::make_unique<db::Store>(std::move(options), clock);
    work::DelivererOptions deliveries;
    deliveries.allow = {"127.0.0.1"};
    deliverer = std::make_unique<work::Deliverer>(*store, random, transport, fresh, deliveries);
    deliverer->start();
  }
  ~Storm() {
    deliverer->stop();
    store->close();
  }
  void write(const std::string& url, int count) {
    store->write([&](db::Tx& tx) {
      for (int i = 0; i < count; ++i) {
        kernel::NewDelivery row;
        row.destination = url;
        row.idem_key = "k" + std::to_string(written.size());
        row.request = "{\"n\": " + std::to_string(written.size()) + ".50}";
        written[row.idem_key] = row.request;
        (void)kernel::write_delivery(tx, row, tx.now());
      }
    });
  }
  [[nodiscard]] std::int64_t rows(const std::string& lane = "%") {
    return store->read([&](db::ReadTx& tx) {
      db::Query q(tx, "SELECT count(*) FROM outbox WHERE lane LIKE ?");
      return q.bind(lane).one().integer(0);
    });
  }
  // Passes as the sweep makes them, five seconds apart, until so many rows are left.
  void until_left(std::int64_t left, int passes) {
    for (int pass = 0; pass < passes && rows() > left; ++pass) {
      (void)deliverer->sweep(store->now());
      eventually([&] { return deliverer->in_flight() == 0; }, "the lanes are done", 120s);
      clock.advance(5'000);
    }
  }
};

void storm(int each, int hangs) {
  Storm world;
  std::vector<std::unique_ptr<Receiver>> receivers;
  for (int i = 0; i < 5; ++i) receivers.push_back(std::make_unique<Receiver>(i > 0));
  receivers[1]->hangs = hangs;
  int port = 0;
  {
    const Sink gone;
    port = gone.port();
  }
  const std::string refused = "http://127.0.0.1:" + std::to_string(port);
  for (int done = 0; done < each; done += 100) {
    for (const auto& receiver : receivers) world.write(receiver->url(), 100);
    if (done == 0) world.write(refused + "/", 50);
    if (done % 1'000 == 0) (void)world.deliverer->sweep(world.store->now());
  }
  world.until_left(50, 400);
  CHECK(world.rows() == 50);
  CHECK(world.rows(refused) == 50);  // nobody is there: they wait, and are not lost
  std::size_t keys = 0;
  std::int64_t tries = 0;
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    keys += receivers[i]->seen().size();
    for (const auto& [key, one] : receivers[i]->seen()) {
      tries += one.tries;
      const bool right = one.acknowledged == 1 && !one.changed && one.body == world.written[key];
      if (!right || (i == 0 && one.tries != 1))
        FAIL_CHECK(key << " tries " << one.tries << " acknowledged " << one.acknowledged);
    }
  }
  CHECK(keys == static_cast<std::size_t>(each) * receivers.size());
  const std::int64_t faults = tries - static_cast<std::int64_t>(keys);
  CHECK(faults > static_cast<std::int64_t>(keys) / 5);  // three of ten in four of five
}

}  // namespace

TEST_CASE("[O3] 2000 deliveries with faults in three of ten tries: none is lost, and none comes under another key") {
  storm(400, 1);
}

TEST_CASE("[O3] 100000 deliveries with faults in three of ten tries", "[.long]") { storm(20'000, 20); }

}  // namespace bide::test
