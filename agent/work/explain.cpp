#include "agent/work/explain.h"

namespace bide::work {
namespace {

bool at_capacity(db::ReadTx& tx, const Executor& executor, RunId run) {
  const auto row = kernel::read_run(tx, run);
  if (!row) return false;
  const int limit = executor.rules().max_running(row->workflow);
  if (limit <= 0) return false;
  db::Query q(tx, "SELECT count(*) FROM runs WHERE status = 'running' AND workflow_id = ?");
  return q.bind(row->workflow).one().integer(0) >= limit;
}

}  // namespace

std::optional<kernel::Explanation> explain(db::Store& store, const Executor& executor, RunId run) {
  kernel::ExplainFacts facts;
  facts.driven = executor.drives(run);
  facts.clock_held = store.clock().held();
  facts.workers_busy = !executor.idle();
  facts.held_by = executor.held_by(run);
  return store.read([&](db::ReadTx& tx) {
    facts.at_capacity = at_capacity(tx, executor, run);
    return kernel::explain_run(tx, run, facts, store.now());
  });
}

}  // namespace bide::work
