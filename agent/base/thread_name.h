// A name for the calling thread, as `top -H`, `ps -L` and debuggers show it. At most 15 bytes, the rest is cut off.
// Threads: any. Failures: none that matter; a thread without a name works as well.
#pragma once

namespace bide {

void name_thread(const char* name);

}  // namespace bide
