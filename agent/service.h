// Service: the whole agent in one process: store, executor, sweep, programs, HTTP front. Wiring only.
//
//   flow::Registry registry;  registry.add({…});
//   Service service(config, std::move(registry));
//   service.start();          // the door is open; ready when it returns
//   service.wait_for_signal() // SIGTERM or SIGINT
//   service.stop();
// Threads: start, stop and wait_for_signal from one thread. Failures: ConfigFault (lock held, newer file, address in
// use), StorageFault. An I/O error of the store later on logs and ends the process with code 70 [C4].
#pragma once

#include <memory>
#include <string>

#include "agent/config.h"
#include "agent/flow/registry.h"

namespace bide {

class Clock;
namespace flow {
class Rehearsal;
}
namespace work {
class Commands;
}

// What `bide rehearse` and `bide check` put around programs; they outlive the Service. Messages are not sent then.
struct Trial {
  Clock* clock = nullptr;
  flow::Rehearsal* rehearsal = nullptr;
};

class Service {
 public:
  Service(Config config, flow::Registry registry);
  Service(Config config, flow::Registry registry, const Trial& trial);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void start();
  // What routes call, for whoever has the agent in its own process. From start() to stop().
  [[nodiscard]] work::Commands& commands();
  // Blocks until SIGTERM or SIGINT. These must be blocked in all threads: call block_signals() first in main.
  void wait_for_signal();
  // K5. True: everything ended. False: code is left that ignores the stop; the process should end with _exit.
  bool stop();

  static void block_signals();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace bide
