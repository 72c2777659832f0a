#include "agent/base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "agent/base/errors.h"

namespace bide {

std::string Random::uid() {
  static constexpr char kAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
  std::string text;
  text.reserve(26);
  std::uint64_t bits = 0;
  int left = 0;
  while (text.size() < 26) {
    if (left < 5) {
      bits = next();
      left = 60;
    }
    text.push_back(kAlphabet[bits & 31U]);
    bits >>= 5U;
    left -= 5;
  }
  return text;
}

std::string Random::uuid() {
  static constexpr char kHex[] = "0123456789abcdef";
  std::uint64_t high = next();
  std::uint64_t low = next();
  high = (high & ~0xF000ULL) | 0x4000ULL;
  low = (low & ~(3ULL << 62U)) | (2ULL << 62U);
  std::string text;
  text.reserve(36);
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) text.push_back('-');
    const std::uint64_t word = i < 16 ? high : low;
    text.push_back(kHex[(word >> (60U - 4U * static_cast<unsigned>(i % 16))) & 15U]);
  }
  return text;
}

std::uint64_t SystemRandom::next() {
  thread_local std::uint64_t pool[32];
  thread_local unsigned left = 0;
  if (left == 0) {
    auto* out = reinterpret_cast<char*>(pool);
    std::size_t got = 0;
    while (got < sizeof pool) {
      const ssize_t n = ::getrandom(out + got, sizeof pool - got, 0);
      if (n < 0 && errno != EINTR) throw Bug("getrandom failed");
      if (n > 0) got += static_cast<std::size_t>(n);
    }
    left = 32;
  }
  return pool[--left];
}

std::uint64_t SeededRandom::next() {  // splitmix64: passes BigCrush, one word of state
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

}  // namespace bide
