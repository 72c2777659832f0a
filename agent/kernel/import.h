// A run whose journal was recorded in another file, put into this one to be replayed and for nothing else: what
// `bide check` does in a file of its own. No run that goes on is ever made so.
#pragma once

#include <string>
#include <vector>

#include "agent/kernel/runs.h"
#include "agent/kernel/steps.h"
#include "db/tx.h"

namespace bide::kernel {

struct ImportRun {
  RunId id;  // the number that it has there; larger than all that are here
  WorkflowId workflow;
  VersionId version;
  std::string uid;
  std::string input;
  std::string created_by;
  std::vector<StepRow> journal;  // an entry that is not settled there is cancelled here: nobody goes on with it
};
// Queued, and due now.
void import_run(db::Tx& tx, const ImportRun& run, TimeMs now);

}  // namespace bide::kernel
