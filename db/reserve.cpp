#include "db/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "agent/base/fd.h"
#include "agent/base/limits.h"

namespace bide::db {

bool Reserve::make() {
  struct stat there {};
  if (::stat(path_.c_str(), &there) == 0 && there.st_size == static_cast<off_t>(limits::kReserveBytes)) return true;
  Fd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.valid()) return false;
  // Written, not truncated to its length: a hole reserves nothing. Not zeros, which a file system may leave out.
  const std::string block(64 * 1024, 'r');
  for (std::size_t done = 0; done < limits::kReserveBytes; done += block.size()) {
    if (::write(fd.get(), block.data(), block.size()) != static_cast<ssize_t>(block.size())) {
      fd.reset();
      ::unlink(path_.c_str());
      return false;
    }
  }
  return true;
}

bool Reserve::release() { return ::unlink(path_.c_str()) == 0; }

}  // namespace bide::db
