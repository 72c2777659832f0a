#include "tests/sim/fibers.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace bide::sim {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;

// The exceptions that are caught and in flight belong to a thread; here they belong to a fiber.
void swap_exceptions(void** mine, void** theirs) {
  void* globals = abi::__cxa_get_globals();
  std::memcpy(mine, globals, 2 * sizeof(void*));
  std::memcpy(globals, theirs, 2 * sizeof(void*));
}

// swapcontext asks the system for the signal mask twice a switch. A fiber's first entry is by its context, all later
// switches are jumps between the stacks; AddressSanitizer takes those for the end of a frame.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kJumps = false;
#else
constexpr bool kJumps = true;
#endif

}  // namespace

Fibers::~Fibers() { kill(); }

void Fibers::spawn(std::function<void()> code, std::function<void()> done) {
  auto fiber = std::make_unique<Fiber>();
  if (stacks_.empty()) {
    fiber->stack.reset(new char[kStackBytes]);
  } else {
    fiber->stack = std::move(stacks_.back());
    stacks_.pop_back();
  }
  fiber->code = std::move(code);
  fiber->done = std::move(done);
  ::getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&fiber->context, reinterpret_cast<void (*)()>(&Fibers::entry), 2, static_cast<unsigned>(self >> 32U),
                static_cast<unsigned>(self & 0xffffffffU));
  fibers_.push_back(std::move(fiber));
  ++activity_;
}

void Fibers::entry(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fibers*>((static_cast<std::uintptr_t>(high) << 32U) | low);
  Fiber* fiber = self->current_;
  if (!self->killing_) {
    try {
      fiber->code();
    } catch (const Killed&) {
    } catch (...) {
      fiber->error = std::current_exception();
    }
  }
  fiber->ended = true;
  self->give_up(State::ready, 0);
}

// From the fiber to the outside.
void Fibers::leave(Fiber& fiber) {
  if (!kJumps) {
    ::swapcontext(&fiber.context, &outside_);
  } else if (_setjmp(fiber.jump) == 0) {
    _longjmp(outside_jump_, 1);
  }
}

void Fibers::enter(Fiber& fiber) {
  if (!kJumps) {
    ::swapcontext(&outside_, &fiber.context);
  } else if (_setjmp(outside_jump_) == 0) {
    if (fiber.begun) _longjmp(fiber.jump, 1);
    fiber.begun = true;
    ::setcontext(&fiber.context);
  }
}

void Fibers::give_up(State state, BootMs wake) {
  Fiber* fiber = current_;
  fiber->state = state;
  fiber->wake = wake;
  swap_exceptions(fiber->exceptions, outside_exceptions_);
  leave(*fiber);
  if (killing_) throw Killed{};
}

void Fibers::resume(Fiber& fiber) {
  ++switches_;
  current_ = &fiber;
  swap_exceptions(outside_exceptions_, fiber.exceptions);
  enter(fiber);
  current_ = nullptr;
}

void Fibers::yield() {
  if (killing_) throw Killed{};
  give_up(State::ready, 0);
}

void Fibers::rest_until(BootMs at) {
  if (killing_) throw Killed{};
  ++activity_;
  while (now_ < at) give_up(State::sleeping, at);
  ++activity_;
}

void Fibers::wait(DurationMs longest) {
  if (killing_) throw Killed{};
  current_->looked = activity_;
  give_up(State::polling, now_ + std::max<DurationMs>(longest, 1));
}

void Fibers::run(const std::vector<std::function<void()>>& branches) {
  if (killing_) throw Killed{};
  int open = static_cast<int>(branches.size());
  for (const auto& branch : branches) {
    spawn(branch, [&open] { --open; });
  }
  current_->joins = &open;
  while (open > 0) {
    current_->state = State::joining;
    Fiber* fiber = current_;
    swap_exceptions(fiber->exceptions, outside_exceptions_);
    leave(*fiber);
    // A dying process: this frame outlives those of its branches, which point into it.
    if (killing_ && open == 0) break;
  }
  current_->joins = nullptr;
  if (killing_) throw Killed{};
}

bool Fibers::runnable(const Fiber& fiber) const {
  switch (fiber.state) {
    case State::ready: return true;
    case State::joining: return *fiber.joins == 0;
    case State::sleeping: return fiber.wake <= now_;
    case State::polling: return fiber.wake <= now_ || fiber.looked != activity_;
  }
  return false;
}

void Fibers::settle() {
  std::vector<Fiber*> able;
  for (std::uint64_t turns = 0;; ++turns) {
    able.clear();
    for (const auto& fiber : fibers_) {
      if (runnable(*fiber)) able.push_back(fiber.get());
    }
    if (able.empty() || error_ || halted_) return;
    if (turns > 1'000'000) throw std::runtime_error("the fibers do not come to rest");
    resume(*able[random_.next() % able.size()]);
    bury();
  }
}

void Fibers::bury() {
  for (std::size_t i = 0; i < fibers_.size();) {
    if (!fibers_[i]->ended) {
      ++i;
      continue;
    }
    auto fiber = std::move(fibers_[i]);
    fibers_.erase(fibers_.begin() + static_cast<std::ptrdiff_t>(i));
    if (fiber->error && !error_) error_ = fiber->error;
    stacks_.push_back(std::move(fiber->stack));
    ++activity_;
    if (fiber->done) fiber->done();
  }
}

std::optional<BootMs> Fibers::next_wake() const {
  std::optional<BootMs> at;
  for (const auto& fiber : fibers_) {
    if (fiber->state != State::sleeping && fiber->state != State::polling) continue;
    at = at ? std::min(*at, fiber->wake) : fiber->wake;
  }
  return at;
}

void Fibers::kill() {
  killing_ = true;
  // The youngest first: branches before the frame that they point into.
  while (!fibers_.empty()) {
    const auto last = std::find_if(fibers_.rbegin(), fibers_.rend(), [](const auto& fiber) {
      return fiber->state != State::joining || *fiber->joins == 0;
    });
    if (last == fibers_.rend()) throw std::logic_error("fibers wait for each other");
    resume(**last);
    bury();
  }
  killing_ = false;
  halted_ = false;
}

void Fibers::rethrow() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace bide::sim
