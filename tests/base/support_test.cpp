// The tests' own tools: a tool that lies makes every test lie.
#include <catch2/catch.hpp>

#include <signal.h>

#include <stdexcept>

#include "tests/support/eventually.h"
#include "tests/support/fake_clock.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("support: a process gets its arguments, environment, directory and input") {
  const TempDir dir;
  const Finished done =
      run({.argv = {"/bin/sh", "-c", "pwd; printf '%s|' \"$A\" \"$1\"; cat; echo oops >&2; exit 7", "sh", "x y"},
           .env = {{"A", "b c"}},
           .cwd = dir.str(),
           .input = "fed"});
  CHECK(done.exit == Exit{7, 0});
  CHECK(done.out == dir.str() + "\nb c|x y|fed");
  CHECK(done.err == "oops\n");
  const Finished bare = run({.argv = {"/usr/bin/env"}, .env = {{"ONLY", "1"}}, .clear_env = true});
  CHECK(bare.out == "ONLY=1\n");
}

TEST_CASE("support: a process is waited for, signalled and killed") {
  Process sleeper({.argv = {"sleep", "1000"}});
  CHECK(sleeper.running());
  CHECK(!sleeper.wait(milliseconds(10)));
  sleeper.signal(SIGTERM);
  REQUIRE(sleeper.wait(seconds(20)));
  CHECK(sleeper.wait(milliseconds(0)) == Exit{-1, SIGTERM});
  sleeper.signal(SIGKILL);  // it has ended: nothing happens

  pid_t pid = 0;
  {
    Process other({.argv = {"sleep", "1000"}});
    pid = other.pid();
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) != 0);
  CHECK_THROWS_AS(Process({.argv = {"/no/such/program"}}), std::runtime_error);
  CHECK_THROWS_AS(run({.argv = {"sleep", "1000"}}, milliseconds(20)), std::runtime_error);
}

TEST_CASE("support: a group ends with its leader") {
  pid_t grandchild = 0;
  {
    Process leader({.argv = {"/bin/sh", "-c", "sleep 1000 & echo $!; wait"}, .own_group = true});
    eventually([&] { return !leader.out().empty() && leader.out().back() == '\n'; }, "the grandchild's pid");
    grandchild = std::stoi(leader.out());
    CHECK(::kill(grandchild, 0) == 0);
  }
  const std::string stat = "/proc/" + std::to_string(grandchild) + "/stat";
  const auto gone = [&] { return read_file(stat).empty() || read_file(stat).find(") Z ") != std::string::npos; };
  eventually(gone, "the grandchild is killed");
}

TEST_CASE("support: a temporary directory goes with its content") {
  std::filesystem::path path;
  {
    const TempDir dir;
    path = dir.path();
    write_file(dir / "a/b", std::string("x\0y", 3));
    CHECK(read_file(dir / "a/b") == std::string("x\0y", 3));
    CHECK(read_file(dir / "none").empty());
  }
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("support: a condition that never holds is reported") {
  int asked = 0;
  CHECK(holds_within(seconds(20), [&] { return ++asked == 3; }));
  CHECK(asked == 3);
  CHECK(!holds_within(milliseconds(20), [] { return false; }));
}

TEST_CASE("support: the fake clock moves when told") {
  FakeClock clock(1000, 50);
  clock.advance(5);
  clock.step_wall(-100);
  CHECK(clock.wall_ms() == 905);
  CHECK(clock.boot_ms() == 55);
}

}  // namespace
}  // namespace bide::test
