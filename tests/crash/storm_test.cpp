// Many deliveries to receivers that fail in every way they know (refused, reset after reading, hang, drip, 500, 429):
// none is lost, each keeps its key and its bytes, and what comes twice was not acknowledged [O2 to O5]. The store's
// clock is the test's, so that backoffs take no time; connections and their deadlines are real.
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

enum class Fault { error_500, error_429, reset, hang, drip };
constexpr const char* kFaults[] = {"500", "429", "reset after reading", "hang", "drip"};

// A receiver. Three of ten first and second tries of a key fail, in a way that follows from the key.
class Receiver {
 public:
  enum class Kind { healthy, faulty, down };  // down: it refuses connections until it is opened
  explicit Receiver(Kind kind) : kind_(kind), sink_(Sink::Down{}) {
    sink_.script([this](const Sink::Request& request, int) { return answer(request); });
    if (kind != Kind::down) sink_.open();
  }
  struct Seen {
    std::string body;
    int tries = 0;
    int taken = 0;               // read whole and not told "no": the receiver has it, whether we know or not
    bool acknowledged = false;   // … and the answer was sent whole
    bool changed = false;        // other bytes under one key
    bool after_the_end = false;  // it came again though it was acknowledged
  };
  // Once nothing is under way any more.
  [[nodiscard]] const std::map<std::string, Seen>& seen() const { return seen_; }
  [[nodiscard]] const std::map<Fault, int>& faults() const { return faults_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::string url() const { return sink_.url(); }
  [[nodiscard]] std::string lane() const { return "http://" + sink_.address(); }
  void open() { sink_.open(); }
  int hangs = 0;  // that it may still do: each takes a whole deadline
  int drips = 0;

 private:
  [[nodiscard]] Fault fault(unsigned chance) {
    switch (chance % 5) {
      case 0: return Fault::error_500;
      case 1: return Fault::error_429;
      case 2: return Fault::reset;
      case 3: return hangs-- > 0 ? Fault::hang : Fault::error_500;
      default: return drips-- > 0 ? Fault::drip : Fault::reset;
    }
  }
  Sink::Reply answer(const Sink::Request& request) {
    Seen& one = seen_[request.field("idempotency-key")];
    one.changed = one.changed || (one.tries > 0 && one.body != request.body);
    one.after_the_end = one.after_the_end || one.acknowledged;
    one.body = request.body;
    ++one.tries;
    const auto chance =
        static_cast<unsigned char>(sha256(request.field("idempotency-key") + std::to_string(one.tries))[0]);
    if (kind_ == Kind::healthy || one.tries > 2 || chance >= 77) {
      ++one.taken;
      one.acknowledged = true;
      return {};
    }
    const Fault what = fault(chance);
    ++faults_[what];
    if (what != Fault::error_500 && what != Fault::error_429) ++one.taken;  // its answer is lost
    switch (what) {
      case Fault::error_500: return Sink::status(500);
      case Fault::error_429: return Sink::status(429, "Retry-After: 7\r\n");
      case Fault::reset: return Sink::act(Sink::Reply::Act::reset);
      case Fault::hang: return Sink::act(Sink::Reply::Act::hang);
      case Fault::drip: break;
    }
    Sink::Reply drip = Sink::act(Sink::Reply::Act::drip);
    drip.every = 1s;
    return drip;
  }
  const Kind kind_;
  std::map<std::string, Seen> seen_;
  std::map<Fault, int> faults_;
  Sink sink_;  // the last: its threads use what stands above
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
  [[nodiscard]] std::int64_t untried(const std::string& lane) {
    return store->read([&](db::ReadTx& tx) {
      db::Query q(tx, "SELECT count(*) FROM outbox WHERE lane = ? AND last_error IS NULL");
      return q.bind(lane).one().integer(0);
    });
  }
  // Tries as the file has them: one event each.
  [[nodiscard]] std::int64_t events(const std::string& kind, const std::string& lane) {
    return store->read([&](db::ReadTx& tx) {
      db::Query q(tx, "SELECT count(*) FROM events WHERE kind = ? AND json_extract(payload, '$.to') = ?");
      return q.bind(kind, lane).one().integer(0);
    });
  }
  void pass() {
    (void)deliverer->sweep(store->now());
    eventually([&] { return deliverer->in_flight() == 0; }, "the lanes are done", 240s);
    clock.advance(5'000);
  }
  // Passes as the sweep makes them, five seconds apart, until so many rows are left.
  void until_left(std::int64_t left, int passes) {
    for (int n = 0; n < passes && rows() > left; ++n) pass();
  }
};

struct Tally {
  std::int64_t deliveries = 0, tries = 0, failed = 0, refused = 0, taken = 0;
  std::map<Fault, int> faults;
};

void check(Storm& world, const Receiver& one, std::size_t written, Tally& tally) {
  CHECK(one.seen().size() == written);  // none lost
  std::int64_t tries = 0;
  for (const auto& [key, seen] : one.seen()) {
    tries += seen.tries;
    tally.taken += seen.taken;
    const bool right = seen.acknowledged && !seen.after_the_end && !seen.changed && seen.body == world.written[key];
    if (!right || (one.kind() == Receiver::Kind::healthy && seen.tries != 1))
      FAIL_CHECK(key << " came " << seen.tries << " times, was taken " << seen.taken << " times, acknowledged "
                     << seen.acknowledged << ", came after that " << seen.after_the_end);
  }
  std::int64_t failed = 0;
  for (const auto& [what, count] : one.faults()) {
    failed += count;
    tally.faults[what] += count;
  }
  const std::int64_t refused = world.events("delivery.failed", one.lane()) - failed;
  CHECK(world.events("delivery.delivered", one.lane()) == static_cast<std::int64_t>(written));
  CHECK(tries == static_cast<std::int64_t>(written) + failed);
  CHECK((one.kind() == Receiver::Kind::down ? refused >= static_cast<std::int64_t>(written) : refused == 0));
  CHECK(world.rows(one.lane()) == 0);
  tally.deliveries += static_cast<std::int64_t>(written);
  tally.tries += tries + refused;
  tally.failed += failed + refused;
  tally.refused += refused;
}

// Five receivers get `each` and fail in three of ten tries; a healthy one and one that is down at first get a tenth.
void storm(int each, int hangs) {
  using Kind = Receiver::Kind;
  const auto began = std::chrono::steady_clock::now();
  Storm world;
  std::vector<std::unique_ptr<Receiver>> receivers;
  for (int i = 0; i < 5; ++i) receivers.push_back(std::make_unique<Receiver>(Kind::faulty));
  for (int i = 0; i < hangs; ++i) {
    ++receivers[static_cast<std::size_t>(i % 5)]->hangs;
    ++receivers[static_cast<std::size_t>((i + 1) % 5)]->drips;
  }
  receivers.push_back(std::make_unique<Receiver>(Kind::healthy));
  receivers.push_back(std::make_unique<Receiver>(Kind::down));
  for (int done = 0; done < each; done += 100) {
    for (const auto& receiver : receivers) world.write(receiver->url(), receiver->kind() == Kind::faulty ? 100 : 10);
    if (done % 1'000 == 0) (void)world.deliverer->sweep(world.store->now());
  }
  for (int n = 0; n < 400 && world.untried(receivers.back()->lane()) > 0; ++n) world.pass();
  receivers.back()->open();
  world.until_left(0, 2'000);
  Tally tally;
  for (const auto& receiver : receivers)
    check(world, *receiver, static_cast<std::size_t>(receiver->kind() == Kind::faulty ? each : each / 10), tally);
  std::string kinds = "refused " + std::to_string(tally.refused);
  for (const Fault what : {Fault::error_500, Fault::error_429, Fault::reset, Fault::hang, Fault::drip}) {
    CHECK(tally.faults[what] > 0);
    kinds += std::string(", ") + kFaults[static_cast<int>(what)] + " " + std::to_string(tally.faults[what]);
  }
  CHECK(tally.taken > tally.deliveries);               // some came twice: those whose acknowledgement was lost
  CHECK(tally.failed * 100 >= tally.deliveries * 30);  // three of ten, and their second tries
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began);
  WARN(tally.deliveries << " deliveries in " << took.count() << " s: " << tally.tries << " tries, " << tally.failed
                        << " failed (" << kinds << "), " << tally.taken - tally.deliveries
                        << " came twice, each after an acknowledgement that was lost; none lost, 0 parked");
}

}  // namespace

TEST_CASE("[O3] 2000 deliveries with faults in three of ten tries: none is lost, and none comes under another key") {
  storm(400, 2);
}

TEST_CASE("[O3] 100000 deliveries with faults in three of ten tries", "[.storm]") { storm(20'000, 20); }

}  // namespace bide::test
