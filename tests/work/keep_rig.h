// What tests of retention ask of a Rig with `keep`: passes until nothing more goes, and what is left.
#pragma once

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/rig.h"

namespace bide::test {

inline std::string sql(std::int64_t number) { return std::to_string(number); }

// Passes until one finds nothing more to do at once; how many.
inline int sweep_all(Rig& rig) {
  for (int passes = 1; passes < 500; ++passes) {
    rig.advance(limits::kRetentionAgainMs);
    const auto report = rig.sweep->pass();
    CHECK(report.first_error.empty());
    if (rig.retention->look(rig.store->now()).value() > limits::kRetentionAgainMs) return passes;
  }
  FAIL("retention never comes to an end");
  return 0;
}
// The next look by itself.
inline int sweep_later(Rig& rig) {
  rig.advance(limits::kCheckMs);
  return sweep_all(rig);
}

inline bool there(Rig& rig, RunId run) {
  return rig.number("SELECT count(*) FROM runs WHERE id = " + sql(run.value)) == 1;
}
inline std::int64_t rows_of(Rig& rig, RunId run) {
  std::int64_t rows = 0;
  for (const char* table : {"steps", "waits", "events", "signals", "processes", "early_decisions"})
    rows += rig.number(std::string("SELECT count(*) FROM ") + table + " WHERE run_id = " + sql(run.value));
  return rows;
}

inline void put(const std::filesystem::path& file, const std::string& text = "x") {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace bide::test
