#include "agent/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "agent/base/limits.h"

namespace bide {
namespace {

std::atomic<rlim_t> limit_before{0};  // 0: it is as it was

}  // namespace

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return limits::kDescriptorReserve;
  const rlim_t before = limit.rlim_cur;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, limits::kDescriptors);
  if (wanted <= before) return static_cast<std::size_t>(before);
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return static_cast<std::size_t>(before);
  limit_before.store(before);
  return static_cast<std::size_t>(wanted);
}

void restore_descriptor_limit(int pid) {
  const rlim_t before = limit_before.load();
  rlimit limit{};
  if (before == 0 || ::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) != 0) return;
  limit.rlim_cur = before;
  ::prlimit(pid, RLIMIT_NOFILE, &limit, nullptr);
}

}  // namespace bide
