// Tasks that somebody is at when their run fails: they are let finish and recorded, or compensations would miss them,
// and the run waits for them without an attempt [P1, K8, E6]. What wakes it is the task's outcome, or the end of its
// lease; the claim after that ends the run, or lets finish what is at work still.
// A cancel does not wait: what comes then is a late outcome [X2]. Pure transitions.
#pragma once

#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

[[nodiscard]] bool task_at_work(db::ReadTx& tx, RunId run);
// The error is on the run, or a cancel was asked: nothing of it begins, and nobody is asked about it any more.
[[nodiscard]] bool end_is_written(db::ReadTx& tx, RunId run);
// close_open_steps() for a run that lets its tasks finish: these stay.
void close_all_but_tasks_at_work(db::Tx& tx, RunId run, TimeMs now);
// A running run whose end is written gives its attempt back: waiting.
void wait_for_tasks(db::Tx& tx, RunId run, TimeMs now);

}  // namespace bide::kernel
