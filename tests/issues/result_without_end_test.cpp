// The result of native code had no bound: what every other document is refused for at 1 MiB went into the file and out
// again as a whole.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "tests/support/rig.h"

using namespace bide;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("[D5] the result of native code has at most 1 MiB, and a larger one fails the run and says so") {
  Rig rig;
  std::size_t bytes = 0;
  rig.add("talks", [&](flow::Context&) { return "\"" + std::string(bytes - 2, 'x') + "\""; });
  bytes = limits::kDocumentBytes;
  const RunId fits = rig.start("talks");
  rig.drive();
  CHECK(rig.run(fits).status == RunStatus::completed);
  ++bytes;
  const RunId larger = rig.start("talks");
  rig.drive();
  REQUIRE(rig.run(larger).status == RunStatus::failed);
  CHECK(json::string_member(*rig.run(larger).error, "code") == "ResultTooLarge");
  CHECK(rig.run(larger).error->size() < 2 * limits::kKeptOfTooLarge);
}
