// Empty without the option. (The word that CMake looks for: BIDE_PLANTED().)
#include "agent/base/planted.h"

#if defined(BIDE_PLANTED_BUGS)

namespace bide {
namespace {
Planted current = Planted::none;  // set before threads start, and only read then
}

bool planted(Planted bug) { return current == bug; }

bool plant(std::string_view name) {
  current = Planted::none;
  if (name == "none") return true;
#define BIDE_PLANTED_FIND(bug, rule, what) \
  if (name == #bug) current = Planted::bug;
  BIDE_PLANTED_LIST(BIDE_PLANTED_FIND)
#undef BIDE_PLANTED_FIND
  return current != Planted::none;
}

}  // namespace bide

#endif
