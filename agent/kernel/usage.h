// Usage: numbers by name that steps report, summed by run and by mission, each entry once [J7].
#pragma once

#include <string>
#include <string_view>

#include "agent/kernel/runs.h"
#include "agent/kernel/usage_numbers.h"
#include "db/tx.h"

namespace bide::kernel {

// {"tokens":120,"cost":0.5}; members that are not numbers are ignored. And back: whole numbers without a point.
[[nodiscard]] Usage parse_usage(std::string_view document);
[[nodiscard]] std::string to_json(const Usage& usage);
void add_usage(Usage& sum, const Usage& more);

// Of the settled entries of a run. An entry that a child settled holds the child's sum; a copied one what it cost then.
[[nodiscard]] Usage run_usage(db::ReadTx& tx, RunId run);
// Of all runs of a mission: what each did itself, so that neither a child nor a copy counts twice.
[[nodiscard]] Usage mission_usage(db::ReadTx& tx, std::string_view mission);

}  // namespace bide::kernel
