// Chance: dice of a seed. What the world outside does, and what a plan is made of.
#pragma once

#include <cstdint>

#include "agent/base/random.h"

namespace bide::sim {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}
  [[nodiscard]] std::uint64_t next() { return random_.next(); }
  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random_.next() % n; }
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  [[nodiscard]] bool one_in(std::uint64_t n) { return below(n) == 0; }
  [[nodiscard]] SeededRandom& random() { return random_; }

 private:
  SeededRandom random_;
};

}  // namespace bide::sim
