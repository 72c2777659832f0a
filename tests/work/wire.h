// Real HTTP under the tests of this floor. Wire: what a test says that is to be answered is said by a receiver on
// loopback, and what arrives there is compared, byte for byte. Effect: what a task does, one request a call, counted
// where it arrives.
#pragma once

#include <catch2/catch.hpp>

#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/flow/registry.h"
#include "agent/work/delivery.h"
#include "tests/support/memory_transport.h"
#include "tests/support/sink.h"

namespace bide::test {

// Requests to a receiver on loopback.
class Loopback {
 public:
  [[nodiscard]] work::Answered post(const Sink& to, work::Envelope envelope) {
    envelope.url = to.url();
    envelope.allow = {to.address()};
    envelope.deadline = 10'000;
    return http_.send(envelope);
  }

 private:
  SystemClock clock_;
  work::SystemResolver resolver_;
  work::HttpTransport http_{clock_, resolver_, {std::nullopt, {}, [] { return true; }}};
};

// In the place of the MemoryTransport that it is given: what the test says is answered as it is, or by a receiver, over
// HTTP. One thread.
class Wire {
 public:
  explicit Wire(MemoryTransport& memory) : memory_(memory) {}
  void over_http() {
    http_ = true;
    answers({});
  }
  void answers(MemoryTransport::Answer answer) {
    if (!http_) return memory_.answers(std::move(answer));
    memory_.answers([this, answer = std::move(answer)](const work::Envelope& envelope) {
      work::Answered wanted = MemoryTransport::status(200);
      std::exception_ptr thrown;  // the sender breaks when the receiver has it
      try {
        if (answer) wanted = answer(envelope);
      } catch (...) {
        thrown = std::current_exception();
      }
      work::Answered got = carry(envelope, wanted);
      if (thrown) std::rethrow_exception(thrown);
      return got;
    });
  }
  [[nodiscard]] std::vector<work::Envelope> sent() const { return memory_.sent(); }
  [[nodiscard]] std::size_t count() const { return memory_.count(); }
  [[nodiscard]] std::set<std::string> keys() const { return memory_.keys(); }
  void forget() { memory_.forget(); }

 private:
  work::Answered carry(const work::Envelope& envelope, const work::Answered& wanted) {
    using Kind = work::Answered::Kind;
    if (wanted.kind != Kind::answered && wanted.kind != Kind::failed) return wanted;  // nothing leaves the process
    if (wanted.error == MemoryTransport::refused().error) {
      auto got = loopback_.post(down_, envelope);
      CHECK(got.kind == Kind::failed);
      return got;
    }
    sink_.script([reply = reply_of(wanted)](const Sink::Request&, int) { return reply; });
    const std::size_t before = sink_.count();
    auto got = loopback_.post(sink_, envelope);
    REQUIRE(sink_.count() == before + 1);
    const auto arrived = sink_.last();
    CHECK(arrived.body == envelope.body);
    for (const char* name : {"Idempotency-Key", "Content-Type"})
      CHECK(arrived.field(lower(name)) == MemoryTransport::header(envelope, name));
    CHECK(got.kind == wanted.kind);
    CHECK(got.status == wanted.status);
    CHECK(got.retry_after == wanted.retry_after);
    return got;
  }
  static Sink::Reply reply_of(const work::Answered& wanted) {
    if (wanted.kind == work::Answered::Kind::failed) return Sink::act(Sink::Reply::Act::reset);
    Sink::Reply reply;
    reply.bytes = "HTTP/1.1 " + std::to_string(wanted.status) +
                  " So\r\nContent-Length: " + std::to_string(wanted.body.size()) + "\r\n";
    if (!wanted.retry_after.empty()) reply.bytes += "Retry-After: " + wanted.retry_after + "\r\n";
    reply.bytes += "\r\n" + wanted.body;
    return reply;
  }

  MemoryTransport& memory_;
  bool http_ = false;
  Sink sink_;
  Sink down_{Sink::Down{}};
  Loopback loopback_;
};

// Any threads.
class Effect {
 public:
  void operator()(const std::string& request, const flow::EffectInfo& info) {
    work::Envelope envelope;
    envelope.body = request;
    envelope.headers = {{"Content-Type", "application/json"}, {"Idempotency-Key", info.idempotency_key}};
    if (loopback_.post(sink_, envelope).status != 200) throw std::runtime_error("the receiver did not take it");
  }
  [[nodiscard]] int count() const { return static_cast<int>(sink_.count()); }
  [[nodiscard]] std::size_t keys() const {
    std::set<std::string> keys;
    for (const auto& one : sink_.requests()) keys.insert(one.field("idempotency-key"));
    return keys.size();
  }

 private:
  Sink sink_;
  Loopback loopback_;
};

}  // namespace bide::test
