#include "tests/sim/plan.h"

#include <algorithm>
#include <functional>

#include "tests/sim/chance.h"

namespace bide::sim {
namespace {

constexpr DurationMs kMinute = 60'000;
constexpr DurationMs kHour = 60 * kMinute;

class Maker {
 public:
  Maker(std::uint64_t seed, PlanKind kind) : chance_(seed), kind_(kind) {}

  Plan make() {
    Plan plan;
    plan.ops = ops(1 + static_cast<int>(chance_.below(6)), 0);
    plan.fails_at_end = chance_.one_in(25);
    plan.continues = kind_ == PlanKind::whole && chance_.one_in(8);
    return plan;
  }

 private:
  std::vector<Op> ops(int count, int depth) {
    std::vector<Op> made;
    for (int i = 0; i < count; ++i) made.push_back(op(depth));
    return made;
  }

  Op op(int depth) {
    Op op;
    op.index = ++last_;
    const auto dice = chance_.below(100);
    if (dice < 36) {
      step(op);
    } else if (dice < 40) {
      op.kind = OpKind::message;
    } else if (dice < 43 && kind_ == PlanKind::whole) {
      op.kind = OpKind::call;
      op.child = chance_.next() >> 12U;
    } else if (dice < 46 && kind_ != PlanKind::program) {
      op.kind = OpKind::first_of;
      op.length = chance_.between(kMinute, 3 * kHour);
    } else if (dice < 50 && op.index <= kMostOps && kind_ != PlanKind::program) {
      step(op);
      task(op);
    } else if (dice < 50) {
      step(op);
    } else if (dice < 60) {
      op.kind = OpKind::approval;
      if (chance_.one_in(2)) op.expires = chance_.between(kMinute, 6 * kHour);
      op.has_fallback = chance_.one_in(3);
      op.quorum = chance_.one_in(4) ? 2 : 1;
      op.policy = chance_.one_in(4) ? "not_initiator" : "any";
    } else if (dice < 66) {
      op.kind = OpKind::question;
      if (chance_.one_in(2)) op.expires = chance_.between(kMinute, 6 * kHour);
      op.has_fallback = chance_.one_in(3);
    } else if (dice < 74) {
      op.kind = OpKind::signal;
      if (chance_.one_in(2)) op.expires = chance_.between(kMinute, 3 * kHour);
    } else if (dice < 87) {
      op.kind = OpKind::sleep;
      op.length = chance_.one_in(3) ? chance_.between(0, 2'000) : chance_.between(1'000, 5 * kHour);
    } else if (dice < 90) {
      op.kind = OpKind::state;
    } else if (dice < 93 || depth > 1) {
      op.kind = OpKind::value;
    } else {
      op.kind = OpKind::branches;
      const int n = 2 + static_cast<int>(chance_.below(2));
      for (int i = 0; i < n; ++i) op.branches.push_back(ops(1 + static_cast<int>(chance_.below(3)), depth + 1));
    }
    op.tolerant = chance_.one_in(2);
    op.name = name_of(op);
    return op;
  }

  void step(Op& op) {
    op.kind = OpKind::step;
    op.effect = chance_.one_in(2)   ? kernel::Effect::non_idempotent
                : chance_.one_in(2) ? kernel::Effect::idempotent
                                    : kernel::Effect::pure;
    if (chance_.one_in(3)) op.retries = static_cast<int>(chance_.below(4));
    if (chance_.one_in(4)) op.backoff = chance_.between(100, 10 * kMinute);
    op.takes = chance_.one_in(3) ? 0 : chance_.between(1, chance_.one_in(4) ? kHour : 5'000);
    if (chance_.one_in(6)) {
      op.timeout = op.takes + chance_.between(1'000, kMinute);
      op.hangs = chance_.one_in(2);
    }
    if (chance_.one_in(3)) op.fails = 1 + static_cast<int>(chance_.below(3));
    op.final_failure = chance_.one_in(10);
    if (op.effect == kernel::Effect::non_idempotent && chance_.one_in(3))
      op.probe = chance_.one_in(3) ? ProbeKind::blind : ProbeKind::truthful;
    op.assumes = chance_.one_in(4);
    op.undone = chance_.one_in(4);
    if (op.undone && chance_.one_in(3)) op.undo_fails = 1 + static_cast<int>(chance_.below(2));
    if (kind_ == PlanKind::program) {
      op.timeout = 0;
      op.hangs = false;
      op.undone = false;
      if (chance_.one_in(3)) op.takes = chance_.between(kMinute, 2 * kHour);  // deaths of the agent come meanwhile
    }
  }

  // Any worker's: it has no timeout, no probe and no compensation.
  static void task(Op& op) {
    op.kind = OpKind::task;
    op.timeout = 0;
    op.hangs = false;
    op.backoff = 0;
    op.probe = ProbeKind::none;
    op.undone = false;
  }

  static std::string name_of(const Op& op) {
    static constexpr const char* kWords[] = {"step",     "approval", "question", "signal",   "sleep", "value",
                                             "branches", "message",  "call",     "first_of", "task",  "state"};
    // Signals share few names: the order in which they are read is a promise.
    if (op.kind == OpKind::signal) return "signal-" + std::to_string(op.index % 2);
    if (op.kind == OpKind::task) return task_name(op.index);
    return std::string(kWords[static_cast<int>(op.kind)]) + "-" + std::to_string(op.index);
  }

  Chance chance_;
  const PlanKind kind_;
  int last_ = 0;
};

}  // namespace

bool Plan::undoes() const {
  const std::function<bool(const std::vector<Op>&)> any = [&](const std::vector<Op>& some) {
    return std::any_of(some.begin(), some.end(), [&](const Op& op) {
      return op.undone || std::any_of(op.branches.begin(), op.branches.end(), any);
    });
  };
  return any(ops);
}

Plan make_plan(std::uint64_t seed, PlanKind kind) { return Maker(seed, kind).make(); }

std::string task_name(int index) { return "task-" + std::to_string(index); }

const Op* find_op(const std::vector<Op>& ops, int index) {
  for (const Op& op : ops) {
    if (op.index == index) return &op;
    for (const auto& branch : op.branches) {
      if (const Op* found = find_op(branch, index)) return found;
    }
  }
  return nullptr;
}

}  // namespace bide::sim
