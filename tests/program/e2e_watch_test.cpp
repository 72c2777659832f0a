// What a person sees of a run: its log over several attempts, what happens as it happens, and a question in a terminal.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

namespace {

// Two suspensions: three attempts, each of which writes all that comes before.
const char* const kTalks =
    "echo one\n"
    "bide step a --effect pure -- sh -c 'echo from a >&2'\n"
    "echo two\n"
    "bide wait signal first >/dev/null\n"
    "echo three\n"
    "bide wait signal second >/dev/null\n"
    "echo four\n"
    "bide result done:=true\n";

Command command_of(const Box& box, std::vector<std::string> words) {
  words.insert(words.begin(), BIDE_EXECUTABLE);
  return {.argv = std::move(words), .env = {{"BIDE_AGENT", box.socket()}}};
}

std::string without_times(std::string log) {
  for (auto at = log.find("-- suspended "); at != std::string::npos; at = log.find("-- suspended ", at + 1))
    log.erase(at + 12, 20);
  return log;
}

}  // namespace

TEST_CASE("e2e: a log shows what each attempt wrote new, with a line at each suspension, and all of it when asked") {
  Box box;
  box.program("w", kTalks);
  const std::string run = box.start("w");
  box.suspended(run);
  Process follower(command_of(box, {"log", run, "--follow"}));
  CHECK(box.bide({"signal", run, "first"}).exit.code == 0);
  eventually([&] { return box.text("../data/logs/" + run + ".log").find("three") != std::string::npos; }, "it goes on",
             60s);
  box.suspended(run);
  CHECK(box.bide({"signal", run, "second"}).exit.code == 0);
  box.comes_to(run, "completed");
  const std::string expected = "one\nfrom a\ntwo\n-- suspended --\nthree\n-- suspended --\nfour\n";
  CHECK(without_times(box.bide({"log", run}).out) == expected);
  const auto exit = follower.wait(60s);
  REQUIRE(exit);
  CHECK(exit->code == 0);
  CHECK(without_times(follower.out()) == expected);
  CHECK(
      without_times(box.bide({"log", run, "--all"}).out) ==
      "one\nfrom a\ntwo\n-- suspended --\n-- attempt 2, replay --\none\ntwo\n-- attempt 2 --\nthree\n-- suspended --\n"
      "-- attempt 3, replay --\none\ntwo\nthree\n-- attempt 3 --\nfour\n");
}

TEST_CASE("e2e: what a program says that fails before it does anything new is not hidden") {
  Box box;
  box.program("v",
              "echo begin\nif [ -e \"$OUT/broken\" ]; then echo no >&2; exit 4; fi\nbide wait signal go >/dev/null\n");
  const std::string second = box.start("v");
  box.suspended(second);
  box.touch("broken");
  CHECK(box.bide({"signal", second, "go"}).exit.code == 0);
  box.comes_to(second, "failed");
  CHECK(without_times(box.bide({"log", second}).out) == "begin\n-- suspended --\nbegin\nno\n");
}

TEST_CASE("e2e: a program that prints without end does not fill the disk, and its log says what was cut") {
  Box box;
  box.program("w",
              "echo begin\nyes 0123456789abcdef0123456789abcdef | head -n 1500000\n"
              "until [ -e \"$OUT/go\" ]; do sleep 0.1; done\necho end\n");
  const std::string run = box.start("w");
  const auto marks = [&] { return read_file(box.data() + "/logs/" + run + ".marks"); };
  eventually([&] { return marks().find("cut ") != std::string::npos; }, "it is cut", 60s);
  box.touch("go");
  box.comes_to(run, "completed");
  const std::string shown = box.bide({"log", run}).out;
  CHECK(shown.starts_with("begin\n0123"));
  CHECK(shown.ends_with("def\nend\n"));
  CHECK(shown.find("\n-- cut: ") != std::string::npos);
  CHECK(shown.find('\0') == std::string::npos);
  CHECK(shown.size() < 36 << 20);
  const std::string whole = box.json({"log", run})["log"];
  CHECK(whole.starts_with("begin\n"));
  CHECK(whole.ends_with("def\nend\n"));
}

TEST_CASE("e2e: bide watch tells of one run what happens and what its program writes, to its end") {
  Box box;
  box.program("w",
              "echo words\nbide progress 40 half\n"
              "bide step slow --effect pure -- sh -c 'until [ -e '$OUT'/go ]; do sleep 0.02; done'\n"
              "bide wait approval 'Go on?' >/dev/null\n");
  const std::string run = box.start("w");
  Process watcher(command_of(box, {"watch", run}));
  Process all(command_of(box, {"watch"}));
  const auto seen = [&](const std::string& line) {
    eventually([&] { return watcher.out().find(line) != std::string::npos; },
               [&] { return line + " in:\n" + watcher.out() + watcher.err(); }, 60s);
  };
  seen("run " + run + " started\n");
  seen("words\n");
  seen("progress 40 % half\n");
  seen("step slow started\n");
  box.touch("go");
  seen("step slow done");
  seen("waits for approval 1 \"Go on?\": bide approve 1\n");
  // The other one began to look somewhere in between: from there on it tells of every run.
  box.program("u", "bide result x:=1");
  std::string other;
  eventually(
      [&] {
        other = box.start("u");
        return holds_within(2s,
                            [&] { return all.out().find("run " + other + " u: completed\n") != std::string::npos; });
      },
      [&] { return "all runs are told of:\n" + all.out() + all.err(); }, 60s);
  box.kill_agent();
  box.serve();
  box.decide(run, "deny");
  const auto exit = watcher.wait(60s);
  INFO(watcher.out() << watcher.err());
  REQUIRE(exit);
  CHECK(exit->code == 10);
  CHECK(watcher.out().find("approval 1 denied by ") != std::string::npos);
  CHECK(watcher.out().find("run " + run + " failed: Denied\n") != std::string::npos);
  eventually([&] { return all.out().find("run " + run + " w: approval 1 denied by ") != std::string::npos; },
             [&] { return all.out() + all.err(); }, 60s);
}

namespace {

// A terminal: runs bide in it, types each word once its prompt was seen, and gives what was shown and the exit code.
Finished in_terminal(const Box& box, std::vector<std::string> words, const std::string& types) {
  static const char* const kTerminal = R"(
import os, pty, sys
types = sys.argv[1].encode()
words = sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(words[0], words)
shown = b""
typed = False
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:
        break
    if not some:
        break
    shown += some
    if not typed and b"leave it open: " in shown:
        os.write(terminal, types + b"\n")
        typed = True
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
)";
  std::vector<std::string> argv = {"python3", "-c", kTerminal, types, BIDE_EXECUTABLE};
  argv.insert(argv.end(), words.begin(), words.end());
  return run({.argv = argv, .env = {{"BIDE_AGENT", box.socket()}}});
}

}  // namespace

TEST_CASE("e2e: a person in a terminal decides where the run is watched, or leaves it open for somebody else") {
  Box box;
  box.program("w", "bide wait approval 'Go on?' >/dev/null\nbide result done:=true");
  const Finished yes = in_terminal(box, {"run", "w", "--wait", "60s"}, "y");
  INFO(yes.out);
  CHECK(yes.exit.code == 0);
  CHECK(yes.out.find("approval 1 approved") != std::string::npos);
  CHECK(yes.out.find("{\"done\":true}") != std::string::npos);
  const Finished no = in_terminal(box, {"run", "w", "--wait", "60s"}, "no");
  INFO(no.out);
  CHECK(no.exit.code == 10);
  const Finished later = in_terminal(box, {"run", "w", "--wait", "2s"}, "");
  INFO(later.out);
  CHECK(later.exit.code == 5);
  CHECK(later.out.find("left open: bide approve 3") != std::string::npos);
  CHECK(box.json({"inbox"})["items"].size() == 1);
  // No terminal: nobody is asked.
  const Finished piped = box.bide({"run", "w", "--wait", "1s"}, "y\n");
  CHECK(piped.exit.code == 5);
  CHECK(piped.err.find("leave it open") == std::string::npos);
}

}  // namespace bide::test
