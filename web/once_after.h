// Idempotency-Key for the commands whose effect is no single transaction of ours (a sweep, a delivery's retry, a folder
// that is made): the answer is stored after the effect. While one with a key is in hand another with it waits; a crash
// between effect and answer is the one gap, and there the effects are such that a second time does no harm, or says so
// [M1]. Thread-safe.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "agent/base/mutex.h"
#include "web/ports.h"
#include "web/router.h"

namespace bide::web {

class OnceAfter {
 public:
  explicit OnceAfter(Ports& ports) : ports_(ports) {}
  [[nodiscard]] Response run(const Handler& handler, Request& request);

 private:
  using Name = std::pair<std::string, std::string>;  // principal and key
  class InHand;

  Ports& ports_;
  Mutex mutex_;
  Condition done_;
  std::set<Name> in_hand_ GUARDED_BY(mutex_);
};

// Gives the routes of that kind their Idempotency-Key. After all routes were added.
void wrap_once_after(Router& router, Ports& ports);

}  // namespace bide::web
