// What the tests of the MQTT transport share: a transport whose names come from a table, and one call to send.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/clock.h"
#include "agent/work/mqtt_transport.h"

namespace bide::test {

class NamesOfLoopback final : public work::Resolver {
 public:
  work::Resolved resolve(const std::string& host, int port, DurationMs) override {
    const auto found = names.find(host);
    if (found == names.end()) return work::NoSuchName{"no such name"};
    std::vector<work::Address> addresses;
    for (const std::string& text : found->second) addresses.push_back(work::parse_address(text, port).value());
    return addresses;
  }
  std::map<std::string, std::vector<std::string>> names;
};

struct MqttPost {
  explicit MqttPost(const std::string& brokers = {}, std::optional<work::Address> own = {}, std::string box = "box-1")
      : transport(clock, resolver,
                  {own, work::Brokers::parse(brokers, "brokers.toml"), [box] { return box; }, work::has_network}) {}
  work::Answered operator()(const std::string& url, const std::string& key,
                            std::vector<std::string> allow = {"127.0.0.1"}, DurationMs deadline = 10'000) {
    work::Envelope envelope;
    envelope.url = url;
    envelope.key = key;
    envelope.headers = {{"User-Agent", "bide/test"}, {"Content-Type", "application/json"}, {"webhook-id", key}};
    envelope.body = body;
    envelope.allow = std::move(allow);
    envelope.deadline = deadline;
    return transport.send(envelope);
  }
  SystemClock clock;
  NamesOfLoopback resolver;
  work::MqttTransport transport;
  std::string body = R"({"a": [1, 2.50, "ü"]})";
};

}  // namespace bide::test
