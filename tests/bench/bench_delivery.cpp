// What bad endpoints cost a healthy one: how long a delivery takes from the call that writes it until its receiver has
// read it, alone and beside an endpoint each that refuses, resets after reading, hangs, drips, answers 500 and 429.
// Each turn has an outbox of its own; both sides run in turns in one run.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/work/deliverer.h"
#include "agent/work/delivery.h"
#include "tests/bench/bench.h"
#include "tests/support/sink.h"

namespace bide::bench {
namespace {

using test::Sink;

constexpr double kEverySeconds = 0.005;  // a delivery to the healthy endpoint
constexpr int kBadEvery = 14;            // so many of these to one row for each of six bad ones: three of ten are bad
constexpr int kWorseEvery = 4;           // … and six of ten
constexpr double kLeastSeconds = 6;      // of a turn: a pass of the sweep hands out what failed

// An outbox with its deliverer, and the pass that the agent's sweep would make every five seconds.
class Outbox {
 public:
  explicit Outbox(const std::string& directory) {
    db::StoreOptions options;
    options.directory = directory;
    options.announced = [this](std::int64_t id) { fresh_.push(id); };
    store_ = std::make_unique<db::Store>(std::move(options), clock_);
    work::DelivererOptions deliveries;
    deliveries.allow = {"127.0.0.1"};
    deliverer_ = std::make_unique<work::Deliverer>(*store_, random_, transport_, fresh_, deliveries);
    deliverer_->start();
  }
  ~Outbox() {
    deliverer_->stop();
    store_->close();
  }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void write(const std::string& url, std::int64_t number) {
    store_->write([&](db::Tx& tx) {
      kernel::NewDelivery row;
      row.destination = url;
      row.idem_key = url + "#" + std::to_string(number);
      row.request = std::to_string(number);
      (void)kernel::write_delivery(tx, row, tx.now());
    });
  }
  void pass() {
    if (now_seconds() < next_pass_) return;
    (void)deliverer_->sweep(store_->now());
    next_pass_ = now_seconds() + static_cast<double>(limits::kSweepIntervalMs) / 1000;
  }

 private:
  SystemClock clock_;
  SystemRandom random_;
  work::SystemResolver resolver_;
  work::HttpTransport transport_{clock_, resolver_, {std::nullopt, {}, [] { return true; }}};
  work::FreshRows fresh_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<work::Deliverer> deliverer_;
  double next_pass_ = 0;
};

struct Bad {
  Bad() {
    answers_500.script([](const Sink::Request&, int) { return Sink::status(500); });
    answers_429.script([](const Sink::Request&, int) { return Sink::status(429, "Retry-After: 1\r\n"); });
    resets.script([](const Sink::Request&, int) { return Sink::act(Sink::Reply::Act::reset); });
    hangs.script([](const Sink::Request&, int) { return Sink::act(Sink::Reply::Act::hang); });
    drips.script([](const Sink::Request&, int) {
      Sink::Reply drip = Sink::act(Sink::Reply::Act::drip);
      drip.every = std::chrono::seconds(1);
      return drip;
    });
    for (const Sink* one : {&refuses, &answers_500, &answers_429, &resets, &hangs, &drips}) urls.push_back(one->url());
  }
  Sink refuses{Sink::Down{}};
  Sink answers_500, answers_429, resets, hangs, drips;
  std::vector<std::string> urls;
};

// Milliseconds of each delivery to the healthy endpoint.
// bad_every: 0 for alone.
std::vector<double> turn(const std::string& directory, double seconds, int bad_every) {
  const auto count = static_cast<std::size_t>(seconds / kEverySeconds);
  std::vector<double> began(count);
  std::vector<std::atomic<double>> arrived(count);
  std::atomic<std::size_t> got{0};
  std::filesystem::create_directories(directory);
  std::optional<Bad> bad;
  if (bad_every > 0) bad.emplace();
  Sink healthy([&](const Sink::Request& request, int) {
    const auto number = static_cast<std::size_t>(parse_number(request.body).value_or(0));
    if (number < count && arrived[number].exchange(now_seconds()) == 0) ++got;
    return Sink::Reply{};
  });
  {
    Outbox outbox(directory);
    const double first = now_seconds();
    for (std::size_t i = 0; i < count; ++i) {
      const double due = first + static_cast<double>(i) * kEverySeconds;
      while (now_seconds() < due) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (bad && i % static_cast<std::size_t>(bad_every) == 0) {
        for (const std::string& url : bad->urls) outbox.write(url, static_cast<std::int64_t>(i));
      }
      began[i] = now_seconds();
      outbox.write(healthy.url(), static_cast<std::int64_t>(i));
      outbox.pass();
    }
    const double patience = now_seconds() + 60;
    while (got < count) {
      if (now_seconds() > patience) throw std::runtime_error("the healthy endpoint did not get all");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      outbox.pass();
    }
  }
  std::filesystem::remove_all(directory);
  std::vector<double> took;
  for (std::size_t i = 0; i < count; ++i) took.push_back((arrived[i] - began[i]) * 1e3);
  return took;
}

double percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * part)];
}

}  // namespace

Report delivery_benchmark(const Options& options) {
  const std::string directory = options.directory + "/bide-bench.tmp";
  std::filesystem::remove_all(directory);
  const double seconds = std::max(options.seconds, kLeastSeconds);
  std::vector<double> alone, beside, worse, ratios, worse_ratios;
  const auto add = [](std::vector<double>& to, const std::vector<double>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (int round = 0; round < options.rounds; ++round) {
    const auto a = turn(directory, seconds, 0);
    const auto b = turn(directory, seconds, kBadEvery);
    const auto c = turn(directory, seconds, kWorseEvery);
    ratios.push_back(percentile(b, 0.99) / percentile(a, 0.99));
    worse_ratios.push_back(percentile(c, 0.99) / percentile(a, 0.99));
    add(alone, a);
    add(beside, b);
    add(worse, c);
  }
  Report report{"Deliveries to a healthy endpoint, alone and beside six bad ones", {}};
  report.figures = {
      {"p99 beside / alone, 3 of 10 bad, median of the rounds", median(ratios), "", "<= 2"},
      {"p99 beside / alone, 3 of 10 bad, all rounds as one", percentile(beside, 0.99) / percentile(alone, 0.99), "",
       "<= 2"},
      {"p99 beside / alone, 6 of 10 bad, median of the rounds", median(worse_ratios), "", ""},
      {"p50 beside / alone, 3 of 10 bad", percentile(beside, 0.5) / percentile(alone, 0.5), "", ""},
      {"p50 alone", percentile(alone, 0.5), "ms", ""},
      {"p99 alone", percentile(alone, 0.99), "ms", ""},
      {"p50 beside, 3 of 10 bad", percentile(beside, 0.5), "ms", ""},
      {"p99 beside, 3 of 10 bad", percentile(beside, 0.99), "ms", ""},
      {"p99 beside, 6 of 10 bad", percentile(worse, 0.99), "ms", ""},
      {"deliveries a side", static_cast<double>(alone.size()), "", ""},
  };
  return report;
}

}  // namespace bide::bench
