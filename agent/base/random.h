// Random: the one source of chance (rule C1). Nothing but random.cpp asks the system for randomness.
#pragma once

#include <cstdint>
#include <string>

namespace bide {

class Random {
 public:
  virtual ~Random() = default;
  [[nodiscard]] virtual std::uint64_t next() = 0;
  // 26 characters of Crockford base32 (130 bits): run uids, nonces, tokens.
  [[nodiscard]] std::string uid();
  // RFC 9562 version 4.
  [[nodiscard]] std::string uuid();
};

// Reads the kernel's generator (getrandom), buffered. Thread-safe.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;
};

// xoshiro-like generator of a seed, for tests and the simulator. Not thread-safe.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override;

 private:
  std::uint64_t state_;
};

}  // namespace bide
