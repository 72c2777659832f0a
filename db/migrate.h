// Migrations: numbered SQL files, each applied once in a transaction of its own, remembered with its SHA-256 in the
// table `migrations`. Called at a start, with the lock held, before anything else uses the file.
// Failures: ConfigFault for a file that is not ours, or that holds a migration which this program does not know or
// knows with other bytes; nothing of such a file is changed. Bug for a set that is not numbered 1, 2, 3 ….
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "agent/base/time.h"
#include "db/connection.h"
#include "db/embedded.h"

namespace bide::db {

inline constexpr std::int64_t kApplicationId = 0x62696465;  // "bide"

// Looks at the file through a read-only connection. Does nothing for one that does not exist or is empty.
void check_file(const std::string& path, const std::string& vfs, std::span<const EmbeddedFile> migrations);
// Applies what is missing. Returns how many were applied.
int migrate(Connection& writer, std::span<const EmbeddedFile> migrations, TimeMs now);

}  // namespace bide::db
