// Transports: each message by the transport of its URL's scheme. Thread-safe as they are. Both outlive it.
#pragma once

#include "agent/work/broker.h"
#include "agent/work/transport.h"

namespace bide::work {

class Transports final : public Transport {
 public:
  Transports(Transport& http, Transport& mqtt) : http_(http), mqtt_(mqtt) {}
  Answered send(const Envelope& envelope) override {
    return is_broker_url(envelope.url) ? mqtt_.send(envelope) : http_.send(envelope);
  }
  void rest(const std::string& lane) override {
    http_.rest(lane);
    mqtt_.rest(lane);
  }
  void close() override {
    http_.close();
    mqtt_.close();
  }

 private:
  Transport& http_;
  Transport& mqtt_;
};

}  // namespace bide::work
