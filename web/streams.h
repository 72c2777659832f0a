// Streams: the event feed as server-sent events, for many readers and with one thread. It reads each new event once
// after a commit, renders it, and keeps the newest in a ring that all readers share; a reader that is further behind
// than the ring has a page of the file read for it, in turn. Readers are StreamSources, which the reactor owns.
// Threads: open() on any, sources as StreamSource says, its own thread "bide-streams", which sleeps while nobody
// reads. The clock is a real one: the thread waits by it. Failures: a fault of the store ends the stream that met it;
// its reader comes again. What a reader gets: `event: ready` at once (with the newest id), then an event a message
// (`id:`, `data:`), in a run's stream `event: end` when the run is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/errors.h"
#include "agent/base/limits_api.h"
#include "agent/base/mutex.h"
#include "agent/kernel/event_stream.h"
#include "db/store.h"
#include "web/stream_source.h"

namespace bide::web {

struct StreamBounds {
  int streams = limits::kStreams;
  std::size_t ring_events = limits::kRingEvents;
  std::size_t ring_bytes = limits::kRingBytes;
  std::int64_t pace_ms = limits::kStreamPaceMs;
};

struct StreamCounts {
  int open = 0;
  std::uint64_t opened = 0;
  std::uint64_t refused = 0;  // beyond the bound
  std::uint64_t reads = 0;    // of the file
};

class Streams {
 public:
  Streams(db::Store& store, Clock& clock, StreamBounds bounds = {});
  ~Streams();  // as stop(); every source has ended by then
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Rung when readers may find something: Server::ring_streams. Called on the streams' thread.
  void start(std::function<void()> bell);
  void notify() EXCLUDES(mutex_);  // a bell [C2]: something was committed
  // Reads no more and rings no more; sources stay usable and find nothing. Idempotent.
  void stop();

  struct Ask {
    RunId run;                          // invalid: of all
    std::optional<std::int64_t> after;  // the last id that the reader has; absent: a run's from its beginning, of all
                                        // from now on
  };
  // Problem: run_not_found, events_pruned (410, with the oldest id), too_many_streams (503).
  [[nodiscard]] std::variant<std::unique_ptr<StreamSource>, Problem> open(const Ask& ask);
  [[nodiscard]] StreamCounts counts() const;

 private:
  class Reader;
  struct Frame {
    EventId id;
    RunId run;
    bool ends_run = false;
    std::string text;
  };
  struct Wanted {
    std::uint64_t reader = 0;
    RunId run;
    EventId after;
  };
  struct Page {
    std::string text;
    EventId upto;
    bool over = false;
  };

  void work();
  bool take_slot();
  void give_slot();
  [[nodiscard]] Page read_page(const Wanted& wanted);
  void refresh();
  void append(kernel::StreamPage&& page) EXCLUDES(mutex_);
  StreamSource::State take(Reader& reader, std::string& out, std::size_t room) EXCLUDES(mutex_);
  StreamSource::State take_from_ring(Reader& reader, std::string& out, std::size_t room) REQUIRES(mutex_);
  void ask(Reader& reader) REQUIRES(mutex_);
  void forget(std::uint64_t reader) EXCLUDES(mutex_);

  db::Store& store_;
  Clock& clock_;
  const StreamBounds bounds_;
  std::atomic<int> open_{0};
  std::atomic<std::uint64_t> opened_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<std::uint64_t> next_reader_{1};

  mutable Mutex mutex_;
  Condition changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  bool committed_ GUARDED_BY(mutex_) = false;
  bool known_ GUARDED_BY(mutex_) = false;  // base_ and head_ mean something
  EventId base_ GUARDED_BY(mutex_);        // the ring has every event after this one …
  EventId head_ GUARDED_BY(mutex_);        // … up to this one
  std::deque<Frame> ring_ GUARDED_BY(mutex_);
  std::size_t ring_held_ GUARDED_BY(mutex_) = 0;
  std::deque<Wanted> wanted_ GUARDED_BY(mutex_);       // at most one a reader
  std::set<std::uint64_t> asking_ GUARDED_BY(mutex_);  // readers that a page is for: the others have ended
  std::map<std::uint64_t, Page> pages_ GUARDED_BY(mutex_);
  std::function<void()> bell_;  // constant after start()
  std::thread thread_;          // last: it uses all of the above
};

// One event as it stands in the stream, with the empty line after it.
[[nodiscard]] std::string sse_frame(const kernel::EventRow& event);

}  // namespace bide::web
