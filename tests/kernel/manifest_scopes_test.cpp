// Who may decide is also what the workflow's newest manifest asks for [A7].
#include <catch2/catch.hpp>

#include "tests/kernel/kernel_fixture.h"

namespace bide::test {
namespace {

using kernel::Principal;

TEST_CASE("An approval needs the scopes that the newest manifest of its workflow names, beside approve [A7]") {
  KernelFixture f;
  const RunId run = f.make_run(kernel::RunStatus::waiting);
  const StepId step = f.make_step(run, kernel::StepStatus::started, kernel::StepKind::approval);
  const WaitId wait = f.make_wait(run, step, kernel::WaitStatus::pending);
  // The run is of the first version; the newest one speaks.
  f.store->write([&](db::Tx& tx) {
    (void)kernel::ensure_version(tx, kernel::ensure_workflow(tx, "flow"), "2", kernel::WorkflowKind::native,
                                 R"({"scopes":"start work"})", tx.now());
  });
  kernel::Decision yes;
  yes.decision = "approved";
  const auto decide = [&](const char* scopes) {
    const Principal by{"ada", kernel::scopes_from(scopes), RunId()};
    return f.store->write([&](db::Tx& tx) { return kernel::resolve_wait(tx, wait, yes, by, tx.now()); });
  };
  for (const char* scopes : {"approve", "approve start", "start work"}) {
    INFO(scopes);
    const auto outcome = decide(scopes);
    REQUIRE(std::holds_alternative<Problem>(outcome));
    CHECK(std::get<Problem>(outcome).code == "forbidden");
  }
  CHECK(f.wait(wait).status == kernel::WaitStatus::pending);
  CHECK(std::holds_alternative<kernel::WaitResolved>(decide("approve start work")));
  CHECK(f.wait(wait).status == kernel::WaitStatus::resolved);
}

}  // namespace
}  // namespace bide::test
