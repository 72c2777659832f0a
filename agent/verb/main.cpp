// The static front `bide`: the workflow verbs and the guard of an attempt. All else is bide-agent beside it.
#include <cstring>

#include "agent/base/guard_protocol.h"
#include "agent/verb/guard.h"

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], bide::guard_protocol::kMode) == 0) return bide::verb::run_guard(argv + 2);
  return 2;
}
