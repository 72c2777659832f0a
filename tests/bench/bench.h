// bide-bench: what the benchmarks share. Each is a function of Options that fills a Report; main.cpp prints it.
// Ratios come first: absolute figures belong to the machine, and both sides of a ratio run in turns in one run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bide::bench {

struct Options {
  std::string directory;  // on the disk that is to be measured
  double seconds = 1.0;   // of one turn
  int rounds = 3;         // turns of each side
  std::vector<int> producers = {1, 16, 64, 256};
  int ended = 1'000'000;  // growth: ended runs in the large file; a tenth of them sleep besides
};

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string goal;  // what performance.md wants, empty without one
};

struct Report {
  std::string title;
  std::vector<Figure> figures;
};

// The store's group commit against a bare SQLite loop of the same rows, settings and batch sizes.
[[nodiscard]] Report store_benchmark(const Options& options);
// What a page size costs in bytes and jobs a second.
[[nodiscard]] Report page_benchmark(const Options& options);

// Native runs of ten steps against a bare loop of the same rows.
[[nodiscard]] Report runs_benchmark(const Options& options);

// Start, claim and sweep in a file with many ended and sleeping runs, against one with few.
[[nodiscard]] Report growth_benchmark(const Options& options);

// A replayed verb and a fresh step of a program against a process start and a commit.
[[nodiscard]] Report verbs_benchmark(const Options& options);
// Its program's part (bide-bench --verbs-to FILE N, within an attempt): a line of medians, in microseconds. Exit code.
int run_verbs(const std::string& out, int verbs);

// wrk on GET of a run and POST of a decision, against a bare cpp-httplib. Needs wrk.
[[nodiscard]] Report http_benchmark(const Options& options);

// How long a request takes while readers of events come and vanish.
[[nodiscard]] Report streams_benchmark(const Options& options);

// A healthy endpoint of deliveries, alone and beside bad ones.
[[nodiscard]] Report delivery_benchmark(const Options& options);

// Seconds that passed, and the median of several turns.
[[nodiscard]] double now_seconds();
[[nodiscard]] double median(std::vector<double> values);

}  // namespace bide::bench
