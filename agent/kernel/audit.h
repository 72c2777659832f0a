// Every answer, accepted, refused or dropped; outlives the run [A7].
#pragma once

#include <string_view>

#include "agent/kernel/principal.h"
#include "agent/kernel/waits.h"

namespace bide::kernel {

// verdict: accepted | refused | dropped. wait may be null: a decision ahead of its question.
void audit_answer(db::Tx& tx, RunId run, std::string_view name, const WaitRow* wait, const Decision& decision,
                  std::string_view decided_by, std::string_view verdict, std::string_view why, TimeMs now);

}  // namespace bide::kernel
