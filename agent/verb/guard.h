// The guard of an attempt: the process between the agent and a program, so that nothing of it is ever left [K7].
// It is subreaper of all below, starts the program when it is told, and ends everything when it is told or when the
// agent's end of the pipe closes. One thread. It outlives its agent only for as long as that takes.
#pragma once

namespace bide::verb {

// `argv` is the program with its arguments. Returns the guard's exit code.
int run_guard(char** argv);

}  // namespace bide::verb
