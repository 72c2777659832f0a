// What a verb of a program costs: its replay, and a fresh step, against the start of a process that does nothing (the
// same executable, which prints its help) and a commit on the same disk. All sides run in turns in one script.
#include <fstream>
#include <string>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/json.h"
#include "db/store.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_agent.h"

namespace bide::bench {
namespace {

constexpr int kVerbs = 100;  // a loop: what the shell and two calls of `date` cost is little against it

// Each line of the report: nanoseconds of a loop of starts, of steps of either effect (fresh, or replayed).
constexpr const char* kScript = R"sh(#!/bin/sh
set -eu
out=$(bide input out)
n=$(bide input n)
now() { date +%s%N; }
loop() { i=0; while [ $i -lt $n ]; do i=$((i + 1)); "$@" > /dev/null; done; }
idempotent() { bide step "i$i" --effect idempotent -- true; }
effect() { bide step "e$i" -- true; }
a=$(now); loop bide step --help
b=$(now); loop idempotent
c=$(now); loop effect
d=$(now)
echo "$((b - a)) $((c - b)) $((d - c))" >> "$out"
bide wait approval again
)sh";

// Runs the script to its end, with a replay of all of it in between.
void run_script(Agent& agent, const std::string& out) {
  const std::string input = json::Writer().begin_object().member("out", out).member("n", kVerbs).end_object().take();
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
    start.push_back(a / kVerbs / 1e3);
    if (line % 2 == 0) {
      idempotent.push_back(b / kVerbs / 1e3);
      effect.push_back(c / kVerbs / 1e3);
    } else {
      replay.push_back((b + c) / 2 / kVerbs / 1e3);
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
