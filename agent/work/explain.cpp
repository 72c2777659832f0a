#include "agent/work/explain.h"

#include <charconv>
#include <string_view>

#include "agent/base/text.h"

namespace bide::work {
namespace {

bool at_capacity(db::ReadTx& tx, const Executor& executor, RunId run) {
  const auto row = kernel::read_run(tx, run);
  if (!row) return false;
  const int limit = executor.rules().max_running(row->workflow);
  return limit > 0 && kernel::running_of(tx, row->workflow) >= limit;
}

// "held by pid 812 tar" → 812, "tar"
std::vector<kernel::HeldBy> holders(const std::string& text) {
  static constexpr std::string_view kMark = "pid ";
  const auto at = text.find(kMark);
  if (at == std::string::npos) return {};
  kernel::HeldBy holder;
  const char* begin = text.data() + at + kMark.size();
  const char* end = text.data() + text.size();
  const char* after = std::from_chars(begin, end, holder.pid).ptr;
  holder.what = std::string(trim(std::string_view(after, static_cast<std::size_t>(end - after))));
  return {holder};
}

}  // namespace

std::optional<kernel::Explanation> explain(db::Store& store, const Executor& executor, RunId run) {
  kernel::ExplainFacts facts;
  facts.driven = executor.drives(run);
  facts.clock_held = store.clock().held();
  facts.draining = executor.door().is_shut();
  facts.workers_busy = !executor.idle();
  facts.held_by = holders(executor.held_by(run));
  return store.read([&](db::ReadTx& tx) {
    facts.at_capacity = at_capacity(tx, executor, run);
    return kernel::explain_run(tx, run, facts, store.now());
  });
}

}  // namespace bide::work
