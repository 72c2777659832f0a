// What a verb of a program costs: its replay, and a fresh step, against the start of a process that does nothing (the
// same executable, which prints its help) and a commit on the same disk. All sides run in turns in one program.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/json.h"
#include "db/store.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_agent.h"

extern char** environ;

namespace bide::bench {
namespace {

constexpr int kVerbs = 100;  // of each kind

// The program: bide-bench itself starts the verbs, one of each kind in turn, as no shell's loop would do as evenly.
constexpr const char* kScript = R"sh(#!/bin/sh
set -eu
"$(bide input bench)" --verbs-to "$(bide input out)" "$(bide input n)"
bide wait approval again
)sh";

// Microseconds from the start of a process until it has ended; its stdin, stdout and environment are a program's.
double process_us(std::vector<std::string> argv) {
  std::vector<char*> pointers;
  for (auto& argument : argv) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const double begin = now_seconds();
  const int error = ::posix_spawnp(&pid, pointers[0], &files, nullptr, pointers.data(), environ);
  int status = 0;
  if (error == 0) ::waitpid(pid, &status, 0);
  const double us = (now_seconds() - begin) * 1e6;
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0 || status != 0) throw std::runtime_error("bench: " + argv[0] + " " + argv[1] + " failed");
  return us;
}

// Runs the script to its end, with a replay of all of it in between.
void run_script(Agent& agent, const std::string& out) {
  const std::string input = json::Writer()
                                .begin_object()
                                .member("bench", std::filesystem::read_symlink("/proc/self/exe").string())
                                .member("out", out)
                                .member("n", kVerbs)
                                .end_object()
                                .take();
  const std::string run = agent.run("verbs", input);
  agent.until(run, "waiting");
  const std::string waits = agent.client().get("/v1/waits?status=pending").body;
  const std::string wait = json::at_pointer(waits, "/items/0/id").value_or("0");
  (void)agent.client().post("/v1/waits/" + wait + "/resolve", R"({"decision":"approved"})");
  agent.until(run, "completed");
}

double commit_us(const std::string& directory) {
  SystemClock clock;
  db::Store store({.directory = directory}, clock);
  std::vector<double> each;
  for (int i = 0; i < kVerbs; ++i) {
    const double begin = now_seconds();
    store.write([&](db::Tx& tx) {
      db::Query(tx, "INSERT INTO meta (key, value) VALUES (?, 'x')").bind("bench:" + std::to_string(i)).run();
    });
    each.push_back((now_seconds() - begin) * 1e6);
  }
  return median(each);
}

}  // namespace

int run_verbs(const std::string& out, int verbs) {
  std::vector<double> start;
  std::vector<double> idempotent;
  std::vector<double> effect;
  for (int i = 0; i < verbs; ++i) {
    const std::string n = std::to_string(i);
    start.push_back(process_us({"bide", "step", "--help"}));
    idempotent.push_back(process_us({"bide", "step", "i" + n, "--effect", "idempotent", "--", "true"}));
    effect.push_back(process_us({"bide", "step", "e" + n, "--", "true"}));
  }
  std::ofstream(out, std::ios::app) << median(start) << " " << median(idempotent) << " " << median(effect) << "\n";
  return 0;
}

Report verbs_benchmark(const Options& options) {
  const std::string directory = options.directory + "/bide-bench.tmp";
  Agent agent(directory);
  agent.add("verbs", kScript);
  agent.start();
  const std::string out = directory + "/times";
  std::vector<double> commit;
  for (int round = 0; round < options.rounds; ++round) {
    commit.push_back(commit_us(directory + "/commits" + std::to_string(round)));
    run_script(agent, out);
  }
  std::vector<double> start;
  std::vector<double> replay;
  std::vector<double> idempotent;
  std::vector<double> effect;
  std::ifstream lines(out);
  double a = 0;
  double b = 0;
  double c = 0;
  for (int line = 0; lines >> a >> b >> c; ++line) {
    start.push_back(a);
    if (line % 2 == 0) {
      idempotent.push_back(b);
      effect.push_back(c);
    } else {
      replay.push_back((b + c) / 2);
    }
  }
  Report report;
  report.title = "Verbs of a program";
  const double one = median(start);
  const double budget = 2 * one + median(commit) + 1'000;
  report.figures.push_back({"a process start (bide step --help)", one, "us", ""});
  report.figures.push_back({"a commit", median(commit), "us", ""});
  report.figures.push_back({"replay", median(replay), "us", ""});
  report.figures.push_back({"replay less a process start", median(replay) - one, "us", "500 at most"});
  report.figures.push_back({"fresh step true, idempotent", median(idempotent), "us", ""});
  report.figures.push_back({"fresh step true, non_idempotent", median(effect), "us", ""});
  report.figures.push_back({"2 process starts, a commit, 1 ms", budget, "us", ""});
  report.figures.push_back({"fresh idempotent / that", median(idempotent) / budget, "", "1.00 at most"});
  report.figures.push_back({"fresh non_idempotent / that", median(effect) / budget, "", "1.00 at most"});
  return report;
}

}  // namespace bide::bench
