// An agent that started while a holder wrote down its outcome took the half-written file (".NONCE") for nobody's and
// removed it: the rename failed, and the outcome was in the holder's memory only. The file of a holder that lives
// stays.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "agent/work/holders.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("[K2] issue: what a holder that lives is just writing is not tidied away") {
  Rig rig;
  rig.add("nap", [](flow::Context& c) {
    c.sleep(3'600'000);
    return std::string("null");
  });
  const RunId run = rig.start("nap");
  rig.exec("INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) VALUES (" +
           std::to_string(run.value) + ", 'N1', 1, 99, 7, 'b', 'running', 0)");
  work::Holders holders(*rig.store, rig.random, *rig.executor, rig.dir.str("outcomes"), rig.dir.str("s"));
  holders.make_directory();
  for (const char* name : {"N1", ".N1", "N2", ".N2"}) std::ofstream(rig.dir.str("outcomes/") + name) << "{";
  holders.tidy();
  const auto there = [&](const char* name) { return std::filesystem::exists(rig.dir.str("outcomes/") + name); };
  CHECK(there("N1"));
  CHECK(there(".N1"));
  CHECK_FALSE(there("N2"));
  CHECK_FALSE(there(".N2"));
}
