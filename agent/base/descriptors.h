// How many descriptors this process may have open. One process, one limit: set once, while it starts.
// Failures: none; a limit that cannot be raised is the one that counts. Thread-safe.
#pragma once

#include <cstddef>

namespace bide {

// Raises the soft limit as far as the system lets us, to limits::kDescriptors at most. Gives the limit that holds now.
std::size_t raise_descriptor_limit();
// Gives another process of ours the limit that this one had before: programs that still use select(2) break beyond
// 1024, and what a program may open is the operator's business. Nothing happens if nothing was raised.
void restore_descriptor_limit(int pid);

}  // namespace bide
