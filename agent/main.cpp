// bide-agent: the agent itself and the operators' verbs. The static front `bide` starts it with the same arguments.
#include <malloc.h>

#include <csignal>

#include "agent/cli/cli.h"

int main(int argc, char** argv) {
  // Debian's SQLite allocates without lookaside, and glibc trims the heap at each commit: up to a third of the time.
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_TOP_PAD, 1 << 20);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  return bide::cli::run(argc, argv);
}
