// When a program that waits is suspended, and what holds it [Suspension], in the shells that people have.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

namespace {

// Bash is bash; the others under the names that a #! line gives them.
std::string first_line(const std::string& shell) { return shell == "busybox" ? "/bin/busybox sh" : "/bin/" + shell; }

bool is_there(const std::string& shell) {
  return std::filesystem::exists(first_line(shell).substr(0, first_line(shell).find(' ')));
}

// Under the flags of Box::program, in this shell.
void program(const Box& box, const std::string& name, const std::string& body, const std::string& shell) {
  const std::string path = box.flows() + "/" + name + ".sh";
  const std::string out = box.out("");
  write_file(path, "#!" + first_line(shell) + "\nset -eu\nOUT=" + out.substr(0, out.size() - 1) + "\n" + body);
  std::filesystem::permissions(path, std::filesystem::perms(0755));
}

std::string explained(const Box& box, const std::string& run) { return box.bide({"explain", run}).out; }

}  // namespace

TEST_CASE("[N112] e2e: make & wait: make ends first, then the run is suspended") {
  for (const std::string shell : {"dash", "bash", "busybox"}) {
    if (!is_there(shell)) {
      WARN(shell << " is not installed: not tried");
      continue;
    }
    DYNAMIC_SECTION(shell) {
      Box box;
      // What stands for make works in short naps of its own children: nobody may end it half way.
      write_file(box.out("Makefile"),
                 "all:\n\t@echo began >> began\n\t@until [ -e go ]; do sleep 0.05; done\n\t@echo made >> made\n");
      program(box, "builds",
              "make -s -C $OUT &\nbide wait approval 'Install it?'\nwait\n"
              "bide step install -- sh -c 'echo installed >> \"$1\"/installed' install $OUT\n"
              "bide result done:=true\n",
              shell);
      const std::string run = box.start("builds");
      box.wait_of(run);
      eventually([&] { return box.lines("began") == 1; }, "make has begun");
      eventually(
          [&] {
            const std::string why = explained(box, run);
            return why.find("held by pid") != std::string::npos;
          },
          [&] { return "explain names who holds it: " + explained(box, run); });
      CHECK_FALSE(holds_within(2s, [&] { return box.status(run) != "running"; }));  // the linger is 1 s
      CHECK(box.lines("made") == 0);
      box.touch("go");
      box.suspended(run);
      CHECK(box.lines("made") == 1);
      box.decide(run, "approve");
      box.comes_to(run, "completed");
      CHECK(box.lines("began") == 2);  // code between verbs is run again
      CHECK(box.lines("installed") == 1);
    }
  }
}

TEST_CASE("[N112] e2e: a question at the head of a pipe is suspended, and its answer comes through") {
  for (const std::string shell : {"dash", "bash", "busybox"}) {
    if (!is_there(shell)) {
      WARN(shell << " is not installed: not tried");
      continue;
    }
    DYNAMIC_SECTION(shell) {
      Box box;
      program(box, "asks",
              "x=$(bide wait question 'Which?' | tr a b | cat)\necho \"$x\" >> $OUT/answers\nbide result x=\"$x\"\n",
              shell);
      const std::string run = box.start("asks");
      box.suspended(run);
      CHECK(box.lines("answers") == 0);
      CHECK(box.bide({"answer", box.wait_of(run), "banana"}).exit.code == 0);
      CHECK(box.comes_to(run, "completed")["result"] == Json{{"x", "bbnbnb"}});
      CHECK(box.text("answers") == "bbnbnb\n");
    }
  }
}

TEST_CASE("[N112] e2e: exec > >(tee log) in bash: the reader of the script's own output does not hold it") {
  REQUIRE(is_there("bash"));
  Box box;
  program(box, "logs",
          "exec > >(tee -a $OUT/log)\necho began\nbide wait approval 'Go?'\necho went\n"
          "bide result done:=true\n",
          "bash");
  const std::string run = box.start("logs");
  box.suspended(run);
  CHECK(box.text("log") == "began\n");
  box.restart();
  box.decide(run, "approve");
  box.comes_to(run, "completed");
  eventually([&] { return box.text("log").ends_with("went\n"); },
             [&] { return "tee has written: " + box.text("log"); });
}

TEST_CASE("[N112] e2e: a worker beside a wait holds the run in Python and Node, and both are suspended when it ends") {
  Box box;
  box.python("snake",
             "import os, subprocess, time\n"
             "worker = subprocess.Popen(['sh', '-c', 'until [ -e \"$1\" ]; do sleep 0.05; done', 'w', OUT + '/go'])\n"
             "subprocess.run(['bide', 'wait', 'approval', 'Go?'], stdout=subprocess.DEVNULL, check=True)\n"
             "worker.wait()\n"
             "subprocess.run(['bide', 'result', 'done:=true'], check=True)\n");
  const bool node = std::filesystem::exists("/usr/bin/node");
  if (!node) WARN("node is not installed: not tried");
  std::vector<std::string> runs = {box.start("snake")};
  if (node) {
    const std::string path = box.flows() + "/noder.js";
    write_file(path,
               "#!/usr/bin/node\nconst { spawn, execFileSync } = require('node:child_process');\n"
               "const worker = spawn('sh', ['-c', 'until [ -e \"$1\" ]; do sleep 0.05; done', 'w', '" +
                   box.out("go") +
                   "']);\n"
                   "worker.on('exit', () => execFileSync('bide', ['result', 'done:=true']));\n"
                   "execFileSync('bide', ['wait', 'approval', 'Go?'], { stdio: ['ignore', 'pipe', 'inherit'] });\n");
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    runs.push_back(box.start("noder"));
  }
  for (const std::string& run : runs) {
    box.wait_of(run);
    eventually([&] { return explained(box, run).find("held by pid") != std::string::npos; },
               [&] { return "explain names who holds it: " + explained(box, run); });
    CHECK(box.status(run) == "running");
  }
  box.touch("go");
  for (const std::string& run : runs) box.comes_to(run, "waiting");
  box.nothing_left();
  for (const std::string& run : runs) {
    box.decide(run, "approve");
    box.comes_to(run, "completed");
  }
}

}  // namespace bide::test
