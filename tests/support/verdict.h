// Reads what a command was answered: verdict(rig.resolve(…)) is "resolved", "vote", "same", "kept", "sent", "repeated"
// or the code of the refusal.
#pragma once

#include <catch2/catch.hpp>

#include <string>
#include <variant>

#include "agent/kernel/endings.h"
#include "agent/kernel/signals.h"
#include "agent/kernel/waits.h"
#include "tests/support/rig.h"

namespace bide::test {

struct Verdict {
  std::string operator()(const kernel::WaitResolved&) const { return "resolved"; }
  std::string operator()(const kernel::VoteCounted&) const { return "vote"; }
  std::string operator()(const kernel::SameDecision&) const { return "same"; }
  std::string operator()(const kernel::DecisionKept&) const { return "kept"; }
  std::string operator()(const kernel::SignalSent&) const { return "sent"; }
  std::string operator()(const kernel::SignalRepeated&) const { return "repeated"; }
  std::string operator()(const kernel::CancelEnded&) const { return "ended"; }
  std::string operator()(const kernel::CancelTold&) const { return "told"; }
  std::string operator()(const kernel::CancelCompensates&) const { return "compensates"; }
  std::string operator()(const kernel::AlreadyEnded&) const { return "already ended"; }
  std::string operator()(const kernel::NoSuchRun&) const { return "no such run"; }
  std::string operator()(const kernel::RunRetried&) const { return "retried"; }
  std::string operator()(const kernel::Forked&) const { return "forked"; }
  std::string operator()(const kernel::PauseChanged&) const { return "changed"; }
  std::string operator()(const kernel::PauseSame&) const { return "same"; }
  std::string operator()(const Problem& p) const { return p.code; }
};

template <class Outcome>
[[nodiscard]] std::string verdict(const Outcome& outcome) {
  return std::visit(Verdict(), outcome);
}

inline constexpr const char* kApproved = R"({"decision":"approved"})";
inline constexpr const char* kDenied = R"({"decision":"denied"})";

// The run's only pending wait.
[[nodiscard]] inline kernel::WaitRow pending_wait(Rig& rig, RunId run) {
  std::vector<kernel::WaitRow> pending;
  for (auto& wait : rig.waits(run)) {
    if (wait.status == kernel::WaitStatus::pending) pending.push_back(std::move(wait));
  }
  REQUIRE(pending.size() == 1);
  return pending.front();
}

// A decision by run and name [A9].
[[nodiscard]] inline kernel::NamedOutcome resolve_named(Rig& rig, RunId run, const std::string& name,
                                                        const std::string& body,
                                                        const kernel::Principal& by = Rig::person()) {
  const auto decision = kernel::parse_decision(body);
  std::optional<kernel::NamedOutcome> result;
  (void)rig.commands->resolve_named(run, name, std::get<kernel::Decision>(decision), body, by, std::nullopt,
                                    [&](const kernel::NamedOutcome& outcome) {
                                      result = outcome;
                                      return work::Answer{};
                                    });
  return *result;
}

}  // namespace bide::test
