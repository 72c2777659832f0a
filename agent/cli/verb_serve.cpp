// bide serve: the agent itself, until SIGTERM or SIGINT.
#include <ostream>

#include "agent/base/log.h"
#include "agent/cli/verbs.h"

namespace bide::cli {

int verb_serve(Console& console, const Arguments& arguments) {
  const LoadedConfig loaded = load_config(surroundings_of_process(), arguments.config, arguments.flags);
  if (arguments.print_config) {
    console.out << print_config(loaded);
    return kDone;
  }
  log::set_level(loaded.config.log_level);
  console.err << "bide: this build has no service\n";
  return kFailed;
}

}  // namespace bide::cli
