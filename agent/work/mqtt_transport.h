// MqttTransport: messages to a topic of a broker that somebody has anyway, so that a box behind NAT reports over it.
// Delivered is a PUBACK of QoS 1 with a reason code of success, MQTT 5. The body goes out byte for byte; Content-Type
// is the content type; the row's key is the user property Idempotency-Key, what else an HTTP receiver would find in its
// head stands beside it. Addresses are checked as for HTTP, one deadline holds for all of it [O3, O4, O6].
//
// The rows of a lane that follow each other share a connection; rest() ends it. Each box and lane has a client id of
// its own that stays the same, so that a broker forgets the connection of an agent that was killed.
// Thread-safe; each send is on its caller's thread, and the library has none. No failure is thrown. close() ends all
// that is under way.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/base/clock.h"
#include "agent/work/broker.h"
#include "agent/work/targets.h"
#include "agent/work/transport.h"

namespace bide::work {

struct MqttTransportOptions {
  std::optional<Address> own;        // where the agent itself listens: never a target
  Brokers brokers;                   // how to log in
  std::function<std::string()> box;  // the id of this box, asked at each connection; none, or empty: brokers name us
  std::function<bool()> has_network = work::has_network;
};

class MqttTransport final : public Transport {
 public:
  MqttTransport(Clock& clock, Resolver& resolver, MqttTransportOptions options = {});
  ~MqttTransport() override;
  Answered send(const Envelope& envelope) override;
  void rest(const std::string& lane) override;
  void close() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::work
