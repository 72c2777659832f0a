// bide-agent: the agent itself and the operators' verbs. The static front `bide` starts it with the same arguments.
#include "agent/bide.h"

int main(int argc, char** argv) { return bide::run_agent(argc, argv, {}); }
