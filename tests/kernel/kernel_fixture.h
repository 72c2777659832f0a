// A kernel on an inline store: rows in any state are made by hand, so that a verb meets states that its callers avoid.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/kernel/claims.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/runs.h"
#include "agent/kernel/signals.h"
#include "agent/kernel/stalled.h"
#include "agent/kernel/steps.h"
#include "agent/kernel/waits.h"
#include "agent/kernel/workflows.h"
#include "db/store.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_dir.h"

namespace bide::test {

class KernelFixture {
 public:
  static constexpr std::int64_t kEpoch = 3;
  static constexpr const char* kOwner = "local:me";

  KernelFixture() {
    db::StoreOptions options;
    options.directory = dir.str("data");
    options.threaded = false;
    store = std::make_unique<db::Store>(std::move(options), clock);
    version = make_version("flow");
  }

  VersionId make_version(const std::string& name) {
    return store->write([&](db::Tx& tx) {
      return kernel::ensure_version(tx, kernel::ensure_workflow(tx, name), "1", kernel::WorkflowKind::native, "{}",
                                    tx.now());
    });
  }

  RunId make_run(kernel::RunStatus status, std::optional<VersionId> as = std::nullopt) {
    return store->write([&](db::Tx& tx) { return run_in(tx, status, as.value_or(version)); });
  }

  static RunId run_in(db::Tx& tx, kernel::RunStatus status, VersionId version) {
    kernel::StartRun start;
    start.workflow = kernel::read_version(tx, version)->workflow;
    start.version = version;
    start.uid = "u" + std::to_string(tx.next_id(db::Counter::steps));
    start.created_by = "ada";
    const RunId run = std::get<kernel::RunStarted>(kernel::start_run(tx, start, tx.now())).run;
    if (status == kernel::RunStatus::queued) return run;
    std::optional<std::string> owner, result, error;
    std::optional<TimeMs> finished;
    if (status == kernel::RunStatus::running) owner = kOwner;
    if (status == kernel::RunStatus::completed) result = "1";
    if (status == kernel::RunStatus::failed) error = R"({"code":"E","message":"m"})";
    if (kernel::terminal(status)) finished = tx.now();
    db::Query(
        tx,
        "UPDATE runs SET status = ?2, epoch = ?3, owner = ?4, result = ?5, error = ?6, finished_at = ?7 WHERE id = ?1")
        .bind(run, status, kEpoch, owner, result, error, finished)
        .run();
    return run;
  }

  StepId make_step(RunId run, kernel::StepStatus status, kernel::StepKind kind = kernel::StepKind::step,
                   kernel::Effect effect = kernel::Effect::non_idempotent) {
    return store->write([&](db::Tx& tx) { return step_in(tx, run, status, kind, effect); });
  }

  static StepId step_in(db::Tx& tx, RunId run, kernel::StepStatus status, kernel::StepKind kind,
                        kernel::Effect effect) {
    const StepId id(tx.next_id(db::Counter::steps));
    std::optional<TimeMs> not_before;
    std::optional<std::string> result, error;
    if (status == kernel::StepStatus::pending) not_before = tx.now();
    if (status == kernel::StepStatus::completed) result = "1";
    if (status == kernel::StepStatus::failed) error = R"({"code":"E","message":"m"})";
    const std::string hash(32, 'h');
    db::Query(tx,
              "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, not_before, request, "
              "request_hash, epoch, "
              "result, error, created_at, updated_at) VALUES (?1, ?2, '/' || ?1, ?1, ?3, 'pay', ?4, ?5, ?6, 'null', "
              "?7, 3, ?8, ?9, ?10, ?10)")
        .bind(id, run, kind, effect, status, not_before, db::Blob{hash}, result, error, tx.now())
        .run();
    return id;
  }

  WaitId make_wait(RunId run, StepId step, kernel::WaitStatus status,
                   kernel::WaitKind kind = kernel::WaitKind::approval,
                   std::optional<TimeMs> resolve_by = std::nullopt) {
    return store->write([&](db::Tx& tx) {
      const WaitId id(tx.next_id(db::Counter::waits));
      const std::string digest(32, 'd');
      std::optional<std::string> resolution, by;
      std::optional<TimeMs> at;
      if (status == kernel::WaitStatus::resolved) resolution = R"({"decision":"approved","by":"ada"})", by = "ada";
      if (status == kernel::WaitStatus::expired) resolution = R"({"expired":true})";
      if (status != kernel::WaitStatus::pending) at = tx.now();
      db::Query(tx,
                "INSERT INTO waits (id, run_id, step_id, kind, name, status, payload, digest, resolve_by, resolution, "
                "resolved_by, "
                "created_at, resolved_at) VALUES (?,?,?,?,'gate',?,'{\"text\":\"go on?\"}',?,?,?,?,?,?)")
          .bind(id, run, step, kind, status, db::Blob{digest}, resolve_by, resolution, by, tx.now(), at)
          .run();
      return id;
    });
  }

  [[nodiscard]] kernel::RunRow run(RunId id) {
    return store->read([&](db::ReadTx& tx) { return kernel::read_run(tx, id).value(); });
  }
  [[nodiscard]] kernel::StepRow step(StepId id) {
    return store->read([&](db::ReadTx& tx) { return kernel::read_step(tx, id).value(); });
  }
  [[nodiscard]] kernel::WaitRow wait(WaitId id) {
    return store->read([&](db::ReadTx& tx) { return kernel::read_wait(tx, id).value(); });
  }
  [[nodiscard]] std::int64_t events() {
    return store->read([](db::ReadTx& tx) { return db::Query(tx, "SELECT count(*) FROM events").one().integer(0); });
  }

  [[nodiscard]] kernel::ClaimRules rules() const {
    kernel::ClaimRules rules;
    rules.owner = kOwner;
    rules.known = [](VersionId pinned) { return pinned; };
    rules.max_running = [](WorkflowId) { return 0; };
    return rules;
  }
  static kernel::Fence fence(RunId run) { return {run, kEpoch, kOwner}; }
  static kernel::Principal person(const std::string& name = "ada") {
    return {name, kernel::scopes_from("admin"), RunId()};
  }

  TempDir dir;
  FakeClock clock;
  std::unique_ptr<db::Store> store;
  VersionId version;
};

}  // namespace bide::test
