// Access to a file or folder for one user more, by a POSIX ACL (acl(5)): nobody else gains anything, as a wider mode
// would let them. Links are never followed.
// Threads: any, but two that change the same path must take turns. Failures: std::runtime_error that names the path and
// what to do (a file system without ACLs, say).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace bide {

inline constexpr unsigned kMayRead = 4;
inline constexpr unsigned kMayWrite = 2;
inline constexpr unsigned kMayEnter = 1;  // pass through a folder, or execute

// `uid` may do this too (bits as above), beside what it may already. One whose mode lets everybody do it is left alone.
void allow_user(const std::string& path, uid_t uid, unsigned may);
// Users named in its ACL; none if it has none, or if that cannot be read.
[[nodiscard]] std::vector<uid_t> users_allowed(const std::string& path);

}  // namespace bide
