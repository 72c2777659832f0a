#include "agent/work/log_marks.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "agent/base/fd.h"
#include "agent/base/limits.h"

namespace bide::work {

std::string_view to_text(LogMarkKind kind) {
  switch (kind) {
    case LogMarkKind::began: return "began";
    case LogMarkKind::fresh: return "fresh";
    case LogMarkKind::cut: return "cut";
    case LogMarkKind::suspended: return "suspended";
  }
  return "began";
}

void append_mark(const std::string& path, const LogMark& mark) {
  const std::string line = std::string(to_text(mark.kind)) + " " + std::to_string(mark.epoch) + " " +
                           std::to_string(mark.offset) + " " + std::to_string(mark.at_ms) + " " +
                           std::to_string(mark.until) + "\n";
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (fd.valid() && ::write(fd.get(), line.data(), line.size()) < 0) return;  // a full disk: no mark
}

std::vector<LogMark> read_marks(const std::string& path) {
  std::vector<LogMark> marks;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line) && marks.size() < limits::kLogMarks;) {
    std::istringstream words(line);
    std::string kind;
    LogMark mark;
    if (!(words >> kind >> mark.epoch >> mark.offset >> mark.at_ms >> mark.until)) continue;
    for (const auto known : {LogMarkKind::began, LogMarkKind::fresh, LogMarkKind::cut, LogMarkKind::suspended}) {
      if (kind == to_text(known)) mark.kind = known;
    }
    marks.push_back(mark);
  }
  return marks;
}

}  // namespace bide::work
