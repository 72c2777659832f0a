#include "agent/work/rehearsal_differences.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/base/json.h"
#include "agent/base/text.h"

namespace bide::work {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShown = 120;  // bytes of a text that people wrote

constexpr const char* kAppended =
    "what is appended (>>) between two verbs is appended again at each attempt: put it in a step, or write the file as "
    "a whole (>)";
constexpr const char* kExists =
    "the code between two verbs is run again at each attempt: write mkdir -p, ln -sfn, or put it in a step";
constexpr const char* kGone =
    "what an earlier attempt has moved or removed is not there any more: put it in a step, or look first ([ -e FILE ])";
constexpr const char* kMore =
    "a name that is new at each attempt leaves one more each time: use `bide value tmpdir`, or a fixed name";
constexpr const char* kAgain =
    "the code between two verbs is run again at each attempt: put what must happen once in a step";
constexpr const char* kList =
    "what a verb is asked for must not depend on what the program itself has left in the workspace: take the list from "
    "a step";

std::string shortened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (text.size() <= kShown) return text;
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string after(const RehearsalTrace::Asked& asked) {
  return asked.seq == 0 ? "before the first verb" : "after " + asked.verb;
}

std::string count(std::int64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

const FileShot* find(const WorkspaceShot& shot, const std::string& path) {
  const auto found = shot.find(path);
  return found == shot.end() ? nullptr : &found->second;
}

bool same(const FileShot* a, const FileShot* b) { return a == nullptr || b == nullptr ? a == b : *a == *b; }

// The workspaces at the same moments of both runs, in order: at each verb that recorded, then at the end. The killed
// run has a first end and a last one.
struct Moments {
  std::vector<const WorkspaceShot*> straight;
  std::vector<const WorkspaceShot*> killed;
};
Moments moments(const RehearsalTrace& straight, const RehearsalTrace& killed) {
  Moments both;
  if (straight.marks.size() != killed.marks.size() || !killed.first_end) return both;
  for (const auto& mark : straight.marks) both.straight.push_back(&mark.workspace);
  for (const auto& mark : killed.marks) both.killed.push_back(&mark.workspace);
  both.straight.insert(both.straight.end(), 2, &straight.end);
  both.killed.push_back(&*killed.first_end);
  both.killed.push_back(&killed.end);
  return both;
}

// At the k-th moment (from 0) the code after the (k - 1)-th verb has been run twice for the first time, if verbs count
// from 1: what differs there first comes from it.
std::string cause(const RehearsalTrace& straight, const RehearsalTrace& killed, const std::string& path) {
  const Moments both = moments(straight, killed);
  for (std::size_t k = 0; k < both.straight.size(); ++k) {
    if (same(find(*both.straight[k], path), find(*both.killed[k], path))) continue;
    return k < 2 ? after({}) : after(straight.marks[k - 2].asked);
  }
  return "";
}

const char* kind_of(const FileShot& shot) {
  switch (shot.kind) {
    case 'd': return "folder ";
    case 'l': return "link ";
    default: return "file ";
  }
}

bool grew(const FileShot& straight, const FileShot& killed) {
  return killed.size > straight.size && straight.size > 0 &&
         killed.head.compare(0, std::min(straight.head.size(), killed.head.size()), straight.head, 0,
                             std::min(straight.head.size(), killed.head.size())) == 0;
}

// The first line that is another one.
std::string line_of(const FileShot& a, const FileShot& b, std::size_t& number) {
  std::size_t from = 0;
  number = 1;
  const std::size_t least = std::min(a.head.size(), b.head.size());
  for (std::size_t i = 0; i < least && a.head[i] == b.head[i]; ++i) {
    if (a.head[i] != '\n') continue;
    from = i + 1;
    ++number;
  }
  return a.head.substr(from, a.head.find('\n', from) - from);
}

// nullopt: they differ by themselves.
std::optional<RehearsalDifference> changed(const std::string& path, const FileShot& straight, const FileShot& killed,
                                           const FileShot* again) {
  RehearsalDifference found;
  const std::string name = kind_of(killed) + path;
  const bool by_itself = again != nullptr && !(*again == straight);
  if (straight.kind != killed.kind) {
    found.what = name + " is a " + kind_of(straight) + "in a straight run";
    found.advice = kAgain;
  } else if (straight.lines != killed.lines && (again == nullptr || again->lines == straight.lines)) {
    found.what =
        name + " has " + count(killed.lines, "line") + ", a straight run has " + std::to_string(straight.lines);
    found.advice = by_itself || grew(straight, killed) ? kAppended : kAgain;
  } else if (by_itself) {
    return std::nullopt;
  } else if (grew(straight, killed)) {
    found.what = name + " has " + count(killed.size, "byte") + ", a straight run has " + std::to_string(straight.size);
    found.advice = kAppended;
  } else {
    std::size_t number = 0;
    const std::string is = line_of(killed, straight, number);
    const std::string was = line_of(straight, killed, number);
    found.what = name + " differs in line " + std::to_string(number) + ": it is \"" + shortened(is) + "\", and \"" +
                 shortened(was) + "\" in a straight run";
    found.advice = kAgain;
  }
  return found;
}

struct Names {
  std::vector<std::string> more;  // that the straight run has not
  std::vector<std::string> less;
};
Names names(const WorkspaceShot& straight, const WorkspaceShot& other) {
  Names found;
  for (const auto& [path, shot] : other) {
    if (!straight.contains(path)) found.more.push_back(path);
  }
  for (const auto& [path, shot] : straight) {
    if (!other.contains(path)) found.less.push_back(path);
  }
  return found;
}

void compare_names(const RehearsalTrace& straight, const RehearsalTrace& killed, const RehearsalTrace* again,
                   std::vector<RehearsalDifference>& found) {
  const Names here = names(straight.end, killed.end);
  const Names there = again != nullptr ? names(straight.end, again->end) : Names();
  // Names that are new in each run anyway come in the same number.
  if (here.more.size() > there.more.size()) {
    const std::string& path = here.more.front();
    const std::string others = here.more.size() > 1 ? " (and " + std::to_string(here.more.size() - 1) + " more)" : "";
    const std::size_t without = straight.end.size();
    found.push_back({cause(straight, killed, path),
                     kind_of(killed.end.at(path)) + path + others +
                         " is there, and not after a straight run, which "
                         "leaves " +
                         count(static_cast<std::int64_t>(without), "file"),
                     kMore});
  }
  for (const std::string& path : here.less) {
    if (std::find(there.less.begin(), there.less.end(), path) != there.less.end()) continue;
    found.push_back({cause(straight, killed, path),
                     kind_of(straight.end.at(path)) + path + " is not there, as it is after a straight run", kGone});
  }
}

void compare_files(const RehearsalTrace& straight, const RehearsalTrace& killed, const RehearsalTrace* again,
                   std::vector<RehearsalDifference>& found) {
  for (const auto& [path, shot] : killed.end) {
    const FileShot* was = find(straight.end, path);
    if (was == nullptr || *was == shot || shot.kind == 'd') continue;
    auto difference = changed(path, *was, shot, again != nullptr ? find(again->end, path) : nullptr);
    if (!difference) continue;
    difference->after = cause(straight, killed, path);
    found.push_back(std::move(*difference));
  }
}

std::set<std::string> positions(const RehearsalTrace& trace) {
  std::set<std::string> all;
  for (const auto& entry : trace.journal) all.insert(entry.position);
  return all;
}

void compare_journals(const RehearsalTrace& straight, const RehearsalTrace& killed, const RehearsalTrace* again,
                      std::vector<RehearsalDifference>& found) {
  const std::set<std::string> before = positions(straight);
  const bool by_itself = again != nullptr && positions(*again) != before;
  for (const auto& entry : killed.journal) {
    if (!before.contains(entry.position)) {
      if (by_itself) continue;
      found.push_back({"", entry.asked.verb + " is asked for, and not in a straight run", kList});
      return;  // more of them say the same
    }
    const auto same = std::find_if(straight.journal.begin(), straight.journal.end(),
                                   [&](const auto& other) { return other.position == entry.position; });
    if (same->executions >= entry.executions) continue;
    found.push_back({"",
                     entry.asked.verb + " was executed " + count(entry.executions, "time") + ", in a straight run " +
                         std::to_string(same->executions),
                     "its command is ended by something else than itself"});
  }
}

RehearsalDifference result_differs(const std::string& what, const Json& straight, const Json& killed) {
  return {"", what + " is " + shortened(killed.dump()) + ", and " + shortened(straight.dump()) + " in a straight run",
          kAgain};
}

void compare_results(const RehearsalTrace& straight, const RehearsalTrace& killed, const RehearsalTrace* again,
                     std::vector<RehearsalDifference>& found) {
  const Json was = Json::parse(straight.result, nullptr, false);
  const Json is = Json::parse(killed.result, nullptr, false);
  const Json other = again != nullptr ? Json::parse(again->result, nullptr, false) : was;
  if (was == is) return;
  if (!was.is_object() || !is.is_object() || !other.is_object()) {
    if (other == was) found.push_back(result_differs("the result", was, is));
    return;
  }
  for (const auto& [name, value] : is.items()) {
    const Json old = was.value(name, Json());
    if (old != value && other.value(name, Json()) == old)
      found.push_back(result_differs(name + " of the result", old, value));
  }
  for (const auto& [name, value] : was.items()) {
    if (!is.contains(name) && other.contains(name))
      found.push_back(result_differs(name + " of the result", value, Json()));
  }
}

std::string last_line(std::string_view text) {
  text = trim(text);
  return std::string(trim(text.substr(text.rfind('\n') + 1)));
}

// One of them ended otherwise than the other.
RehearsalDifference ends_differ(const RehearsalTrace& killed) {
  const std::string code = json::string_member(killed.error, "code").value_or("");
  const std::string message = json::string_member(killed.error, "message").value_or("");
  RehearsalDifference found;
  found.after = after(killed.last);
  if (killed.completed()) {
    found.after = "";
    found.what = "the run completed, and a straight run did not";
    found.advice = kAgain;
  } else if (code == "program_failed") {
    const std::string said = last_line(json::string_member(killed.error, "stderr").value_or(""));
    found.what = "the program failed, and in a straight run it did not: " + (said.empty() ? message : said);
    const auto says = [&](const char* text) { return said.find(text) != std::string::npos; };
    found.advice = says("File exists") || says("already exists") ? kExists : says("No such file") ? kGone : kAgain;
  } else if (code == "MoreAndMore") {
    found.after = "";
    found.what = message;
    found.advice = kList;
  } else {
    found.what = code + ": " + message;  // it says what to write instead
  }
  return found;
}

}  // namespace

std::string RehearsalDifference::sentence() const {
  return (after.empty() ? "" : after + ": ") + what + (advice.empty() ? "" : ": " + advice);
}

std::vector<RehearsalDifference> differences(const RehearsalTrace& straight, const RehearsalTrace& killed,
                                             const RehearsalTrace* again) {
  std::vector<RehearsalDifference> found;
  const auto code = [](const RehearsalTrace& trace) { return json::string_member(trace.error, "code"); };
  if (straight.status != killed.status || (!killed.completed() && code(straight) != code(killed))) {
    if (again == nullptr || again->status == straight.status) found.push_back(ends_differ(killed));
    return found;  // what it left then is no matter
  }
  compare_names(straight, killed, again, found);
  compare_files(straight, killed, again, found);
  compare_journals(straight, killed, again, found);
  compare_results(straight, killed, again, found);
  return found;
}

}  // namespace bide::work
