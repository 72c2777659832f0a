// bide serve: the agent itself, until SIGTERM or SIGINT.
#include <unistd.h>

#include <ostream>
#include <utility>

#include "agent/base/log.h"
#include "agent/cli/verbs.h"
#include "agent/service.h"

namespace bide::cli {

int verb_serve(Console& console, const Arguments& arguments, flow::Registry registry) {
  const LoadedConfig loaded = load_config(surroundings_of_process(), arguments.config, arguments.flags);
  if (arguments.print_config) {
    console.out << print_config(loaded);
    return kDone;
  }
  log::set_level(loaded.config.log_level);
  Service::block_signals();
  Service service(loaded.config, std::move(registry));
  service.start();
  service.wait_for_signal();
  // Code that ignores the stop would hold the destructors for ever; what is durable is so by its COMMIT.
  if (!service.stop()) ::_exit(kDone);
  return kDone;
}

}  // namespace bide::cli
