// Fibers: many calls side by side on one thread, in an order that a seed decides. A fiber runs until it gives up its
// turn; nothing else can change meanwhile. Virtual time passes only while all of them wait.
//
//   Fibers fibers(random);
//   fibers.spawn([&] { … fibers.rest_until(t); … });
//   fibers.settle();              runs everybody until all wait for time, or for what only time brings
//   fibers.next_wake();           when the first of them wants to go on
//   fibers.kill();                the process dies: each fiber is unwound with Killed
//
// Threads: one. What a fiber throws ends it; Killed is swallowed, the first other exception is kept for rethrow().
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/base/random.h"
#include "agent/base/time.h"

namespace bide::sim {

struct Killed {};  // not a std::exception: nothing of the agent may take it for an error of its own

class Fibers {
 public:
  explicit Fibers(Random& random) : random_(random) {}
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Time is read from here; nobody else moves it while fibers run.
  void set_now(BootMs now) { now_ = now; }

  // The fiber begins at the next settle(). `done` is told when it has ended, however it ended.
  void spawn(std::function<void()> code, std::function<void()> done = {});

  // -- From within a fiber.
  [[nodiscard]] bool inside() const { return current_ != nullptr; }
  void yield();                   // others may run; then this one goes on
  void rest_until(BootMs at);     // not looked at before
  void wait(DurationMs longest);  // looks again after anything happened, or when the time is over
  void run(const std::vector<std::function<void()>>& branches);  // returns when all have ended
  // Something happened: those who wait look again.
  void touch() { ++activity_; }

  // -- From outside.
  void settle();
  // settle() comes back before anybody else has a turn.
  void halt() { halted_ = true; }
  [[nodiscard]] std::optional<BootMs> next_wake() const;
  [[nodiscard]] bool idle() const { return fibers_.empty(); }
  void kill();
  void rethrow();
  [[nodiscard]] std::uint64_t switches() const { return switches_; }

 private:
  enum class State { ready, polling, sleeping, joining };
  struct Fiber {
    ucontext_t context{};
    std::jmp_buf jump{};
    bool begun = false;
    std::unique_ptr<char[]> stack;
    std::function<void()> code;
    std::function<void()> done;
    State state = State::ready;
    BootMs wake = 0;
    std::uint64_t looked = 0;  // activity when it looked last
    int* joins = nullptr;      // branches that have not ended
    bool ended = false;
    void* exceptions[2] = {nullptr, nullptr};  // what the C++ runtime keeps a thread
    std::exception_ptr error;
  };
  static void entry(unsigned high, unsigned low);
  [[nodiscard]] bool runnable(const Fiber& fiber) const;
  void give_up(State state, BootMs wake);
  void resume(Fiber& fiber);
  void leave(Fiber& fiber);
  void enter(Fiber& fiber);
  void bury();

  Random& random_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::unique_ptr<char[]>> stacks_;  // to be used again
  Fiber* current_ = nullptr;
  ucontext_t outside_{};
  std::jmp_buf outside_jump_{};
  void* outside_exceptions_[2] = {nullptr, nullptr};
  BootMs now_ = 0;
  std::uint64_t activity_ = 1;
  std::uint64_t switches_ = 0;
  bool killing_ = false;
  bool halted_ = false;
  std::exception_ptr error_;
};

}  // namespace bide::sim
