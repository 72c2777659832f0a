#include "agent/base/crash_point.h"

#if defined(BIDE_CRASH_POINTS)

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

namespace bide {
namespace {

struct Armed {
  std::string name;
  std::atomic<int> left{1};
  Armed() {
    const char* at = std::getenv("BIDE_CRASH_AT");
    if (at == nullptr) return;
    name = at;
    const auto colon = name.rfind(':');
    if (colon == std::string::npos) return;
    left = std::atoi(name.c_str() + colon + 1);
    name.resize(colon);
  }
};

}  // namespace

void crash_point(const char* name) {
  static Armed armed;
  if (armed.name.empty() || armed.name != name) return;
  if (armed.left.fetch_sub(1) == 1) ::kill(::getpid(), SIGKILL);
}

}  // namespace bide

#endif
