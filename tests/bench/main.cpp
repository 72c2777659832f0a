// bide-bench [store|runs|pages|growth|verbs|http|streams|delivery] [--json] [--seconds S] [--rounds N] [--producers N]
// [--ended N] [--directory DIR]
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "agent/base/json.h"
#include "tests/bench/bench.h"

namespace bide::bench {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

namespace {

struct Benchmark {
  const char* name;
  std::function<Report(const Options&)> run;
};

const Benchmark kBenchmarks[] = {
    {"store", store_benchmark},     {"runs", runs_benchmark},         {"pages", page_benchmark},
    {"growth", growth_benchmark},   {"verbs", verbs_benchmark},       {"http", http_benchmark},
    {"streams", streams_benchmark}, {"delivery", delivery_benchmark},
};

void print_text(const Report& report) {
  std::printf("%s\n", report.title.c_str());
  for (const Figure& f : report.figures) {
    std::printf("  %-44s %14.2f %-10s %s\n", f.name.c_str(), f.value, f.unit.c_str(),
                f.goal.empty() ? "" : ("goal " + f.goal).c_str());
  }
}

void add_json(json::Writer& out, const Report& report) {
  out.begin_object().member("title", report.title).key("figures").begin_array();
  for (const Figure& f : report.figures) {
    char value[32];
    std::snprintf(value, sizeof value, "%.4f", f.value);
    out.begin_object().member("name", f.name).member_raw("value", value).member("unit", f.unit);
    if (!f.goal.empty()) out.member("goal", f.goal);
    out.end_object();
  }
  out.end_array().end_object();
}

int usage() {
  std::fprintf(stderr,
               "bide-bench [store|runs|pages|growth|verbs|http|streams|delivery] [--json] [--seconds S] [--rounds N] "
               "[--producers N] [--ended N] "
               "[--directory DIR]\n");
  return 2;
}

int run(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--verbs-to") return run_verbs(argv[2], std::atoi(argv[3]));
  Options options;
  options.directory = std::filesystem::current_path().string();
  std::string wanted;
  bool as_json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--json") {
      as_json = true;
    } else if (arg == "--seconds" && more) {
      options.seconds = std::atof(argv[++i]);
    } else if (arg == "--rounds" && more) {
      options.rounds = std::atoi(argv[++i]);
    } else if (arg == "--producers" && more) {
      options.producers = {std::atoi(argv[++i])};
    } else if (arg == "--ended" && more) {
      options.ended = std::atoi(argv[++i]);
    } else if (arg == "--directory" && more) {
      options.directory = argv[++i];
    } else if (!arg.starts_with('-') && wanted.empty()) {
      wanted = arg;
    } else {
      return usage();
    }
  }
  // As the agent's main does: glibc would give the heap back at each commit.
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  ::mallopt(M_TOP_PAD, 16 << 20);
  json::Writer out;
  out.begin_array();
  bool found = false;
  for (const Benchmark& b : kBenchmarks) {
    if (!wanted.empty() && wanted != b.name) continue;
    found = true;
    const Report report = b.run(options);
    if (as_json) {
      add_json(out, report);
    } else {
      print_text(report);
    }
  }
  if (!found) return usage();
  if (as_json) std::printf("%s\n", out.end_array().text().c_str());
  return 0;
}

}  // namespace
}  // namespace bide::bench

int main(int argc, char** argv) { return bide::bench::run(argc, argv); }
