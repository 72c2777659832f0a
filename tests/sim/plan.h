// Plan: a random workflow, made from one number: the same number gives the same code in every attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/time.h"
#include "agent/kernel/states.h"

namespace bide::sim {

enum class OpKind { step, approval, question, signal, sleep, value, branches, message, call, first_of, task, state };
enum class ProbeKind { none, truthful, blind };  // blind: cannot tell, or throws

struct Op {
  OpKind kind = OpKind::step;
  int index = 0;  // unique in the plan; names are made of it
  std::string name;
  // step
  kernel::Effect effect = kernel::Effect::pure;
  std::optional<int> retries;
  DurationMs backoff = 0;
  DurationMs timeout = 0;
  DurationMs takes = 0;
  bool hangs = false;  // the first execution takes longer than timeout and grace
  int fails = 0;       // so many executions fail
  bool final_failure = false;
  ProbeKind probe = ProbeKind::none;
  bool assumes = false;
  bool undone = false;      // it has a compensation
  int undo_fails = 0;       // so many executions of that fail
  std::uint64_t child = 0;  // call: the child's plan
  // waits
  std::optional<DurationMs> expires;
  bool has_fallback = false;
  int quorum = 1;
  std::string policy = "any";
  DurationMs length = 0;
  bool tolerant = false;  // the code catches the failure and goes on
  std::vector<std::vector<Op>> branches;
};

struct Plan {
  std::vector<Op> ops;
  bool fails_at_end = false;          // the code throws after its last operation
  bool continues = false;             // it goes on as a new run, twice
  [[nodiscard]] bool undoes() const;  // an operation has a compensation
};

enum class PlanKind {
  whole,
  leaf,     // of a child: it calls nobody
  program,  // what a program's verbs do here: steps under holders, waits, values, messages, branches
};
[[nodiscard]] Plan make_plan(std::uint64_t seed, PlanKind kind = PlanKind::whole);
// The function that the task of that index names.
[[nodiscard]] std::string task_name(int index);
inline constexpr int kMostOps = 80;  // no plan has an index over that

// The operation of that index, wherever it stands.
[[nodiscard]] const Op* find_op(const std::vector<Op>& ops, int index);

}  // namespace bide::sim
