// Named places at which a test kills the process (SIGKILL to itself): crash_point("outbox.sent_before_delete").
// BIDE_CRASH_AT=name or name:n (the n-th pass) arms one. Compiled out without BIDE_CRASH_POINTS.
// A test lists them all from the source and kills a real process at each; a point without a test fails.
#pragma once

namespace bide {

#if defined(BIDE_CRASH_POINTS)
void crash_point(const char* name);
#else
inline void crash_point(const char*) {}
#endif

}  // namespace bide
