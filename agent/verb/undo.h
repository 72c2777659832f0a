// The program of an attempt that takes steps back [E6]: the agent starts it under a guard like any other program, when
// the run's end is written. It asks what is next, runs it, says how it ended, until nothing is left. One thread.
// An agent that is away is asked again; when it is killed, the next attempt asks anew: what is settled is not repeated.
#pragma once

namespace bide::verb {

// Returns the exit code: 0 when nothing is left.
int run_undo();

}  // namespace bide::verb
