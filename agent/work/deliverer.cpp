#include "agent/work/deliverer.h"

#include <algorithm>
#include <chrono>

#include "agent/base/crash_point.h"
#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/kernel/webhooks.h"

namespace bide::work {

Deliverer::Deliverer(db::Store& store, Random& random, Transport& transport, FreshRows& fresh, DelivererOptions options)
    : store_(store), random_(random), transport_(transport), fresh_(fresh), options_(std::move(options)) {
  fresh_.set_bell([this] {
    Lock lock(mutex_);
    changed_.notify_one();
  });
}

Deliverer::~Deliverer() {
  stop();
  fresh_.set_bell({});
}

void Deliverer::make_untried_due() {
  store_.write([&](db::Tx& tx) {
    kernel::ensure_agent_id(tx, random_.uuid());
    (void)kernel::make_untried_due(tx, tx.now());
  });
  count_parked();
}

void Deliverer::count_parked() {
  parked_.store(store_.read([](db::ReadTx& tx) { return kernel::count_parked(tx); }));
}

std::size_t Deliverer::in_flight() const {
  Lock lock(mutex_);
  return in_flight_.size();
}

// -- Handing out.

bool Deliverer::place(const kernel::DueRow& row, bool fresh) {
  Lane& lane = lanes_[row.lane];
  if (in_flight_.contains(row.id.value) || lane.items.size() >= limits::kLaneRows) return false;
  in_flight_.insert(row.id.value);
  lane.items.push_back({row.id, fresh});
  if (!lane.busy && !lane.ready) {
    lane.ready = true;
    ready_.push_back(row.lane);
  }
  changed_.notify_one();
  return true;
}

// Rows right after their COMMIT. What has no room is due at once, and the sweep's [O2].
bool Deliverer::place_fresh() {
  FreshRows::Taken taken;
  std::vector<DeliveryId> late;
  {
    Lock order(fresh_mutex_);
    taken = fresh_.take(limits::kLaneRows);
    if (taken.empty()) return false;
    crash_point("outbox.committed");
    const auto rows = store_.read([&](db::ReadTx& tx) { return kernel::find_deliveries(tx, taken.rows); });
    Lock lock(mutex_);
    for (const kernel::DueRow& row : rows) {
      if (!place(row, true) && !in_flight_.contains(row.id.value)) late.push_back(row.id);
    }
  }
  // Not under the lock: the rows of a lane that is full would keep those of all others waiting for their COMMITs.
  if (late.empty() && !taken.no_room_first.valid()) return true;
  store_.write([&](db::Tx& tx) {
    for (const DeliveryId id : late) (void)kernel::make_range_due(tx, id, id, tx.now());
    if (taken.no_room_first.valid())
      (void)kernel::make_range_due(tx, taken.no_room_first, taken.no_room_last, tx.now());
  });
  if (due_bell_) due_bell_();
  return true;
}

// O7.
void Deliverer::wake_lost(TimeMs now) {
  const auto lost = store_.read([&](db::ReadTx& tx) { return kernel::lost_wakes(tx, limits::kSweepPage, now); });
  if (lost.empty()) return;
  store_.write([&](db::Tx& tx) {
    for (const RunId run : lost) (void)kernel::wake_again(tx, run, tx.now());
  });
  for (const RunId run : lost) log::warn("outbox.wake_again", {{"run", run.value}});
}

namespace {

std::string names_of(const std::vector<std::string>& lanes) {
  json::Writer w;
  w.begin_array();
  for (const std::string& lane : lanes) w.string(lane);
  return w.end_array().take();
}

}  // namespace

std::int64_t Deliverer::sweep(TimeMs now) {
  std::string trouble;
  {
    Lock lock(mutex_);
    const BootMs now_boot = store_.system_clock().boot_ms();
    passed_at_ = now_boot;
    trouble = std::exchange(not_recorded_, {});
    // What is empty and forgot its failures goes: the map does not grow with the destinations of a year.
    std::erase_if(lanes_, [&](const auto& item) {
      const Lane& lane = item.second;
      return lane.items.empty() && !lane.busy && !lane.ready && now_boot - lane.failed_at > limits::kTogetherMs;
    });
  }
  wake_lost(now);
  std::int64_t handed = 0;
  int looked = 0;
  kernel::DueCursor cursor;
  // A full disk would deliver again and again what it cannot delete [C4].
  while (handed < options_.budget && looked < limits::kScanBudget && !closing_.load() &&
         !store_.health().storage_full) {
    std::vector<std::string> full;
    {
      Lock lock(mutex_);
      for (const auto& [name, lane] : lanes_) {
        if (lane.items.size() >= limits::kLaneRows) full.push_back(name);
      }
    }
    const auto page = store_.read(
        [&](db::ReadTx& tx) { return kernel::due_deliveries(tx, cursor, names_of(full), limits::kSweepPage, now); });
    {
      Lock lock(mutex_);
      for (const kernel::DueRow& row : page) handed += place(row, false) ? 1 : 0;
    }
    looked += static_cast<int>(page.size());
    if (page.size() < static_cast<std::size_t>(limits::kSweepPage)) break;
    cursor = {page.back().next_try_at, page.back().id};
  }
  count_parked();
  if (!trouble.empty()) throw std::runtime_error(trouble);
  return handed;
}

std::optional<DurationMs> Deliverer::look(TimeMs now) {
  const auto due = store_.read([](db::ReadTx& tx) { return kernel::next_delivery_due(tx); });
  const bool remote = store_.read([](db::ReadTx& tx) {
    db::Query q(tx, "SELECT 1 FROM workflow_versions WHERE kind = 'remote' LIMIT 1");
    return q.next();
  });
  std::optional<DurationMs> longest;
  if (remote) longest = limits::kLostWakeMs;
  if (!due) return longest;
  BootMs passed_at = 0;
  {
    Lock lock(mutex_);
    passed_at = passed_at_;
  }
  const DurationMs gap = passed_at + options_.interval - store_.system_clock().boot_ms();
  const DurationMs next = std::max({*due - now, gap, DurationMs{0}});
  return longest ? std::min(*longest, next) : next;
}

// -- Threads.

bool Deliverer::run_one() {
  if (!closing_.load() && place_fresh()) return true;
  auto page = pick();
  if (!page) return false;
  run_page(std::move(*page));
  return true;
}

bool Deliverer::something_to_do() {
  if (closing_.load()) return false;
  if (!fresh_.empty()) return true;
  if (busy_ >= limits::kLanesAtOnce) return false;
  return std::any_of(ready_.begin(), ready_.end(), [this](const std::string& name) REQUIRES(mutex_) {
    return !lanes_[name].slow || slow_busy_ < limits::kSlowLanesAtOnce;
  });
}

void Deliverer::work(std::stop_token stop) NO_THREAD_SAFETY_ANALYSIS {
  while (!stop.stop_requested()) {
    try {
      if (run_one()) continue;
    } catch (const std::exception& e) {  // the store: full, locked, or gone
      log::warn("outbox.lane_failed", {{"error", e.what()}});
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(limits::kDiskProbeMs), [&] { return stop.stop_requested(); });
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&]() REQUIRES(mutex_) { return stop.stop_requested() || something_to_do(); });
  }
}

void Deliverer::start() {
  for (int i = 0; i < limits::kLanesAtOnce; ++i) threads_.emplace_back([this](std::stop_token stop) { work(stop); });
}

void Deliverer::begin_closing() {
  closing_.store(true);
  Lock lock(mutex_);
  changed_.notify_all();
}

void Deliverer::stop() NO_THREAD_SAFETY_ANALYSIS {
  begin_closing();
  if (threads_.empty()) return;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(limits::kDeliveryCloseMs),
                      [this]() REQUIRES(mutex_) { return busy_ == 0; });
  }
  transport_.close();
  for (auto& thread : threads_) thread.request_stop();
  {
    Lock lock(mutex_);
    changed_.notify_all();
  }
  threads_.clear();
}

}  // namespace bide::work
