// A fleet on one broker: each box with a connection, a client id and keys of its own [O3].
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "agent/base/descriptors.h"
#include "agent/base/mutex.h"
#include "tests/support/eventually.h"
#include "tests/support/mqtt.h"
#include "tests/work/mqtt_box.h"

namespace bide {
namespace {

using namespace std::chrono_literals;
using test::eventually;

constexpr int kRows = 5;      // of each box
constexpr int kThreads = 16;  // that drive the boxes

struct Fleet {
  explicit Fleet(int count) {
    for (int i = 0; i < count; ++i)
      boxes.push_back(std::make_unique<test::MqttPost>("", std::nullopt, "box-" + std::to_string(i)));
  }
  static std::string key(std::size_t box, int row) { return "key-" + std::to_string(box) + "-" + std::to_string(row); }
  static std::string body(std::size_t box, int row) {
    return "{\"box\":" + std::to_string(box) + ",\"row\":" + std::to_string(row) + "}";
  }
  // One row of every box, several boxes at once; the number of those that the broker took.
  int send(const test::Broker& broker, int row) {
    std::atomic<int> taken{0};
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < boxes.size(); i = next++) {
          boxes[i]->body = body(i, row);
          const auto answer = (*boxes[i])(broker.url("fleet/" + std::to_string(i)), key(i, row));
          taken += answer.delivered() ? 1 : 0;
          Lock lock(mutex);
          if (!answer.delivered()) errors.insert(answer.error);
        }
      });
    }
    threads.clear();
    return taken;
  }
  std::vector<std::unique_ptr<test::MqttPost>> boxes;
  Mutex mutex;
  std::set<std::string> errors;
};

void fleet_of(int count) {
  (void)raise_descriptor_limit();  // the broker takes it over
  test::Broker broker;
  const test::Subscriber subscriber(broker, "fleet/#");
  Fleet fleet(count);
  SystemClock clock;
  const BootMs began = clock.boot_ms();
  int sent = 0;
  for (int row = 0; row < kRows; ++row) {
    const int taken = fleet.send(broker, row);
    sent += taken;
    INFO("row " << row << ": " << (fleet.errors.empty() ? "" : *fleet.errors.begin()));
    CHECK(taken == count);
    // All of them at once, and still the connections of the first row.
    CHECK(broker.lines("New client connected") == count + 1);
  }
  const BootMs took = clock.boot_ms() - began;
  CHECK(broker.lines(" disconnected") == 0);
  // What a box does not know to have arrived it sends again, under the same key.
  CHECK(fleet.send(broker, kRows - 1) == count);
  const auto rows = static_cast<std::size_t>(count) * kRows;
  eventually([&] { return subscriber.count() >= rows + static_cast<std::size_t>(count); },
             [&] { return std::to_string(subscriber.count()) + " have arrived"; }, 120s);
  const auto keys = subscriber.keys_of_bodies();
  CHECK(keys.size() == rows);
  std::size_t under_two = 0;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < fleet.boxes.size(); ++i) {
    for (int row = 0; row < kRows; ++row) {
      const auto found = keys.find(Fleet::body(i, row));
      if (found == keys.end() || !found->second.contains(Fleet::key(i, row))) ++wrong;
      if (found != keys.end() && found->second.size() != 1) ++under_two;
    }
  }
  CHECK(wrong == 0);
  CHECK(under_two == 0);
  std::set<std::string> ids;  // "New client connected from 127.0.0.1:1 as ID (p5, …"
  const std::string log = broker.log();
  for (std::size_t at = log.find(" as bide"); at != std::string::npos; at = log.find(" as bide", at + 1))
    ids.insert(log.substr(at + 4, log.find(' ', at + 4) - at - 4));
  CHECK(ids.size() == static_cast<std::size_t>(count));
  std::printf(
      "%d boxes on one broker, %zu client ids, connected at once: %d messages taken, %zu arrived, %zu bodies, "
      "%zu under two keys, %lld messages a second\n",
      count, ids.size(), sent, subscriber.count(), keys.size(), under_two,
      static_cast<long long>(sent) * 1000 / std::max<long long>(took, 1));
}

TEST_CASE("[O3] 50 boxes on one broker: all arrive, none under two keys") { fleet_of(50); }
TEST_CASE("[O3] 1000 boxes on one broker: all arrive, none under two keys", "[.long]") { fleet_of(1000); }

}  // namespace
}  // namespace bide
