// What a run is tied to, for who looks at it: its version, what it was forked from, the run that started it. Pure
// reading, any ReadTx. Failures: an unknown run has no links.
#pragma once

#include <optional>
#include <string>

#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

struct RunLinks {
  std::string version;  // as its workflow's versions are called
  RunId forked_from;    // invalid: it was not [X4]
  RunId parent;         // invalid: nobody's child [A11]
};
[[nodiscard]] RunLinks run_links(db::ReadTx& tx, RunId run);

// Who has voted on an approval so far [A7]: [{"by","decision","at"}], oldest first.
[[nodiscard]] std::string votes_json(db::ReadTx& tx, WaitId wait);

}  // namespace bide::kernel
