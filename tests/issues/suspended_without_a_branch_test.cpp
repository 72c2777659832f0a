// A program with two open waits was suspended in the moment in which the answer to one of them was being read: that
// wait stood in no list of those who wait, so the run was laid to sleep for the other alone, and nothing woke it for
// the answer.
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "agent/flow/attempt.h"
#include "tests/support/eventually.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using test::Rig;

namespace {

// Asks for a suspension whenever a call is between its look and its transaction.
struct Meddler final : flow::Pace {
  flow::Attempt* attempt = nullptr;
  std::atomic<bool> armed{false};
  std::atomic<int> asked{0}, suspended{0};
  void wait(DurationMs) override { std::this_thread::yield(); }
  void before_write() override {
    if (!armed.exchange(false)) return;
    ++asked;
    if (attempt->try_suspend()) ++suspended;
  }
  void run(const std::vector<std::function<void()>>&) override {}
};

flow::WaitAsk signal_called(const std::string& name) {
  flow::WaitAsk ask;
  ask.kind = kernel::WaitKind::signal;
  ask.name = name;
  return ask;
}

}  // namespace

TEST_CASE("a program is not suspended while the answer to one of its waits is being read") {
  Rig rig(Rig::Mode::threaded);
  rig.add("flow", [](flow::Context&) { return std::string("1"); });
  const RunId run = rig.start("flow");
  const auto claimed =
      rig.store->write([&](db::Tx& tx) { return kernel::claim_next(tx, rig.executor->rules(), tx.now()); });
  const auto& claim = std::get<kernel::Claimed>(claimed);
  Meddler meddler;
  flow::AttemptOptions options;
  options.style = flow::Style::program;
  options.pace = &meddler;
  const auto attempt = std::make_shared<flow::Attempt>(*rig.store, rig.random,
                                                       kernel::Fence{run, claim.epoch, rig.executor->owner()}, options);
  meddler.attempt = attempt.get();
  std::atomic<int> answered{0};
  const auto ask = [&](const std::string& name) {
    const auto outcome = attempt->wait(signal_called(name), flow::Caller{1, {}});
    if (std::holds_alternative<flow::Settled>(outcome)) ++answered;
  };
  std::jthread a([&] { ask("a"); });
  std::jthread b([&] { ask("b"); });
  test::eventually([&] { return rig.number("SELECT count(*) FROM waits WHERE status = 'pending'") == 2; }, "both wait");
  meddler.armed = true;  // the next transaction of the attempt is that of the answer
  CHECK(test::verdict(rig.signal(run, "a", "1")) == "sent");
  attempt->ring();
  test::eventually([&] { return answered == 1; }, "the answer is read");
  CHECK(meddler.asked == 1);
  CHECK(meddler.suspended == 0);
  CHECK(rig.run(run).status == kernel::RunStatus::running);
  CHECK(rig.number("SELECT count(*) FROM steps WHERE status = 'completed'") == 1);
  attempt->close(flow::Closing::shutdown);
}
