// MemoryTransport: a Transport that answers as the test says and keeps what it was given. Thread-safe.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/mutex.h"
#include "agent/work/transport.h"

namespace bide::test {

class MemoryTransport final : public work::Transport {
 public:
  using Answer = std::function<work::Answered(const work::Envelope&)>;

  static work::Answered status(int code, std::string retry_after = {}) {
    return {work::Answered::Kind::answered, code, {}, std::move(retry_after)};
  }
  static work::Answered refused() { return {work::Answered::Kind::failed, 0, "connection refused", {}}; }

  work::Answered send(const work::Envelope& envelope) override {
    Answer answer;
    {
      Lock lock(mutex_);
      sent_.push_back(envelope);
      answer = answer_;
    }
    return answer ? answer(envelope) : status(200);
  }
  void close() override {}

  // Asked outside of the lock, so it may wait.
  void answers(Answer answer) {
    Lock lock(mutex_);
    answer_ = std::move(answer);
  }
  [[nodiscard]] std::vector<work::Envelope> sent() const {
    Lock lock(mutex_);
    return sent_;
  }
  [[nodiscard]] std::size_t count() const { return sent().size(); }
  [[nodiscard]] static std::string header(const work::Envelope& envelope, const std::string& name) {
    for (const auto& [key, value] : envelope.headers) {
      if (key == name) return value;
    }
    return {};
  }
  [[nodiscard]] std::set<std::string> keys() const {
    std::set<std::string> keys;
    for (const auto& one : sent()) keys.insert(header(one, "Idempotency-Key") + header(one, "webhook-id"));
    return keys;
  }
  void forget() {
    Lock lock(mutex_);
    sent_.clear();
  }

 private:
  mutable Mutex mutex_;
  Answer answer_ GUARDED_BY(mutex_);
  std::vector<work::Envelope> sent_ GUARDED_BY(mutex_);
};

}  // namespace bide::test
