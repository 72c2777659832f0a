// A workspace of a thousand folders in one another was never removed: each level kept a descriptor and two frames, so
// the sweep ran out of descriptors (all else starved meanwhile), and with more of them out of stack: the agent died at
// each pass of the retention. What lies deep is moved up and removed there now; a seed that is so deep is refused.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <filesystem>

#include "agent/base/fd.h"
#include "agent/base/limits.h"
#include "agent/work/folders.h"
#include "tests/support/temp_dir.h"

using namespace bide;
using work::copy_folder;
using work::remove_some;

namespace {

void make_deep(const std::string& path, int levels) {
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  Fd at(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < levels; ++i) {
    REQUIRE(::mkdirat(at.get(), "d", 0700) == 0);
    const Fd file(::openat(at.get(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(file.valid());
    at = Fd(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at.valid());
  }
}

struct FewDescriptors {
  rlimit before{};
  FewDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit few = before;
    few.rlim_cur = 256;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
};

}  // namespace

TEST_CASE("[W9] issue: a tree of 3000 folders in one another is removed with few descriptors") {
  const test::TempDir dir;
  const FewDescriptors few;
  const std::string path = dir.str("deep");
  make_deep(path, 3'000);
  int calls = 0;
  for (bool gone = false; !gone && calls < 100; ++calls) {
    int entries = 500;
    gone = remove_some(path, entries);
  }
  CHECK(calls >= 12);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(std::filesystem::is_empty(dir.str()));
}

TEST_CASE("[W9] issue: beside a deep folder, one of the name that it gets at the top is removed too") {
  const test::TempDir dir;
  const std::string path = dir.str("deep");
  make_deep(path, limits::kDeepestFolder + 20);
  // Deep itself: whichever of the two is looked at first, the name is taken when the other's end is moved up.
  make_deep(path + "/.deep-1", limits::kDeepestFolder + 20);
  int entries = 100'000;
  CHECK(remove_some(path, entries));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("[W8] issue: a seed that is too deep is refused by name") {
  const test::TempDir dir;
  make_deep(dir.str("seed"), limits::kDeepestFolder + 20);
  try {
    (void)copy_folder(dir.str("seed"), dir.str("copy"), [] { return true; });
    FAIL("it was copied");
  } catch (const work::FolderFault& fault) {
    CHECK(std::string(fault.what()).find("is deeper than 128 folders") != std::string::npos);
  }
}
