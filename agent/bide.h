// The whole of bide for a C++ program that has workflows of its own. In its CMakeLists.txt:
//
//   find_package(bide REQUIRED)
//   add_executable(shop main.cpp)
//   target_link_libraries(shop PRIVATE bide::bide)
//
//   #include <bide.h>
//   int main(int argc, char** argv) {
//     bide::flow::Registry registry;
//     registry.add({.name = "order", .version = "1", .run = [](bide::flow::Context& c) { … }});
//     return bide::run_agent(argc, argv, std::move(registry));
//   }
// That program is an agent with all operators' verbs: `shop serve --data DIR`, `shop run order`, `shop inbox`. Who
// wants the agent inside of a process with a main of its own takes Service (agent/service.h).
#pragma once

#include "agent/config.h"
#include "agent/flow/context.h"
#include "agent/flow/registry.h"
#include "agent/flow/undo.h"
#include "agent/service.h"

namespace bide {

// The command line of bide (`bide --help`), whose `serve` has these workflows beside those of the workflows folder.
// Returns the exit code. Takes over SIGPIPE, and SIGTERM and SIGINT while it serves; call it once, from main.
int run_agent(int argc, char** argv, flow::Registry registry);

}  // namespace bide
