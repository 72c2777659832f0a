#include "agent/base/thread_name.h"

#include <sys/prctl.h>

namespace bide {

void name_thread(const char* name) { ::prctl(PR_SET_NAME, name); }

}  // namespace bide
