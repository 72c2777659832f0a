// Others at the same file: a second agent, and a shell that reads for long.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__)
constexpr auto kRefusedWithin = 10s;  // a sanitizer's start is not what is promised
#else
constexpr auto kRefusedWithin = 1s;
#endif

TEST_CASE("[N80] a second agent is refused within 1 s, and one after a kill begins at once, with higher epochs",
          "[.refused]") {
  CrashBox box;
  box.program("flow",
              "bide step look --effect pure -- sh -c 'effect look; until [ -e \"$OUT/go\" ]; do sleep 0.02; done'\n");
  const std::int64_t run = box.start("flow");
  box.until_effects("look " + std::to_string(run), 1);
  const std::string epoch = "SELECT epoch FROM runs WHERE id = " + std::to_string(run);
  CHECK(box.sql(epoch) == "1");

  const auto began = std::chrono::steady_clock::now();
  Process second(box.serve_command("2"));
  const auto exit = second.wait(10s);
  const auto took = std::chrono::steady_clock::now() - began;
  INFO(second.err());
  REQUIRE(exit);
  CHECK(exit->code != 0);
  CHECK(exit->signal == 0);
  CHECK(took < kRefusedWithin);
  CHECK(second.err().find(std::to_string(box.agent().pid())) != std::string::npos);
  CHECK(box.agent().running());
  CHECK(box.sql(epoch) == "1");
  CHECK(box.status(run) == "running");

  box.kill_agent();
  box.serve();
  eventually([&] { return box.sql(epoch) == "2"; }, "the run is driven again");
  CHECK(box.effects("look " + std::to_string(run)) == 1);  // its command had a holder, and went on
  box.touch("go");
  box.until_status(run, "completed");
}

// Starts 50 runs a second while a shell keeps its snapshot: each must be answered.
void long_reader(int seconds) {
  CrashBox box;
  box.program("flow", "bide result done:=true\n");
  (void)box.start("flow");
  Process shell({.argv = {"sqlite3", "-readonly", box.data() + "/bide.db"},
                 .input = "BEGIN;\nSELECT count(*) FROM runs;\n.shell sleep " + std::to_string(seconds) +
                          "\nSELECT count(*) FROM runs;\nCOMMIT;\n"});
  eventually([&] { return shell.out() == "1\n"; }, [&] { return "the shell does not read: " + shell.err(); });
  auto client = HttpClient::unix_socket(box.socket());
  const auto began = std::chrono::steady_clock::now();
  auto slowest = 0ns;
  int started = 0;
  int failed = 0;
  while (shell.running()) {
    const auto turn = began + started * 20ms;
    (void)holds_within(1s, [&] { return std::chrono::steady_clock::now() >= turn; });
    const auto asked = std::chrono::steady_clock::now();
    const HttpAnswer answer = client.ask("POST", "/v1/runs", R"({"workflow":"flow","input":{}})");
    if (answer.status != 201) ++failed;
    slowest = std::max<std::chrono::nanoseconds>(slowest, std::chrono::steady_clock::now() - asked);
    ++started;
  }
  WARN("started " << started << " in " << seconds << " s, slowest answer "
                  << std::chrono::duration_cast<std::chrono::milliseconds>(slowest).count() << " ms");
  CHECK(failed == 0);
  CHECK(started >= seconds * 25 / kSlower);
  // The shell had one snapshot all the time: it was a reader to the end.
  CHECK(shell.out() == "1\n1\n");
  CHECK(shell.err().empty());
  CHECK(box.sql("SELECT count(*) FROM runs") == std::to_string(started + 1));
  CHECK(box.agent().err().find("busy") == std::string::npos);
  CHECK(box.agent().err().find("locked") == std::string::npos);
}

// Run by itself: what is counted is starts a second, and a test beside it takes half of the machine.
TEST_CASE("[F10] a shell that reads for 10 s makes no request fail", "[.alone]") { long_reader(10); }
TEST_CASE("[F10] a shell that reads for 60 s makes no request fail", "[.long]") { long_reader(60); }

}  // namespace
}  // namespace bide::test
