#include "db/writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/base/limits.h"
#include "agent/base/log.h"
#include "agent/base/thread_name.h"

namespace bide::db {
namespace {

void answer(Job& job) {
  if (job.parker != nullptr) return job.parker->answer();
  try {
    if (job.done) job.done(job.error ? std::optional(job.error.what) : std::nullopt);
  } catch (const std::exception& e) {
    log::error("store.done_threw", {{"error", e.what()}});
  }
  delete &job;
}

}  // namespace

Writer::Writer(Connection& connection, Clock& clock, StoreClock& store_clock, const std::string& directory,
               Options options)
    : clock_(clock),
      options_(std::move(options)),
      runner_(connection, clock, store_clock),
      checkpointer_(connection),
      reserve_(directory) {
  runner_.set_announced(&options_.announced);
  runner_.load_counters();
  if (!reserve_.make()) {
    disk_full_ = true;
    probed_at_ = clock_.boot_ms();
    log_full();
  }
  batch_.reserve(limits::kBatchJobs);
  if (options_.threaded) thread_ = std::thread([this] { thread_main(); });
}

void Writer::add(Job& job) NO_THREAD_SAFETY_ANALYSIS {
  const bool inside = on_writer_thread();
  if (inside && job.parker != nullptr) throw Bug("a job or a bell must not wait for another write");
  std::unique_lock lock(mutex_);
  if (options_.threaded && !inside && !job.rides) {  // a rider's caller may hold a lock that a bell wants
    while (queued_ >= limits::kQueueJobs && !closing_) room_.wait(lock);
  }
  if (closing_ || failed()) {
    job.error = {ErrorValue::Kind::storage_fault,
                 closing_ ? "closing" : "the store has failed: nothing more is written"};
    lock.unlock();
    answer(job);
    return;
  }
  const bool first_rider = job.rides && queued_ == urgent_;
  if (first_rider) rider_due_ = clock_.boot_ms() + limits::kRiderMs;
  if (!job.rides) ++urgent_;
  ++queued_;
  *tail_ = &job;
  tail_ = &job.next;
  const bool wake = sleeping_ && (!job.rides || first_rider);
  const bool run_now = !options_.threaded && !inside && (!job.rides || queued_ >= limits::kBatchJobs);
  lock.unlock();
  if (wake) work_.notify_one();
  if (run_now) run_inline();
}

void Writer::close() {
  {
    Lock lock(mutex_);
    if (closing_) return;
    closing_ = true;
  }
  work_.notify_all();
  room_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!options_.threaded) run_inline();
  if (failed()) return;
  try {
    (void)checkpointer_.truncate();
  } catch (const std::exception& e) {
    // Everything acknowledged is in the WAL; the next start moves it.
    log::error("store.close_checkpoint", {{"error", e.what()}});
  }
}

void Writer::thread_main() {
  name_thread("bide-writer");
  running_in_ = std::this_thread::get_id();
  for (;;) {
    switch (wait_for_work()) {
      case Due::jobs:
        take_batch();
        process();
        break;
      case Due::timer: do_timers(); break;
      case Due::end: return;
    }
  }
}

void Writer::run_inline() {
  const Lock lock(inline_mutex_);
  running_in_ = std::this_thread::get_id();
  do_timers();
  for (take_batch(); !batch_.empty(); take_batch()) process();
  running_in_ = std::thread::id();
}

Writer::Due Writer::wait_for_work() NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (urgent_ > 0 || (closing_ && head_ != nullptr)) return Due::jobs;
    if (closing_) return Due::end;
    const BootMs now = clock_.boot_ms();
    if (head_ != nullptr && now >= rider_due_) return Due::jobs;
    const DurationMs left = until_timer(now);
    if (left == 0) return Due::timer;
    sleeping_ = true;
    if (left < 0) {
      work_.wait(lock);
    } else {
      work_.wait_for(lock, std::chrono::milliseconds(left));
    }
    sleeping_ = false;
    wakes_.fetch_add(1, std::memory_order_relaxed);
  }
}

// Milliseconds to the next thing to do without a job; negative: nothing, an idle process does not wake.
DurationMs Writer::until_timer(BootMs now) const {
  BootMs due = -1;
  const auto at = [&due](BootMs t) { due = due < 0 ? t : std::min(due, t); };
  if (head_ != nullptr) at(rider_due_);
  if (disk_full_) at(probed_at_ + limits::kDiskProbeMs);
  if (!failed() && checkpointer_.owed()) at(busy_until_ + limits::kIdleCheckpointMs);
  return due < 0 ? -1 : std::max<DurationMs>(due - now, 0);
}

void Writer::take_batch() {
  batch_.clear();
  Job* needless = nullptr;
  {
    Lock lock(mutex_);
    while (head_ != nullptr && batch_.size() < limits::kBatchJobs) {
      Job* job = head_;
      head_ = job->next;
      --queued_;
      if (!job->rides) --urgent_;
      if (job->needless && job->needless->load()) {
        job->next = std::exchange(needless, job);
      } else {
        batch_.push_back(job);
      }
    }
    if (head_ == nullptr) tail_ = &head_;
  }
  room_.notify_all();
  while (needless != nullptr) answer(*std::exchange(needless, needless->next));
}

void Writer::process() {
  if (failed()) {
    for (Job* job : batch_)
      job->error = {ErrorValue::Kind::storage_fault, "the store has failed: nothing more is written"};
    return answer_all();
  }
  if (disk_full_) refuse_what_needs_space();
  if (batch_.empty()) return;
  switch (runner_.run(batch_)) {
    case BatchRunner::End::committed:
      commits_.fetch_add(1, std::memory_order_relaxed);
      jobs_.fetch_add(batch_.size(), std::memory_order_relaxed);
      answer_all();
      ring_bells();
      after_commit();
      return;
    case BatchRunner::End::refused: return answer_all();
    case BatchRunner::End::full: return on_full();
    case BatchRunner::End::fatal: return fatal(runner_.why().what);
  }
}

// The rest of the batch are decisions: they get what the reserve held.
void Writer::refuse_what_needs_space() {
  std::size_t kept = 0;
  for (Job* job : batch_) {
    if (job->purpose == Purpose::decision) {
      batch_[kept++] = job;
      continue;
    }
    job->error = {ErrorValue::Kind::storage_full, "the disk is full: only decisions and cancels are taken"};
    answer(*job);
  }
  batch_.resize(kept);
  if (kept > 0) reserve_.release();
}

void Writer::on_full() {
  log_full();
  if (disk_full_) return answer_all();  // the reserve was not enough either
  disk_full_ = true;
  probed_at_ = clock_.boot_ms();
  process();
}

void Writer::fatal(const std::string& what) {
  failed_.store(true, std::memory_order_release);
  // First the owner, who normally ends the process here: the callers were told nothing.
  try {
    options_.on_fatal(what);
  } catch (const std::exception& e) {
    log::error("store.on_fatal", {{"error", e.what()}});
  }
  for (Job* job : batch_) job->error = {ErrorValue::Kind::storage_fault, what};
  answer_all();
}

// Waking a thread costs the writer more than a job's SQL may: it wakes one in kWakeGroup, and that one the rest.
void Writer::answer_all() {
  Job* leader = nullptr;
  Job* last = nullptr;
  int group = 0;
  for (Job* job : batch_) {
    if (job->parker == nullptr) {
      answer(*job);
      continue;
    }
    if (group == limits::kWakeGroup) {
      answer(*leader);
      leader = nullptr;
    }
    if (leader == nullptr) {
      leader = job;
      group = 0;
    } else {
      last->follower = job;
    }
    last = job;
    ++group;
  }
  if (leader != nullptr) answer(*leader);
  batch_.clear();
}

void Writer::await(Job& job) {
  job.parker->wait();
  for (Job* next = job.follower; next != nullptr;) {
    Job* one = std::exchange(next, next->follower);  // its caller may be gone once it is answered
    one->follower = nullptr;                         // or it would wake them again
    one->parker->answer();
  }
}
void Writer::ring_bells() {
  for (Bell& bell : runner_.bells()) {
    try {
      bell();
    } catch (const std::exception& e) {
      log::error("store.bell_threw", {{"error", e.what()}});
    }
  }
  runner_.bells().clear();
  if (!options_.after_batch) return;
  try {
    options_.after_batch();
  } catch (const std::exception& e) {
    log::error("store.after_batch_threw", {{"error", e.what()}});
  }
}

void Writer::after_commit() {
  busy_until_ = clock_.boot_ms();
  if (runner_.foreign_writer_seen()) foreign_writer_ = true;
  try {
    if (checkpointer_.after_commit() == Checkpointer::Outcome::full) log_full();
  } catch (const std::exception& e) {
    fatal(e.what());
  }
}

void Writer::do_timers() {
  if (failed()) return;
  const BootMs now = clock_.boot_ms();
  if (disk_full_ && now - probed_at_ >= limits::kDiskProbeMs) probe_disk();
  if (!options_.threaded || failed() || !checkpointer_.owed()) return;
  if (now - busy_until_ < limits::kIdleCheckpointMs) return;
  busy_until_ = now;  // one that could not do all is tried again as much later
  try {
    if (checkpointer_.truncate() == Checkpointer::Outcome::full) log_full();
  } catch (const std::exception& e) {
    fatal(e.what());
  }
}

// Normal again when the reserve is back and a probe commits.
void Writer::probe_disk() {
  probed_at_ = clock_.boot_ms();
  if (!reserve_.make()) return log_full();
  switch (runner_.probe()) {
    case BatchRunner::End::committed:
      disk_full_ = false;
      log::info("store.space_is_back");
      logged_full_ = false;
      busy_until_ = probed_at_;
      return;
    case BatchRunner::End::refused:
    case BatchRunner::End::full: return log_full();
    case BatchRunner::End::fatal: return fatal(runner_.why().what);
  }
}

void Writer::log_full() {
  const BootMs now = clock_.boot_ms();
  if (logged_full_ && now - logged_full_at_ < limits::kDiskLogMs) return;
  logged_full_ = true;
  logged_full_at_ = now;
  log::error("store.disk_full", {{"hint", "free some space: writing goes on by itself"}});
}

StoreHealth Writer::health() const {
  StoreHealth health;
  health.storage_full = disk_full_;
  health.failed = failed();
  health.foreign_writer_seen = foreign_writer_;
  health.wal_bytes = checkpointer_.wal_bytes();
  health.commits = commits_;
  health.jobs = jobs_;
  health.wakes = wakes_;
  Lock lock(mutex_);
  health.queued_jobs = queued_;
  return health;
}

}  // namespace bide::db
