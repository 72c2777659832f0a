// Each state × each verb: one verdict and the state after it. A pair that has no verdict here fails.
#include <catch2/catch.hpp>

#include <array>
#include <functional>
#include <map>

#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using namespace bide::kernel;
using bide::test::KernelFixture;

namespace {

// A verb's verdict, or "bug"/"corrupt" for what kernel and file refuse by an exception. Whatever it threw is rolled
// back.
std::string verdict_of(KernelFixture& f, const std::function<std::string(db::Tx&)>& verb) {
  try {
    return f.store->write(verb);
  } catch (const Bug&) {
    return "bug";
  } catch (const CorruptData&) {
    return "corrupt";
  }
}

template <std::size_t N>
struct Row {
  const char* verb;
  std::array<const char*, N> verdicts;  // a missing one is null, and fails
};

const char* code(const Problem& p) { return p.code.c_str(); }

// ---- Runs ----------------------------------------------------------------------------------------------------------

enum class RunAt {
  queued,
  running,
  stale,
  waiting,
  completed,
  failed,
  cancelled
};  // stale: running under a newer epoch
constexpr std::array kRunsAt = {RunAt::queued,    RunAt::running, RunAt::stale,    RunAt::waiting,
                                RunAt::completed, RunAt::failed,  RunAt::cancelled};

RunStatus status_of(RunAt at) {
  switch (at) {
    case RunAt::queued: return RunStatus::queued;
    case RunAt::running:
    case RunAt::stale: return RunStatus::running;
    case RunAt::waiting: return RunStatus::waiting;
    case RunAt::completed: return RunStatus::completed;
    case RunAt::failed: return RunStatus::failed;
    case RunAt::cancelled: return RunStatus::cancelled;
  }
  return RunStatus::queued;
}

using RunVerb = std::function<std::string(KernelFixture&, db::Tx&, const Fence&)>;

std::string finished(Finished how) {
  switch (how) {
    case Finished::completed: return "completed";
    case Finished::failed: return "failed";
    case Finished::cancelled: return "cancelled";
    case Finished::compensate: return "compensates";
    case Finished::lease_lost: return "lost";
    case Finished::queued_again: return "queued again";
  }
  return "";
}

const std::map<std::string, RunVerb>& run_verbs() {
  static const std::map<std::string, RunVerb> verbs = {
      {"claim",
       [](KernelFixture& f, db::Tx& tx, const Fence&) -> std::string {
         return std::holds_alternative<Claimed>(claim_next(tx, f.rules(), tx.now())) ? "claimed" : "nothing";
       }},
      {"hand_back",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         return hand_back(tx, fence, tx.now(), "", tx.now()) ? "done" : "lost";
       }},
      {"suspend",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         const auto outcome = suspend_run(tx, fence, {}, tx.now());
         if (std::holds_alternative<Suspended>(outcome)) return "suspended";
         return std::holds_alternative<GoOn>(outcome) ? "go_on" : "lost";
       }},
      {"finish",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) {
         return finished(finish_run(tx, fence, Finish{"1", std::nullopt}, tx.now()));
       }},
      {"finish_with_error",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) {
         return finished(finish_run(tx, fence, Finish{std::nullopt, R"({"code":"X"})"}, tx.now()));
       }},
      {"record_error",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         return record_error(tx, fence, R"({"code":"X"})", tx.now()) ? "done" : "lost";
       }},
      {"cancel",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         const auto outcome = cancel_run(tx, fence.run, "ada", "why", tx.now());
         if (std::holds_alternative<CancelEnded>(outcome)) return "ended";
         return std::holds_alternative<CancelTold>(outcome) ? "told" : "already";
       }},
      {"recover",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         return recover_run(tx, fence.run, fence.epoch, tx.now()) == Recovered::queued ? "done" : "lost";
       }},
      {"abandon",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         return abandon_attempt(tx, fence, tx.now()) ? "done" : "lost";
       }},
      {"retry",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         const auto outcome = retry_run(tx, fence.run, "ada", tx.now());
         const auto* problem = std::get_if<Problem>(&outcome);
         return problem == nullptr ? "retried" : code(*problem);
       }},
      {"wake",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         const Woke woke = wake_run(tx, fence.run, tx.now());
         return woke == Woke::queued ? "woken" : woke == Woke::ring_attempt ? "ring" : "nobody";
       }},
      {"fail_queued",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         fail_queued(tx, fence.run, R"({"code":"CrashLoop"})", tx.now());
         return "done";
       }},
      {"end_cancelled",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         end_cancelled(tx, fence.run, tx.now());
         return "done";
       }},
      {"signal",
       [](KernelFixture& f, db::Tx& tx, const Fence& fence) -> std::string {
         const auto outcome = send_signal(tx, fence.run, "s", "{}", std::nullopt, f.person(), tx.now());
         const auto* problem = std::get_if<Problem>(&outcome);
         return problem == nullptr ? "sent" : code(*problem);
       }},
      {"decide_early",
       [](KernelFixture& f, db::Tx& tx, const Fence& fence) -> std::string {
         const std::string body = R"({"decision":"approved"})";
         const auto decision = std::get<Decision>(parse_decision(body));
         const auto outcome = resolve_named(tx, fence.run, "gate", decision, body, f.person(), tx.now());
         const auto* problem = std::get_if<Problem>(&outcome);
         return problem == nullptr ? "kept" : code(*problem);
       }},
      {"write_intent",
       [](KernelFixture&, db::Tx& tx, const Fence& fence) -> std::string {
         StepIntent intent;
         intent.position = "/1";
         intent.seq = 1;
         intent.request_hash = std::string(32, 'h');
         return std::holds_alternative<LeaseLost>(write_intent(tx, fence, intent, true, tx.now())) ? "lost" : "done";
       }},
  };
  return verbs;
}

// clang-format off
// Columns: queued, running, stale, waiting, completed, failed, cancelled.
const std::vector<Row<7>> kRunTable = {
    {"claim", {"claimed>running", "nothing>running", "nothing>running", "nothing>waiting", "nothing>completed", "nothing>failed", "nothing>cancelled"}},
    {"hand_back", {"lost>queued", "done>queued", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
    {"suspend", {"lost>queued", "suspended>waiting", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
    {"finish", {"lost>queued", "completed>completed", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
    {"finish_with_error", {"lost>queued", "failed>failed", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
    {"record_error", {"lost>queued", "done>running", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
    {"cancel", {"ended>cancelled", "told>running", "told>running", "ended>cancelled", "already>completed", "already>failed", "already>cancelled"}},
    {"recover", {"lost>queued", "done>queued", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
    {"abandon", {"lost>queued", "done>queued", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
    {"retry", {"not_failed>queued", "not_failed>running", "not_failed>running", "not_failed>waiting", "not_failed>completed", "retried>queued", "not_failed>cancelled"}},
    {"wake", {"woken>queued", "ring>running", "ring>running", "woken>queued", "nobody>completed", "nobody>failed", "nobody>cancelled"}},
    {"fail_queued", {"done>failed", "bug>running", "bug>running", "bug>waiting", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"end_cancelled", {"done>cancelled", "bug>running", "bug>running", "done>cancelled", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"signal", {"sent>queued", "sent>running", "sent>running", "sent>waiting", "run_ended>completed", "run_ended>failed", "run_ended>cancelled"}},
    {"decide_early", {"kept>queued", "kept>running", "kept>running", "kept>waiting", "run_ended>completed", "run_ended>failed", "run_ended>cancelled"}},
    {"write_intent", {"lost>queued", "done>running", "lost>running", "lost>waiting", "lost>completed", "lost>failed", "lost>cancelled"}},
};
// clang-format on

bool refusal(const std::string& verdict) {
  return verdict == "lost" || verdict == "bug" || verdict == "nothing" || verdict == "already" || verdict == "nobody" ||
         verdict == "not_failed" || verdict == "run_ended" || verdict == "corrupt";
}

// ---- Steps ---------------------------------------------------------------------------------------------------------

constexpr std::array kStepsAt = {StepStatus::pending,   StepStatus::started, StepStatus::needs_reconcile,
                                 StepStatus::completed, StepStatus::failed,  StepStatus::cancelled};

using StepVerb = std::function<std::string(db::Tx&, const Fence&, StepId)>;

std::string recorded(const RecordOutcome& outcome) {
  return std::holds_alternative<Recorded>(outcome) ? "done" : "lost";
}

std::string failed_with(db::Tx& tx, const Fence& fence, StepId step, std::optional<TimeMs> retry_at) {
  Failure failure;
  failure.known = step;
  failure.error = R"({"code":"X"})";
  failure.retry_at = retry_at;
  return recorded(fail_step(tx, fence, failure, tx.now()));
}

const std::map<std::string, StepVerb>& step_verbs() {
  static const std::map<std::string, StepVerb> verbs = {
      {"complete",
       [](db::Tx& tx, const Fence& fence, StepId step) {
         Completion done;
         done.known = step;
         done.result = "2";
         return recorded(complete_step(tx, fence, done, tx.now()));
       }},
      {"fail", [](db::Tx& tx, const Fence& fence, StepId step) { return failed_with(tx, fence, step, std::nullopt); }},
      {"fail_with_retry",
       [](db::Tx& tx, const Fence& fence, StepId step) { return failed_with(tx, fence, step, tx.now() + 1); }},
      {"start_again",
       [](db::Tx& tx, const Fence& fence, StepId step) -> std::string {
         return start_again(tx, fence, step, "n", tx.now()) ? "done" : "lost";
       }},
      {"settle",
       [](db::Tx& tx, const Fence& fence, StepId step) -> std::string {
         return settle_step(tx, fence, step, "3", tx.now()) ? "done" : "lost";
       }},
      {"put_in_doubt",
       [](db::Tx& tx, const Fence& fence, StepId step) -> std::string {
         return std::holds_alternative<WaitId>(put_in_doubt(tx, fence, step, "none", tx.now())) ? "done" : "lost";
       }},
      {"finish",
       [](db::Tx& tx, const Fence& fence, StepId) {
         return finished(finish_run(tx, fence, Finish{"1", std::nullopt}, tx.now()));
       }},
      {"hand_back",
       [](db::Tx& tx, const Fence& fence, StepId) -> std::string {
         return hand_back(tx, fence, tx.now(), "", tx.now()) ? "done" : "lost";
       }},
      {"abandon",
       [](db::Tx& tx, const Fence& fence, StepId) -> std::string {
         return abandon_attempt(tx, fence, tx.now()) ? "done" : "lost";
       }},
  };
  return verbs;
}

// clang-format off
// Columns: pending, started, needs_reconcile, completed, failed, cancelled. The step is non_idempotent.
const std::vector<Row<6>> kStepTable = {
    {"complete", {"bug>pending", "done>completed", "bug>needs_reconcile", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"fail", {"bug>pending", "done>failed", "bug>needs_reconcile", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"fail_with_retry", {"bug>pending", "done>pending", "bug>needs_reconcile", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"start_again", {"done>started", "done>started", "done>started", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"settle", {"done>completed", "done>completed", "done>completed", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"put_in_doubt", {"bug>pending", "done>needs_reconcile", "bug>needs_reconcile", "bug>completed", "bug>failed", "bug>cancelled"}},
    {"finish", {"completed>cancelled", "completed>needs_reconcile", "completed>needs_reconcile", "completed>completed", "completed>failed", "completed>cancelled"}},
    {"hand_back", {"done>pending", "done>started", "done>needs_reconcile", "done>completed", "done>failed", "done>cancelled"}},
    {"abandon", {"done>pending", "done>started", "done>needs_reconcile", "done>completed", "done>failed", "done>cancelled"}},
};
// clang-format on

// ---- Waits ---------------------------------------------------------------------------------------------------------

enum class WaitAt {
  pending,
  overdue,
  resolved,
  expired,
  cancelled
};  // overdue: pending, its deadline was a moment ago
constexpr std::array kWaitsAt = {WaitAt::pending, WaitAt::overdue, WaitAt::resolved, WaitAt::expired,
                                 WaitAt::cancelled};

WaitStatus status_of(WaitAt at) {
  switch (at) {
    case WaitAt::pending:
    case WaitAt::overdue: return WaitStatus::pending;
    case WaitAt::resolved: return WaitStatus::resolved;
    case WaitAt::expired: return WaitStatus::expired;
    case WaitAt::cancelled: return WaitStatus::cancelled;
  }
  return WaitStatus::pending;
}

using WaitVerb = std::function<std::string(KernelFixture&, db::Tx&, const WaitRow&)>;

std::string decide(KernelFixture& f, db::Tx& tx, WaitId wait, const std::string& word) {
  Decision decision;
  decision.decision = word;
  const auto outcome = resolve_wait(tx, wait, decision, f.person(), tx.now());
  if (std::holds_alternative<WaitResolved>(outcome)) return "resolved";
  if (std::holds_alternative<SameDecision>(outcome)) return "same";
  if (std::holds_alternative<VoteCounted>(outcome)) return "vote";
  return std::get<Problem>(outcome).code;
}

const std::map<std::string, WaitVerb>& wait_verbs() {
  static const std::map<std::string, WaitVerb> verbs = {
      {"approve", [](KernelFixture& f, db::Tx& tx, const WaitRow& wait) { return decide(f, tx, wait.id, "approved"); }},
      {"deny", [](KernelFixture& f, db::Tx& tx, const WaitRow& wait) { return decide(f, tx, wait.id, "denied"); }},
      {"expire",
       [](KernelFixture&, db::Tx& tx, const WaitRow&) -> std::string {
         return expire_waits(tx, 10, tx.now()).empty() ? "none" : "done";
       }},
      {"cancel",
       [](KernelFixture&, db::Tx& tx, const WaitRow& wait) -> std::string {
         return cancel_waits(tx, wait.run, tx.now()) == 0 ? "none" : "done";
       }},
      {"settle_from_wait",
       [](KernelFixture& f, db::Tx& tx, const WaitRow& wait) -> std::string {
         return settle_from_wait(tx, f.fence(wait.run), wait, tx.now()) ? "done" : "lost";
       }},
  };
  return verbs;
}

// clang-format off
// Columns: pending, overdue, resolved (approved), expired, cancelled.
const std::vector<Row<5>> kWaitTable = {
    {"approve", {"resolved>resolved", "wait_expired>pending", "same>resolved", "wait_expired>expired", "wait_cancelled>cancelled"}},
    {"deny", {"resolved>resolved", "wait_expired>pending", "wait_decided>resolved", "wait_expired>expired", "wait_cancelled>cancelled"}},
    {"expire", {"none>pending", "done>expired", "none>resolved", "none>expired", "none>cancelled"}},
    {"cancel", {"done>cancelled", "done>cancelled", "none>resolved", "none>expired", "none>cancelled"}},
    {"settle_from_wait", {"bug>pending", "bug>pending", "done>resolved", "done>expired", "bug>cancelled"}},
};
// clang-format on

template <std::size_t N>
const Row<N>& row_of(const std::vector<Row<N>>& table, const std::string& verb) {
  for (const auto& row : table) {
    if (row.verb == verb) return row;
  }
  FAIL("no row for the verb " << verb);
  throw Bug("unreachable");
}

}  // namespace

TEST_CASE("every state of a run × every verb has one verdict") {
  KernelFixture f;
  REQUIRE(kRunTable.size() == run_verbs().size());
  for (const auto& [verb, act] : run_verbs()) {
    const auto& row = row_of(kRunTable, verb);
    for (std::size_t i = 0; i < kRunsAt.size(); ++i) {
      const RunStatus from = status_of(kRunsAt[i]);
      CAPTURE(verb, to_text(from), i);
      const RunId run = f.make_run(from);
      Fence fence = f.fence(run);
      if (kRunsAt[i] == RunAt::stale) --fence.epoch;
      const std::int64_t events = f.events();
      const std::string verdict = verdict_of(f, [&, &act = act](db::Tx& tx) { return act(f, tx, fence); });
      const RunStatus to = f.run(run).status;
      REQUIRE(row.verdicts[i] != nullptr);
      CHECK(verdict + ">" + std::string(to_text(to)) == row.verdicts[i]);
      CHECK((from == to || legal(from, to)));
      if (refusal(verdict)) CHECK(f.events() == events);  // a refusal leaves nothing behind
      if (!terminal(to)) (void)f.store->write([&](db::Tx& tx) { return cancel_run(tx, run, "", "", tx.now()); });
      if (to == RunStatus::running)
        (void)f.store->write([&](db::Tx& tx) {
          return finish_run(tx, {run, f.run(run).epoch, KernelFixture::kOwner}, {}, tx.now());
        });
    }
  }
}

TEST_CASE("every state of a step × every verb has one verdict, and none under an old epoch") {
  KernelFixture f;
  REQUIRE(kStepTable.size() == step_verbs().size());
  for (const auto& [verb, act] : step_verbs()) {
    const auto& row = row_of(kStepTable, verb);
    for (std::size_t i = 0; i < kStepsAt.size(); ++i) {
      CAPTURE(verb, to_text(kStepsAt[i]));
      const RunId run = f.make_run(RunStatus::running);
      const StepId step = f.make_step(run, kStepsAt[i]);
      // K2: the same under an old epoch, and under another owner, changes nothing.
      for (const Fence& stale : {Fence{run, KernelFixture::kEpoch - 1, KernelFixture::kOwner},
                                 Fence{run, KernelFixture::kEpoch, "local:other"}}) {
        CHECK(verdict_of(f, [&, &act = act](db::Tx& tx) { return act(tx, stale, step); }) == "lost");
        CHECK(f.step(step).status == kStepsAt[i]);
        CHECK(f.run(run).status == RunStatus::running);
      }
      const std::string verdict = verdict_of(f, [&, &act = act](db::Tx& tx) { return act(tx, f.fence(run), step); });
      const StepStatus to = f.step(step).status;
      REQUIRE(row.verdicts[i] != nullptr);
      CHECK(verdict + ">" + std::string(to_text(to)) == row.verdicts[i]);
      CHECK((to == kStepsAt[i] || legal(kStepsAt[i], to)));
    }
  }
}

TEST_CASE("a cancel and a retry put every step into the state that X1 and X3 say") {
  KernelFixture f;
  struct Expected {
    StepStatus before;
    Effect effect;
    StepKind kind;
    StepStatus after_cancel;
    StepStatus after_retry;
  };
  const auto rows = std::to_array<Expected>({
      {StepStatus::pending, Effect::non_idempotent, StepKind::step, StepStatus::cancelled, StepStatus::pending},
      {StepStatus::started, Effect::non_idempotent, StepKind::step, StepStatus::needs_reconcile, StepStatus::started},
      {StepStatus::started, Effect::idempotent, StepKind::step, StepStatus::cancelled, StepStatus::pending},
      {StepStatus::started, Effect::pure, StepKind::step, StepStatus::cancelled, StepStatus::pending},
      {StepStatus::started, Effect::pure, StepKind::approval, StepStatus::cancelled, StepStatus::started},
      {StepStatus::needs_reconcile, Effect::non_idempotent, StepKind::step, StepStatus::needs_reconcile,
       StepStatus::started},
      {StepStatus::completed, Effect::non_idempotent, StepKind::step, StepStatus::completed, StepStatus::completed},
      {StepStatus::failed, Effect::non_idempotent, StepKind::step, StepStatus::failed, StepStatus::pending},
  });
  const std::string of_the_step = R"({"code":"E","message":"m"})";  // as a failed step of the fixture has it
  for (const auto& expected : rows) {
    CAPTURE(to_text(expected.before), to_text(expected.effect), to_text(expected.kind));
    const RunId cancelled = f.make_run(RunStatus::waiting);
    const StepId one = f.make_step(cancelled, expected.before, expected.kind, expected.effect);
    (void)f.store->write([&](db::Tx& tx) { return cancel_run(tx, cancelled, "ada", "", tx.now()); });
    CHECK(f.step(one).status == expected.after_cancel);

    const RunId failed = f.make_run(RunStatus::running);
    const StepId two = f.make_step(failed, expected.before, expected.kind, expected.effect);
    if (expected.kind == StepKind::approval) (void)f.make_wait(failed, two, WaitStatus::pending);
    CHECK(f.store->write([&](db::Tx& tx) {
      return finish_run(tx, f.fence(failed), {std::nullopt, of_the_step}, tx.now());
    }) == Finished::failed);
    const auto retried = f.store->write([&](db::Tx& tx) { return retry_run(tx, failed, "ada", tx.now()); });
    CHECK(std::holds_alternative<RunRetried>(retried));
    CHECK(f.step(two).status == expected.after_retry);
    if (expected.kind == StepKind::approval) {
      const auto waits = f.store->read([&](db::ReadTx& tx) { return pending_waits(tx, failed); });
      REQUIRE(waits.size() == 1);  // a new wait; the old one stays cancelled
      CHECK(waits[0].step == two);
    }
  }
}

TEST_CASE("a retry leaves alone a failed step that is not what the run failed with") {
  KernelFixture f;
  const RunId run = f.make_run(RunStatus::running);
  const StepId caught = f.make_step(run, StepStatus::failed);
  (void)f.store->write([&](db::Tx& tx) {
    return finish_run(tx, f.fence(run), {std::nullopt, R"({"code":"X","message":"of the code"})"}, tx.now());
  });
  CHECK(std::holds_alternative<RunRetried>(
      f.store->write([&](db::Tx& tx) { return retry_run(tx, run, "ada", tx.now()); })));
  CHECK(f.step(caught).status == StepStatus::failed);
}

TEST_CASE("every state of a wait × every verb has one verdict") {
  KernelFixture f;
  REQUIRE(kWaitTable.size() == wait_verbs().size());
  for (const auto& [verb, act] : wait_verbs()) {
    const auto& row = row_of(kWaitTable, verb);
    for (std::size_t i = 0; i < kWaitsAt.size(); ++i) {
      const WaitStatus from = status_of(kWaitsAt[i]);
      CAPTURE(verb, to_text(from), i);
      const RunId run = f.make_run(RunStatus::running);
      const StepId step = f.make_step(run, StepStatus::started, StepKind::approval, Effect::pure);
      std::optional<TimeMs> deadline;
      if (kWaitsAt[i] == WaitAt::overdue) deadline = f.store->now() - 1;
      const WaitId wait = f.make_wait(run, step, from, WaitKind::approval, deadline);
      const WaitRow before = f.wait(wait);
      const std::string verdict = verdict_of(f, [&, &act = act](db::Tx& tx) { return act(f, tx, before); });
      const WaitStatus to = f.wait(wait).status;
      REQUIRE(row.verdicts[i] != nullptr);
      CHECK(verdict + ">" + std::string(to_text(to)) == row.verdicts[i]);
      CHECK((from == to || legal(from, to)));
      (void)f.store->write([&](db::Tx& tx) { return finish_run(tx, f.fence(run), {}, tx.now()); });
    }
  }
}

TEST_CASE("a timer is never settled before its time, nor twice") {
  KernelFixture f;
  const RunId run = f.make_run(RunStatus::running);
  const StepId step = f.make_step(run, StepStatus::started, StepKind::timer, Effect::pure);
  const WaitId wait = f.make_wait(run, step, WaitStatus::pending, WaitKind::timer, f.store->now() + 1000);
  const auto settle = [&] {
    return verdict_of(f, [&](db::Tx& tx) -> std::string {
      return settle_timer(tx, f.fence(run), *read_wait(tx, wait), tx.now()) ? "done" : "lost";
    });
  };
  f.clock.advance(999);
  CHECK(settle() == "bug");
  CHECK(f.wait(wait).status == WaitStatus::pending);
  f.clock.advance(1);
  CHECK(settle() == "done");
  CHECK(f.step(step).status == StepStatus::completed);
  CHECK(settle() == "bug");
}
