// What a run that was killed after every verb did otherwise than a straight one, and where that comes from: code
// between two verbs that does not bear repeating. A pure function of the traces.
#pragma once

#include <string>
#include <vector>

#include "agent/work/rehearsal.h"

namespace bide::work {

struct RehearsalDifference {
  std::string after;   // "after step fetch (verb 2)", "before the first verb"; empty: nobody can tell
  std::string what;    // "file log.txt has 2 lines, a straight run has 1"
  std::string advice;  // what to write instead
  // All of it as one sentence.
  [[nodiscard]] std::string sentence() const;
};

// `again`: a second straight run, or null. What differs between two straight runs differs by itself and is no finding.
[[nodiscard]] std::vector<RehearsalDifference> differences(const RehearsalTrace& straight, const RehearsalTrace& killed,
                                                           const RehearsalTrace* again);

}  // namespace bide::work
