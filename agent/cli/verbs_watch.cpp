// bide log and bide watch: what a run's program wrote, and what happens, as it happens.
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/cli/event_lines.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

using Json = nlohmann::json;

constexpr DurationMs kFollowMs = 300;  // between two looks at a log that grows: a person does not notice

// A run's log, piece by piece: what an attempt wrote again on its way to where the run was is left out, unless all is
// asked for, and a line stands where the run was suspended.
class LogReader {
 public:
  LogReader(Session& session, std::int64_t run, bool all)
      : session_(session), path_("/v1/runs/" + std::to_string(run) + "/log"), all_(all) {}

  // Writes what is there and was not yet written. True: there was something.
  bool more() {
    const std::int64_t before = offset_;
    for (std::string bytes = "-"; !bytes.empty();) {
      bytes.clear();
      const std::string path = path_ + "?offset=" + std::to_string(offset_);
      (void)accepted(session_.client.get_streamed(path, [&](std::string_view part) { bytes += part; }));
      learn();  // after the bytes: a mark is there before what is written behind it
      if (offset_ >= cut_from_ && offset_ < cut_until_) {
        pass_over();
        bytes = "-";
        continue;
      }
      if (offset_ < cut_from_) bytes.resize(std::min(bytes.size(), static_cast<std::size_t>(cut_from_ - offset_)));
      write(bytes);
    }
    lines_at(offset_);
    session_.console.out << std::flush;
    return offset_ > before;
  }

 private:
  struct Place {
    std::int64_t offset = 0;
    bool hides = false;  // from here on, or shows
    std::string line;    // that stands there
  };

  void learn() {
    const std::string answer = accepted(session_.client.get(path_ + "/marks")).body;
    const Json marks = Json::parse(json::member(answer, "items").value_or("[]"));
    for (std::size_t i = seen_; i < marks.size(); ++i) {
      const Json& mark = marks[i];
      const std::string kind = mark.value("kind", "");
      const auto epoch = mark.value("epoch", std::int64_t{0});
      const auto offset = mark.value("offset", std::int64_t{0});
      const std::string attempt = "-- attempt " + std::to_string(epoch);
      if (kind == "cut") {
        cut_from_ = offset;
        cut_until_ = mark.value("until", std::int64_t{0});
      } else if (kind == "suspended") {
        places_.push_back({offset, false, "-- suspended " + short_time(mark.value("at", "")) + " --"});
      } else if (kind == "began" && epoch > 1) {
        places_.push_back({offset, !all_, all_ ? attempt + ", replay --" : ""});
      } else if (kind == "fresh" && epoch > 1) {
        places_.push_back({offset, false, all_ ? attempt + " --" : ""});
      }
    }
    seen_ = std::max(seen_, marks.size());
  }

  // What grew too large has lost its middle.
  void pass_over() {
    session_.console.out << (at_line_start_ ? "" : "\n")
                         << session_.console.paint(
                                Style::dim, "-- cut: " + std::to_string((cut_until_ - offset_) >> 20) + " MiB --")
                         << "\n";
    at_line_start_ = true;
    offset_ = cut_until_;
  }

  void lines_at(std::int64_t offset) {
    for (; next_ < places_.size() && places_[next_].offset <= offset; ++next_) {
      hides_ = places_[next_].hides;
      if (places_[next_].line.empty()) continue;
      session_.console.out << (at_line_start_ ? "" : "\n") << session_.console.paint(Style::dim, places_[next_].line)
                           << "\n";
      at_line_start_ = true;
    }
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      lines_at(offset_);
      std::size_t length = bytes.size();
      if (next_ < places_.size()) length = std::min(length, static_cast<std::size_t>(places_[next_].offset - offset_));
      const std::string_view part = bytes.substr(0, length);
      if (!hides_) {
        session_.console.out << part;
        at_line_start_ = part.back() == '\n';
      }
      offset_ += static_cast<std::int64_t>(length);
      bytes.remove_prefix(length);
    }
  }

  Session& session_;
  const std::string path_;
  const bool all_;
  std::vector<Place> places_;
  std::size_t seen_ = 0;  // marks
  std::size_t next_ = 0;  // place
  std::int64_t offset_ = 0;
  std::int64_t cut_from_ = INT64_MAX;
  std::int64_t cut_until_ = 0;
  bool hides_ = false;
  bool at_line_start_ = true;
};

// The whole file as it is, as one JSON document.
int log_as_json(Session& session) {
  const std::string log = "/v1/runs/" + std::to_string(session.arguments.id) + "/log";
  const std::string marks = accepted(session.client.get(log + "/marks")).body;
  std::int64_t from = INT64_MAX;
  std::int64_t until = 0;
  for (const Json& mark : Json::parse(json::member(marks, "items").value_or("[]"))) {
    if (mark.value("kind", "") != "cut") continue;
    from = mark.value("offset", std::int64_t{0});
    until = mark.value("until", std::int64_t{0});
  }
  std::string all;
  std::int64_t offset = 0;
  for (bool more = true; more;) {
    if (offset >= from && offset < until) offset = until;
    const std::int64_t before = offset;
    const std::string path = log + "?offset=" + std::to_string(offset);
    (void)accepted(session.client.get_streamed(path, [&](std::string_view bytes) {
      all += bytes;
      offset += static_cast<std::int64_t>(bytes.size());
    }));
    more = offset > before;
  }
  print_json(session.console,
             json::Writer().begin_object().member("run", session.arguments.id).member("log", all).end_object().text());
  return kDone;
}

bool ended(const std::string& run) {
  const std::string status = json::string_member(run, "status").value_or("");
  return status == "completed" || status == "failed" || status == "cancelled";
}

// One page of events after `cursor`, which it moves on; false: nothing more will come of this run.
bool tell_events(Session& session, Clock& clock, EventLines& lines, const std::string& path, std::string& cursor,
                 DurationMs wait) {
  const std::string page =
      patient_get(session, clock, path + "?limit=" + std::to_string(limits::kPageMax) + "&cursor=" + cursor, wait).body;
  const std::string items = json::member(page, "items").value_or("[]");
  for (const Json& event : Json::parse(items)) {
    if (session.arguments.json) {
      session.console.out << event.dump() << std::endl;
    } else {
      lines.tell(event.dump());
    }
  }
  cursor = json::string_member(page, "next").value_or(cursor);
  return !json::bool_member(page, "ended").value_or(false);
}

}  // namespace

int verb_log(Session& session) {
  if (session.arguments.json) return log_as_json(session);
  LogReader reader(session, session.arguments.id, session.arguments.all);
  SystemClock clock;
  const std::string path = "/v1/runs/" + std::to_string(session.arguments.id);
  for (bool more = true; more;) {
    // Asked before the look: what was written by then is in it.
    const bool over = !session.arguments.follow || ended(patient_get(session, clock, path, 0).body);
    try {
      const bool grew = reader.more();
      more = !over || (session.arguments.follow && grew);
    } catch (const Unreachable&) {
      if (!session.arguments.follow) throw;
    }
    if (!over) ::poll(nullptr, 0, static_cast<int>(kFollowMs));
  }
  return kDone;
}

int verb_watch(Session& session) {
  SystemClock clock;
  const std::int64_t run = session.arguments.id;
  EventLines lines([&](const std::string& path) { return patient_get(session, clock, path, 0).body; },
                   [&](const std::string& line) { session.console.out << line << std::endl; }, run == 0);
  if (run == 0) {
    const std::string newest = patient_get(session, clock, "/v1/events/newest", 0).body;
    std::string cursor = json::string_member(newest, "next").value_or("0");
    for (;;) (void)tell_events(session, clock, lines, "/v1/events", cursor, limits::kClientPollMs);
  }
  const std::string path = "/v1/runs/" + std::to_string(run);
  LogReader reader(session, run, false);
  std::string cursor = "0";
  for (bool going = true; going;) {
    going = tell_events(session, clock, lines, path + "/events", cursor, 0);
    if (!session.arguments.json) {
      lines.tell_steps(run);
      try {
        (void)reader.more();
      } catch (const Unreachable&) {  // said at the next look at the events
      }
    }
    if (going) ::poll(nullptr, 0, static_cast<int>(kFollowMs));
  }
  const std::string over = patient_get(session, clock, path, 0).body;
  if (!session.arguments.json) {
    const std::string code = json::as_string(json::at_pointer(over, "/error/code").value_or("")).value_or("");
    session.console.out << "run " << run << " " << json::string_member(over, "status").value_or("")
                        << (code.empty() ? "" : ": " + printable(code)) << std::endl;
  }
  return exit_code_of(over);
}

}  // namespace bide::cli
