// A program's attempt was suspended while one of its verbs had read its answer and stood in no wait any more, or had
// been answered since the tree was looked at: only the others' waits were asked whether they are settled. The run slept
// until one of those had an answer, and the branch that had one already went on only then [A2]. An answer that is being
// read, or was read after the look, keeps the attempt.
#include <unistd.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <future>
#include <set>
#include <thread>

#include "agent/base/process_tree.h"
#include "agent/flow/attempt.h"
#include "tests/kernel/kernel_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using namespace bide::test;

namespace {

// Lets the test in between what a call has read and what it writes, once.
class Between final : public flow::Pace {
 public:
  std::atomic<bool> armed{false};
  std::function<void()> hook;

 private:
  void wait(DurationMs) override {
    (void)holds_within(std::chrono::milliseconds(1), [] { return false; });
  }
  void before_write() override {
    if (armed.exchange(false)) hook();
  }
  void run(const std::vector<std::function<void()>>&) override {}
};

// A program with two branches, "a" and "b", each of which waits for the signal of its name.
struct TwoBranches {
  Between between;
  Rig rig{Rig::Mode::threaded};
  RunId run;
  std::shared_ptr<flow::Attempt> attempt;
  std::future<flow::Outcome> a, b;
  std::vector<std::jthread> threads;

  TwoBranches() {
    rig.add("other", [](flow::Context&) { return std::string("1"); });
    (void)rig.start("other");  // opens the box
    run = rig.store->write([](db::Tx& tx) {
      const auto version = kernel::ensure_version(tx, kernel::ensure_workflow(tx, "prog"), "1",
                                                  kernel::WorkflowKind::program, "{}", tx.now());
      return KernelFixture::run_in(tx, kernel::RunStatus::running, version);
    });
    flow::AttemptOptions options;
    options.style = flow::Style::program;
    options.pace = &between;
    attempt = std::make_shared<flow::Attempt>(*rig.store, rig.random, KernelFixture::fence(run), options);
    a = wait_for("a");
    b = wait_for("b");
    eventually([&] { return waiting().size() == 2; }, "both wait");
  }
  ~TwoBranches() { attempt->close(flow::Closing::lease_lost); }

  std::future<flow::Outcome> wait_for(const std::string& name) {
    std::promise<flow::Outcome> promise;
    auto outcome = promise.get_future();
    threads.emplace_back([this, name, promise = std::move(promise)]() mutable {
      flow::WaitAsk ask;
      ask.kind = kernel::WaitKind::signal;
      ask.name = name;
      ask.branch = name;
      promise.set_value(attempt->wait(ask, {.process = read_process(::getpid()).value().key, .gone = {}}));
    });
    return outcome;
  }
  [[nodiscard]] std::set<std::int64_t> waiting() const {
    std::set<std::int64_t> steps;
    for (const auto& call : attempt->open_calls()) {
      if (call.waiting) steps.insert(call.step);
    }
    return steps;
  }
  void answer(const std::string& name) {
    CHECK(verdict(rig.signal(run, name)) == "sent");
    attempt->ring();
  }
};

}  // namespace

TEST_CASE("[A2] issue: an answer that is being read keeps its attempt from being suspended") {
  TwoBranches two;
  std::atomic<bool> alone{false}, suspended{false};
  two.between.hook = [&] {  // "b" has its answer in hand, and has written nothing yet
    alone = holds_within(std::chrono::seconds(20), [&] { return two.waiting().size() == 1; });
    suspended = two.attempt->try_suspend(two.waiting());
  };
  two.between.armed = true;
  two.answer("b");
  CHECK(std::holds_alternative<flow::Settled>(two.b.get()));
  CHECK(alone);
  CHECK_FALSE(suspended);
  CHECK(two.rig.run(two.run).status == kernel::RunStatus::running);
}

TEST_CASE("[A2] issue: an answer that was read after the tree was looked at keeps its attempt from being suspended") {
  TwoBranches two;
  const auto looked_at = two.waiting();
  two.answer("b");
  CHECK(std::holds_alternative<flow::Settled>(two.b.get()));
  eventually([&] { return two.waiting().size() == 1; }, "the other one waits again");
  CHECK_FALSE(two.attempt->try_suspend(looked_at));
  CHECK(two.rig.run(two.run).status == kernel::RunStatus::running);
  // Nobody has been answered since this look.
  CHECK(two.attempt->try_suspend(two.waiting()));
  CHECK(two.rig.run(two.run).status == kernel::RunStatus::waiting);
}
