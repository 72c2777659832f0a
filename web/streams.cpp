#include "web/streams.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/base/thread_name.h"
#include "agent/base/time.h"
#include "agent/kernel/runs.h"
#include "web/render.h"

namespace bide::web {
namespace {

// A line end inside of a document would end the message: each line of it is a data line of its own, and the reader
// joins them again. (JSON has line ends between its tokens only.)
void append_data(std::string& out, std::string_view document) {
  out += "data: ";
  for (std::size_t i = 0; i < document.size(); ++i) {
    const char c = document[i];
    if (c == '\r' && i + 1 < document.size() && document[i + 1] == '\n') continue;
    if (c == '\n' || c == '\r') {
      out += "\ndata: ";
    } else {
      out += c;
    }
  }
  out += "\n\n";
}

bool ends_run(std::string_view kind) {
  return kind == "run.completed" || kind == "run.failed" || kind == "run.cancelled";
}

std::string ready_frame(EventId last, EventId after, TimeMs now) {
  json::Writer out;
  out.begin_object().member("last_event", last.value).member("after", after.value).member("now", format_time(now));
  std::string frame = "retry: 1000\nid: " + std::to_string(after.value) + "\nevent: ready\n";
  append_data(frame, out.end_object().text());
  return frame;
}

std::string end_frame(RunId run, std::optional<kernel::RunStatus> status) {
  json::Writer out;
  out.begin_object().member("run", run.value).member("status", status ? to_text(*status) : "deleted").end_object();
  std::string frame = "event: end\n";
  append_data(frame, out.text());
  return frame;
}

}  // namespace

std::string sse_frame(const kernel::EventRow& event) {
  json::Writer out;
  write_event(out, event);
  std::string frame = "id: " + std::to_string(event.id.value) + "\n";
  append_data(frame, out.text());
  return frame;
}

// What one connection hears. Its members change under the Streams' mutex only.
class Streams::Reader final : public StreamSource {
 public:
  Reader(Streams& streams, RunId of, EventId after, std::string first)
      : run(of), cursor(after), number(streams.next_reader_++), streams_(streams), first_(std::move(first)) {}
  ~Reader() override {
    streams_.forget(number);
    streams_.give_slot();
  }
  State take(std::string& out, std::size_t room) override {
    if (!first_.empty()) {
      out += std::exchange(first_, {});
      return State::open;
    }
    return streams_.take(*this, out, room);
  }

  const RunId run;
  EventId cursor;
  bool asking = false;
  bool looked = false;  // in a run's stream: at the file, which says whether the run is over already
  bool over = false;
  const std::uint64_t number;

 private:
  Streams& streams_;
  std::string first_;
};

Streams::Streams(db::Store& store, Clock& clock, StreamBounds bounds) : store_(store), clock_(clock), bounds_(bounds) {}

Streams::~Streams() { stop(); }

void Streams::start(std::function<void()> bell) {
  bell_ = std::move(bell);
  thread_ = std::thread([this] {
    name_thread("bide-streams");
    work();
  });
}

void Streams::notify() {
  if (open_.load() == 0) return;
  {
    Lock lock(mutex_);
    committed_ = true;
  }
  changed_.notify_all();
}

void Streams::stop() {
  if (!thread_.joinable()) return;
  {
    Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

StreamCounts Streams::counts() const { return {open_.load(), opened_.load(), refused_.load(), reads_.load()}; }

bool Streams::take_slot() {
  if (open_.fetch_add(1) < bounds_.streams) return true;
  open_.fetch_sub(1);
  ++refused_;
  return false;
}

void Streams::give_slot() {
  if (open_.fetch_sub(1) != 1) return;
  // Nobody reads: what comes from here on is not kept, and the next reader begins anew.
  Lock lock(mutex_);
  if (open_.load() != 0) return;
  known_ = false;
  ring_.clear();
  ring_held_ = 0;
}

std::variant<std::unique_ptr<StreamSource>, Problem> Streams::open(const Ask& ask) {
  if (!take_slot()) {
    return problem("too_many_streams", "this agent has as many event streams open as it takes");
  }
  std::unique_ptr<StreamSource> reader;
  try {
    const auto begin = store_.read([&](db::ReadTx& tx) -> std::variant<std::pair<EventId, EventId>, Problem> {
      const EventId last = kernel::last_event(tx);
      if (ask.run.valid() && !kernel::read_run(tx, ask.run)) {
        return problem("run_not_found", "there is no run " + std::to_string(ask.run.value), "bide runs");
      }
      if (!ask.after) return std::pair(ask.run.valid() ? EventId() : last, last);
      // A run's events live as long as it does.
      if (!ask.run.valid() && EventId(*ask.after) < kernel::events_pruned(tx)) {
        const std::int64_t oldest = kernel::first_event(tx).value;
        Problem gone =
            problem("events_pruned", "events after " + std::to_string(*ask.after) +
                                         " were deleted; the oldest that is there is " + std::to_string(oldest));
        gone.extra = "\"oldest\":" + std::to_string(oldest) + ",\"last_event\":" + std::to_string(last.value);
        return gone;
      }
      return std::pair(std::min(EventId(*ask.after), last), last);
    });
    if (const auto* refused = std::get_if<Problem>(&begin)) {
      give_slot();
      return *refused;
    }
    const auto& [after, last] = std::get<0>(begin);
    reader = std::make_unique<Reader>(*this, ask.run, after, ready_frame(last, after, store_.now()));
  } catch (...) {
    give_slot();
    throw;
  }
  ++opened_;
  return reader;
}

void Streams::forget(std::uint64_t reader) {
  Lock lock(mutex_);
  asking_.erase(reader);
  pages_.erase(reader);
  std::erase_if(wanted_, [reader](const Wanted& one) { return one.reader == reader; });
}

void Streams::ask(Reader& reader) {
  reader.asking = true;
  reader.looked = true;
  asking_.insert(reader.number);
  wanted_.push_back({reader.number, reader.run, reader.cursor});
  changed_.notify_all();
}

StreamSource::State Streams::take(Reader& reader, std::string& out, std::size_t room) {
  Lock lock(mutex_);
  if (reader.asking) {
    const auto found = pages_.find(reader.number);
    if (found == pages_.end()) return StreamSource::State::open;
    out += found->second.text;
    reader.cursor = found->second.upto;
    reader.over = found->second.over;
    reader.asking = false;
    asking_.erase(reader.number);
    pages_.erase(found);
  }
  if (reader.over) return StreamSource::State::over;
  if (out.size() >= room) return StreamSource::State::open;
  if (!known_ || reader.cursor < base_ || (reader.run.valid() && !reader.looked)) {
    ask(reader);
    return StreamSource::State::open;
  }
  return take_from_ring(reader, out, room);
}

StreamSource::State Streams::take_from_ring(Reader& reader, std::string& out, std::size_t room) {
  auto frame = std::upper_bound(ring_.begin(), ring_.end(), reader.cursor,
                                [](EventId cursor, const Frame& one) { return cursor < one.id; });
  for (; frame != ring_.end() && out.size() < room; ++frame) {
    reader.cursor = frame->id;
    if (!reader.run.valid()) {
      out += frame->text;
    } else if (frame->run == reader.run) {
      out += frame->text;
      if (!frame->ends_run) continue;
      ask(reader);  // the file says whether the run is over, and whether this was its last event
      return StreamSource::State::open;
    }
  }
  if (frame == ring_.end()) reader.cursor = std::max(reader.cursor, head_);
  return StreamSource::State::open;
}

// -- The thread.

void Streams::work() NO_THREAD_SAFETY_ANALYSIS {
  BootMs next_refresh = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto due = [&]() NO_THREAD_SAFETY_ANALYSIS { return stop_ || !wanted_.empty(); };
    const DurationMs early = committed_ ? next_refresh - clock_.boot_ms() : 0;
    if (!committed_) {
      changed_.wait(lock, [&]() NO_THREAD_SAFETY_ANALYSIS { return due() || committed_; });
    } else if (early > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(early), due);
    }
    if (stop_) return;
    const bool fresh = (committed_ && clock_.boot_ms() >= next_refresh) || (!known_ && !wanted_.empty());
    if (fresh) committed_ = false;
    std::deque<Wanted> wanted;
    wanted.swap(wanted_);
    lock.unlock();
    if (fresh && open_.load() > 0) {
      refresh();
      next_refresh = clock_.boot_ms() + bounds_.pace_ms;
    }
    for (const Wanted& one : wanted) {
      Page page = read_page(one);
      Lock locked(mutex_);
      if (asking_.count(one.reader) != 0) pages_[one.reader] = std::move(page);
    }
    bell_();
    lock.lock();
  }
}

Streams::Page Streams::read_page(const Wanted& wanted) {
  Page page;
  try {
    ++reads_;
    const kernel::StreamPage read = store_.read([&](db::ReadTx& tx) {
      return kernel::read_stream_page(tx, wanted.after, wanted.run, limits::kStreamPage, limits::kStreamBytes);
    });
    for (const kernel::EventRow& event : read.events) page.text += sse_frame(event);
    page.upto = read.upto;
    page.over = wanted.run.valid() && !read.more && (!read.status || kernel::terminal(*read.status));
    if (page.over) page.text += end_frame(wanted.run, read.status);
  } catch (const std::exception& fault) {
    log::warn("streams.not_read", {{"what", fault.what()}});
    page.upto = wanted.after;
    page.over = true;  // without an end: the reader comes again
  }
  return page;
}

// Reads what was committed since the last time into the ring.
void Streams::refresh() {
  try {
    while (true) {
      EventId after;
      bool known = false;
      {
        Lock lock(mutex_);
        after = head_;
        known = known_;
      }
      ++reads_;
      kernel::StreamPage page = store_.read([&](db::ReadTx& tx) {
        if (!known) return kernel::StreamPage{{}, kernel::last_event(tx), false, {}};
        return kernel::read_stream_page(tx, after, RunId(), limits::kStreamPage, limits::kRingBytes / 4);
      });
      const bool more = page.more;
      append(std::move(page));
      if (!more) return;
    }
  } catch (const std::exception& fault) {
    log::warn("streams.not_read", {{"what", fault.what()}});  // the next commit, or reader, tries again
  }
}

void Streams::append(kernel::StreamPage&& page) {
  std::vector<Frame> frames;
  for (const kernel::EventRow& event : page.events) {
    frames.push_back({event.id, event.run, ends_run(event.kind), sse_frame(event)});
  }
  Lock lock(mutex_);
  if (!known_) {
    known_ = true;
    base_ = page.upto;
    head_ = page.upto;
    ring_.clear();
    ring_held_ = 0;
    if (frames.empty()) return;
    base_ = EventId(frames.front().id.value - 1);
  }
  for (Frame& frame : frames) {
    ring_held_ += frame.text.size();
    ring_.push_back(std::move(frame));
  }
  head_ = std::max(head_, page.upto);
  while (!ring_.empty() && (ring_.size() > bounds_.ring_events || ring_held_ > bounds_.ring_bytes)) {
    base_ = ring_.front().id;
    ring_held_ -= ring_.front().text.size();
    ring_.pop_front();
  }
}

}  // namespace bide::web
