// Deliverer: sends the rows of the outbox, lane by lane [O2 to O5, O7]. A new row is tried right after its COMMIT and
// nobody waits for it; what the sweep finds due is handed out to the lanes, and no pass waits for a lane.
//
// Threads: any may call. run_one() is what a lane's thread does once: a page of one lane, or the rows that have just
// committed. start() makes as many threads as lanes may be open at once. A row in flight is in no other lane and never
// due. Failures: those of a receiver are rows' tries, never thrown; a try that could not be recorded fails the next
// pass. Ownership: Store, Random, Transport and FreshRows outlive it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "agent/base/limits.h"
#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/kernel/outbox.h"
#include "agent/work/fresh_rows.h"
#include "agent/work/transport.h"
#include "db/store.h"

namespace bide::work {

struct DelivererOptions {
  DurationMs park_after = limits::kParkAfterMs;  // O5: can be days
  int budget = limits::kSweepBudget;             // rows that a pass hands out
  std::vector<std::string> allow;                // addresses inside that messages and wakes may go to [O6]
  std::string user_agent = "bide";
  DurationMs interval = limits::kSweepIntervalMs;
};

class Deliverer {
 public:
  Deliverer(db::Store& store, Random& random, Transport& transport, FreshRows& fresh, DelivererOptions options);
  ~Deliverer();
  Deliverer(const Deliverer&) = delete;
  Deliverer& operator=(const Deliverer&) = delete;

  // O2: before the door opens. What it throws must keep the door shut.
  void make_untried_due();
  // The sweep's duty [O4, O7]: hands due rows to the lanes; returns how many. Throws if a try could not be recorded
  // since the last pass.
  std::int64_t sweep(TimeMs now);
  // For Sweep::add_look: in how long the next row is due, never sooner than an interval after the last pass.
  [[nodiscard]] std::optional<DurationMs> look(TimeMs now);
  // Rung when a row became due that the sweep does not know of; Sweep::recheck. Before start().
  void set_due_bell(std::function<void()> bell) { due_bell_ = std::move(bell); }

  // Called in the transaction that records a delivery with 2xx: RemoteTasks::answered. Before start().
  using TaskAnswered = std::function<void(db::Tx&, DeliveryId, int status, const std::string& body)>;
  void set_task_answered(TaskAnswered answered) { task_answered_ = std::move(answered); }

  // False: nothing to do.
  bool run_one();
  void start();
  // Tries that are under way get limits::kDeliveryCloseMs, then they are cut; rows that were not begun stay as they
  // are. Twice is once.
  void stop();
  // What stop() begins with: no further row is begun.
  void begin_closing();

  [[nodiscard]] const std::vector<std::string>& allow() const { return options_.allow; }
  [[nodiscard]] std::int64_t parked() const { return parked_.load(); }
  void count_parked();  // after an operator's change
  [[nodiscard]] std::size_t in_flight() const;

 private:
  struct Item {
    DeliveryId id;
    bool fresh = false;  // its try right after the COMMIT
  };
  struct Lane {
    std::deque<Item> items;
    bool busy = false;
    bool ready = false;  // stands in ready_
    bool slow = false;   // its last try took long
    BootMs failed_at = 0;
    std::int64_t together = 0;  // rows that failed in the same second
  };
  struct Page {
    std::string lane;
    std::vector<Item> items;
  };
  struct Outcome {
    Item item;
    kernel::Tried tried;
    Answered answer;
    WebhookId webhook;
    std::int64_t together = 0;
    bool task = false;  // its answer is what came of it
  };

  bool place_fresh();
  [[nodiscard]] bool place(const kernel::DueRow& row, bool fresh) REQUIRES(mutex_);
  [[nodiscard]] std::optional<Page> pick();
  void run_page(Page page);
  void give_back(const Page& page, std::size_t done, bool slow);
  [[nodiscard]] std::optional<Outcome> try_row(const std::string& lane, const Item& item);
  [[nodiscard]] Answered send(const kernel::OutboxRow& row);
  void record(const std::string& lane, std::vector<Outcome>& outcomes);
  void release(const std::vector<Outcome>& outcomes);
  [[nodiscard]] std::int64_t failed_together(const std::string& lane);
  void wake_lost(TimeMs now);
  void work(std::stop_token stop);
  [[nodiscard]] bool something_to_do() REQUIRES(mutex_);

  db::Store& store_;
  Random& random_;
  Transport& transport_;
  FreshRows& fresh_;
  const DelivererOptions options_;
  std::function<void()> due_bell_;
  TaskAnswered task_answered_;

  std::atomic<std::int64_t> parked_{0};
  std::atomic<bool> closing_{false};
  Mutex fresh_mutex_;  // one thread places new rows at a time, so that a lane gets them in order

  mutable Mutex mutex_;
  Condition changed_;
  std::map<std::string, Lane> lanes_ GUARDED_BY(mutex_);
  std::deque<std::string> ready_ GUARDED_BY(mutex_);
  std::unordered_set<std::int64_t> in_flight_ GUARDED_BY(mutex_);
  int busy_ GUARDED_BY(mutex_) = 0;
  int slow_busy_ GUARDED_BY(mutex_) = 0;
  std::string not_recorded_ GUARDED_BY(mutex_);  // why
  BootMs passed_at_ GUARDED_BY(mutex_) = 0;

  std::vector<std::jthread> threads_;
};

}  // namespace bide::work
