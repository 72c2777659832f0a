#include "agent/work/log_cut.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/fd.h"

namespace bide::work {
namespace {

constexpr std::int64_t kMost = 32 << 20;  // on the disk: a thousand chatty runs are 32 GB (guess)
constexpr std::int64_t kHead = 1 << 20;   // how it began is what people look for first …
constexpr std::int64_t kTail = 8 << 20;   // … and how it ended
constexpr std::int64_t kPage = 4096;      // holes are of whole pages
constexpr std::int64_t kBlock = 512;      // of st_blocks

}  // namespace

std::optional<LogCut> cut_log(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || found.st_blocks * kBlock <= kMost) return std::nullopt;
  const LogCut cut{kHead, (found.st_size - kTail) / kPage * kPage};
  if (cut.until <= cut.from) return std::nullopt;
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  const int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (!fd.valid() || ::fallocate(fd.get(), how, cut.from, cut.until - cut.from) != 0) return std::nullopt;
  return cut;
}

}  // namespace bide::work
