// Waits for a condition with a deadline instead of sleeping in hope. Fails the running test case when it is missed.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <concepts>
#include <string>
#include <thread>

namespace bide::test {

// A sanitizer makes a process, and each that it starts, several times as slow: what must come has so much more time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlower = 4;
#else
inline constexpr int kSlower = 1;
#endif

// True as soon as the condition holds; false when the deadline passed first. Asks every 5 ms.
template <class Condition>
[[nodiscard]] bool holds_within(std::chrono::milliseconds deadline, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// `message` says what was waited for: a text, or a function that makes one when it is needed (to show the state).
// Call it on the thread of the test case only.
template <class Condition, class Message>
void eventually(Condition condition, Message message, std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
  deadline *= kSlower;
  if (holds_within(deadline, condition)) return;
  if constexpr (std::invocable<Message>) {
    FAIL("not within " << deadline.count() << " ms: " << message());
  } else {
    FAIL("not within " << deadline.count() << " ms: " << message);
  }
}

}  // namespace bide::test
