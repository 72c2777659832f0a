// A folder of a workflow that could not be read (no right to it, no descriptor left) counted as an empty one: the run
// was pinned to a tree without what is in it. A file that could not be read was said to change. Both are refused by
// name now.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <filesystem>

#include "agent/base/clock.h"
#include "agent/work/program_files.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

using namespace bide;

namespace {

// So many more can be opened.
struct Descriptors {
  rlimit before{};
  explicit Descriptors(int more) {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int next = ::dup(STDIN_FILENO);  // the lowest that is free; those above it are free as well, or do not count
    ::close(next);
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(next) + static_cast<rlim_t>(more);
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~Descriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
};

}  // namespace

TEST_CASE("issue: a tree of which something cannot be read is refused by name") {
  const test::TempDir dir;
  const std::string root = dir.str("workflows") + "/many";
  test::write_file(dir / "workflows" / "many" / "main.sh", "#!/bin/sh\n");
  test::write_file(dir / "workflows" / "many" / "lib" / "util.sh", "x=1\n");
  ::chmod((root + "/main.sh").c_str(), 0755);
  SystemClock clock;
  work::ProgramFiles programs(dir.str("workflows"), clock);
  REQUIRE(std::get<work::ProgramTree>(programs.read("many")).files.size() == 2);

  // The folder of workflows can be read, and is closed again; `many` too. Their folder below is one more at a time.
  std::variant<work::ProgramTree, Problem> found;
  int refused = 0;
  for (int more = 0; more < 3; ++more) {
    {
      const Descriptors few(more);
      found = programs.read("many");
    }
    if (const auto* tree = std::get_if<work::ProgramTree>(&found)) {
      CHECK(tree->files.size() == 2);
      continue;
    }
    ++refused;
    const auto& why = std::get<Problem>(found);
    INFO(why.detail);
    CHECK(why.code == "workflow_refused");
    CHECK(why.detail.find(" cannot be read: Too many open files") != std::string::npos);
  }
  CHECK(refused >= 1);
  CHECK(refused <= 2);

  if (::geteuid() == 0) return;  // who may read everything
  ::chmod((root + "/lib").c_str(), 0300);
  const auto why = std::get<Problem>(programs.read("many"));
  CHECK(why.detail.find("lib cannot be read: Permission denied") != std::string::npos);
  ::chmod((root + "/lib").c_str(), 0700);
}
