// What a verb of a program costs: its replay, and a fresh step, against the start of a process that does nothing (the
// same executable, which prints its help) and a commit on the same disk. All sides run in turns in one script.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/json.h"
#include "agent/base/random.h"
#include "agent/base/spawn.h"
#include "agent/cli/client.h"
#include "db/store.h"
#include "tests/bench/bench.h"

extern char** environ;

namespace bide::bench {
namespace {

namespace fs = std::filesystem;

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

class Agent {
 public:
  explicit Agent(const std::string& directory) : directory_(directory), client_(directory + "/s", "", random_) {
    SpawnRequest spawn;
    spawn.program = BIDE_FRONT;
    spawn.argv = {
        "bide",           "serve",    "--data", directory + "/data", "--workflows", directory + "/flows", "--socket",
        directory + "/s", "--listen", "none"};
    for (char** entry = environ; *entry != nullptr; ++entry) spawn.environment.emplace_back(*entry);
    spawn.stdout_path = spawn.stderr_path = directory + "/agent.log";
    auto started = spawn_process(spawn);
    if (const auto* failed = std::get_if<SpawnFailed>(&started)) throw std::runtime_error(failed->text);
    process_ = std::move(std::get<Spawned>(started));
    ask([&] { return client_.get("/v1/info").ok(); });
  }
  ~Agent() {
    ::kill(process_.key.pid, SIGTERM);
    ::waitpid(process_.key.pid, nullptr, 0);
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Runs the script to its end, with a replay of all of it in between.
  void run(const std::string& out) {
    const std::string input = json::Writer().begin_object().member("out", out).member("n", kVerbs).end_object().take();
    const auto started = client_.post("/v1/runs", R"({"workflow":"verbs","input":)" + input + "}");
    const std::string run = std::to_string(json::int_member(started.body, "id").value_or(0));
    ask([&] { return json::string_member(client_.get("/v1/runs/" + run).body, "status") == "waiting"; });
    const std::string waits = client_.get("/v1/waits?status=pending").body;
    const std::string wait = json::at_pointer(waits, "/items/0/id").value_or("0");
    (void)client_.post("/v1/waits/" + wait + "/resolve", R"({"decision":"approved"})");
    ask([&] { return json::string_member(client_.get("/v1/runs/" + run).body, "status") == "completed"; });
  }

 private:
  template <class Condition>
  void ask(Condition condition) {
    const double until = now_seconds() + 120;
    for (;;) {
      try {
        if (condition()) return;
      } catch (const cli::Unreachable&) {
        // it is not up yet
      }
      if (now_seconds() > until) throw std::runtime_error("the agent did not answer: " + directory_ + "/agent.log");
      ::poll(nullptr, 0, 20);
    }
  }

  const std::string directory_;
  SystemRandom random_;
  cli::Client client_;
  Spawned process_;
};

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
  fs::remove_all(directory);
  fs::create_directories(directory + "/flows");
  fs::permissions(directory + "/flows", fs::perms(0755));
  std::ofstream(directory + "/flows/verbs.sh") << kScript;
  fs::permissions(directory + "/flows/verbs.sh", fs::perms(0755));
  const std::string out = directory + "/times";
  std::vector<double> commit;
  {
    Agent agent(directory);
    for (int round = 0; round < options.rounds; ++round) {
      commit.push_back(commit_us(directory + "/commits" + std::to_string(round)));
      agent.run(out);
    }
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
  fs::remove_all(directory);
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
