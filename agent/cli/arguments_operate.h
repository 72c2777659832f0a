// What the verbs take that operate an agent or many runs: their part of the command line. Used by arguments.cpp only.
#pragma once

namespace CLI {
class App;
}

namespace bide::cli {

struct Arguments;

void for_many(CLI::App& app, Arguments& a);  // a run, or filters
void for_token(CLI::App& app, Arguments& a);
void for_audit(CLI::App& app, Arguments& a);
void for_drain(CLI::App& app, Arguments& a);

}  // namespace bide::cli
