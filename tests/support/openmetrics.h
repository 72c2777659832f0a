// OpenMetrics 1.0 (the text form), as strictly as a reader may take it: what does not fit throws std::runtime_error
// with the line. Plain functions, any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bide::test {

struct MetricFamily {
  std::string type;  // counter, gauge, info
  std::string unit;
  std::string help;
  std::map<std::string, double> samples;  // by the name's suffix and the labels as written: "_total", "{state=\"due\"}"
};
using Exposition = std::map<std::string, MetricFamily>;

[[nodiscard]] Exposition parse_openmetrics(std::string_view text);

}  // namespace bide::test
