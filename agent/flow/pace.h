// Pace: how the calls of an attempt wait, and how its branches run side by side. None is needed: threads then, and
// their condition. The simulator brings one that runs everything on one thread and on virtual time. Called without any
// lock held. What it throws goes through the attempt's caller.
#pragma once

#include <functional>
#include <vector>

#include "agent/base/time.h"

namespace bide::flow {

class Pace {
 public:
  virtual ~Pace() = default;
  // A call waits until something of its attempt may have changed, for at most `longest`.
  virtual void wait(DurationMs longest) = 0;
  // Between what a call has read and what it is about to write: whoever may get in between, gets in here.
  virtual void before_write() = 0;
  // Runs the branches to their ends.
  virtual void run(const std::vector<std::function<void()>>& branches) = 0;
};

}  // namespace bide::flow
