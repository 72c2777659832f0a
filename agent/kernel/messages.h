// Messages: what a workflow sends to the world outside, as an entry of its journal and a row of the outbox.
#pragma once

#include <string>

#include "agent/kernel/steps.h"
#include "db/tx.h"

namespace bide::kernel {

struct Message {
  StepIntent intent;  // kind message
  std::string url;
  std::string body;  // JSON, as the author wrote it
  std::string key;   // J6: of the entry, and of every delivery
};
// Entry, row and event are one transaction [O1]; the entry is completed with {"delivery","key"}: the run does not wait
// for the delivery. LeaseLost: nothing was written.
[[nodiscard]] IntentOutcome send_message(db::Tx& tx, const Fence& fence, const Message& message, bool reset_recoveries,
                                         TimeMs now);

}  // namespace bide::kernel
