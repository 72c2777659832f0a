// Commands: what operators and apps ask of the agent, each one transaction and the bells that belong to it.
// Routes and the CLI's server side call these; the kernel decides. Thread-safe; returns after the COMMIT.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "agent/base/errors.h"
#include "agent/base/random.h"
#include "agent/kernel/commands.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/fork.h"
#include "agent/kernel/metrics.h"
#include "agent/kernel/pause.h"
#include "agent/kernel/principal.h"
#include "agent/kernel/retention.h"
#include "agent/kernel/runs.h"
#include "agent/kernel/signals.h"
#include "agent/kernel/waits.h"
#include "agent/work/executor.h"
#include "agent/work/feed.h"
#include "agent/work/sweep.h"
#include "db/store.h"

namespace bide::work {

// Where the version of a workflow to start comes from. Programs read and pin their files here, before the transaction.
using flow::FindWorkflow;
using flow::Startable;

// The answer of a command, as it is stored for its Idempotency-Key [M1].
struct Answer {
  int status = 200;
  std::string body;      // JSON
  std::string location;  // of what was made, or empty
  bool replayed = false;
};
// Renders an outcome; must be a pure function: it runs in the transaction.
template <class Outcome>
using Render = std::function<Answer(const Outcome&)>;

struct StartRequest {
  std::string workflow;
  std::string input = "{}";  // checked JSON
  std::optional<std::string> key;
  std::optional<std::string> mission;
  std::int64_t priority = 0;
  std::optional<TimeMs> run_at;
  std::string labels = "{}";
};

class Commands {
 public:
  Commands(db::Store& store, Random& random, Executor& executor, Sweep& sweep, Feed& feed, FindWorkflow find_workflow);

  // `once`: absent = no Idempotency-Key. With one, the answer is stored in the transaction of the effect, and the same
  // command again gets it without an effect; another body is answered idempotency_conflict 422 (thrown as nothing:
  // rendered by `conflict`).
  using Once = std::optional<kernel::CommandKey>;

  [[nodiscard]] std::variant<Answer, Problem> start_run(const StartRequest& request, const kernel::Principal& by,
                                                        const Once& once, const Render<kernel::StartOutcome>& render);
  [[nodiscard]] std::variant<Answer, Problem> resolve(WaitId wait, const kernel::Decision& decision,
                                                      const kernel::Principal& by, const Once& once,
                                                      const Render<kernel::ResolveOutcome>& render);
  [[nodiscard]] std::variant<Answer, Problem> resolve_named(RunId run, const std::string& name,
                                                            const kernel::Decision& decision, const std::string& body,
                                                            const kernel::Principal& by, const Once& once,
                                                            const Render<kernel::NamedOutcome>& render);
  [[nodiscard]] std::variant<Answer, Problem> signal(RunId run, const std::string& name, const std::string& payload,
                                                     const std::optional<std::string>& dedupe_key,
                                                     const kernel::Principal& by, const Once& once,
                                                     const Render<kernel::SignalOutcome>& render);
  [[nodiscard]] std::variant<Answer, Problem> cancel(RunId run, const kernel::CancelAsk& ask, const Once& once,
                                                     const Render<kernel::CancelOutcome>& render);
  [[nodiscard]] std::variant<Answer, Problem> retry(RunId run, const kernel::Principal& by, const Once& once,
                                                    const Render<kernel::RetryOutcome>& render);
  // latest: in the newest version of the workflow, else in the one that the run has [X4].
  [[nodiscard]] std::variant<Answer, Problem> fork_run(RunId run, std::int64_t entries, bool latest,
                                                       const kernel::Principal& by, const Once& once,
                                                       const Render<kernel::ForkOutcome>& render);
  // X5. paused: false resumes.
  [[nodiscard]] std::variant<Answer, Problem> pause(RunId run, bool paused, const kernel::Principal& by,
                                                    const Once& once, const Render<kernel::PauseOutcome>& render);
  // The version that a start of this workflow would pin now; what is new of it is stored.
  [[nodiscard]] std::variant<Startable, Problem> find_workflow(const std::string& name) const {
    return find_workflow_(name);
  }
  // W9: a run that is over is gone from here on; what is left of it goes in the background.
  [[nodiscard]] std::variant<Answer, Problem> delete_run(RunId run, const kernel::Principal& by, const Once& once,
                                                         const Render<kernel::DeleteOutcome>& render);
  void set_deleted_bell(std::function<void()> bell) { deleted_bell_ = std::move(bell); }  // before the first command
  SweepReport sweep_now();
  // C6: the store's clock is the wall clock, forwards or backwards, and the mark of the file with it.
  struct ClockAccepted {
    TimeMs was = 0;
    TimeMs now = 0;
    bool was_held = false;
  };
  ClockAccepted accept_clock(const kernel::Principal& by);
  // K1, K8: off: claims begin again; else none begins from here on. It is of this process: nothing is written.
  void drain(const kernel::Principal& by, bool off);
  struct Draining {
    bool draining = false;
    kernel::Driven driven;
  };
  [[nodiscard]] Draining draining();

  [[nodiscard]] db::Store& store() { return store_; }
  [[nodiscard]] Feed& feed() { return feed_; }
  [[nodiscard]] Executor& executor() { return executor_; }
  [[nodiscard]] Sweep& sweep() { return sweep_; }

 private:
  template <class Outcome>
  std::variant<Answer, Problem> once(const Once& key, db::Purpose purpose,
                                     const std::function<Outcome(db::Tx&)>& effect, const Render<Outcome>& render);

  db::Store& store_;
  Random& random_;
  Executor& executor_;
  Sweep& sweep_;
  Feed& feed_;
  FindWorkflow find_workflow_;
  std::function<void()> deleted_bell_;
};

}  // namespace bide::work
