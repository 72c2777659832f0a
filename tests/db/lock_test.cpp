// The lock file: one agent on a directory, across real processes [C5].
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "agent/base/errors.h"
#include "db/lock_file.h"
#include "tests/db/store_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/process.h"

namespace bide::db {
namespace {

using std::chrono::steady_clock;
using test::TempDir;

std::string refusal(const std::string& directory) {
  try {
    const LockFile lock(directory);
  } catch (const ConfigFault& e) {
    return e.what();
  }
  return {};
}

// Not a test of its own: the second process of the tests below. Holds the store named in BIDE_TEST_HOLD until it is
// killed, or says why it was refused.
TEST_CASE("child process that holds a store", "[.child]") {
  const char* directory = std::getenv("BIDE_TEST_HOLD");
  REQUIRE(directory != nullptr);
  SystemClock clock;
  try {
    const Store store({.directory = directory, .migrations = kTestMigrations}, clock);
    test::write_file(std::string(directory) + "/held", "yes");
    for (;;) ::pause();
  } catch (const ConfigFault& e) {
    test::write_file(std::string(directory) + "/refused", e.what());
  }
}

test::Command holder(const std::string& directory) {
  return {.argv = {std::filesystem::read_symlink("/proc/self/exe"), "child process that holds a store"},
          .env = {{"BIDE_TEST_HOLD", directory}}};
}

TEST_CASE("[N80] a second agent is refused within a second and names the first, which goes on") {
  TempDir dir;
  const test::Command command = holder(dir.str());
  test::Process first(command);
  test::eventually([&] { return std::filesystem::exists(dir / "held"); }, "the first has the store");

  const auto begin = steady_clock::now();
  SystemClock clock;
  std::string message;
  try {
    const Store second({.directory = dir.str(), .migrations = kTestMigrations}, clock);
  } catch (const ConfigFault& e) {
    message = e.what();
  }
  CHECK(steady_clock::now() - begin < std::chrono::seconds(1));
  CHECK(message.find("pid " + std::to_string(first.pid())) != std::string::npos);

  test::Process third(command);  // another process hears the same
  REQUIRE(third.wait(std::chrono::seconds(20)));
  CHECK(test::read_file(dir / "refused").find(std::to_string(first.pid())) != std::string::npos);
  CHECK(first.running());

  first.kill();  // SIGKILL: the lock goes with the process, nothing is left to clean up
  const Store now_ours({.directory = dir.str(), .migrations = kTestMigrations}, clock);
  CHECK(lock_holder_pid(dir.str()) == ::getpid());
}

TEST_CASE("[N80] a process that lives on after the agent does not hold its lock") {
  TempDir dir;
  std::optional<test::Process> child;
  {
    const LockFile lock(dir.str());
    child.emplace(test::Command{.argv = {"sleep", "60"}});
  }
  CHECK(child->running());
  CHECK(refusal(dir.str()).empty());
}

TEST_CASE("a second store in the same process is refused too, and leaves the first one its lock") {
  TempDir dir;
  const LockFile first(dir.str());
  CHECK(refusal(dir.str()).find(std::to_string(::getpid())) != std::string::npos);
  CHECK(refusal(dir.str()).find("in use") != std::string::npos);
  CHECK(lock_holder_pid(dir.str()) == ::getpid());
}

TEST_CASE("the lock's descriptor closes on exec") {
  TempDir dir;
  const LockFile lock(dir.str());
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != dir / "bide.lock") continue;
    ++found;
    CHECK((::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found == 1);
}

}  // namespace
}  // namespace bide::db
