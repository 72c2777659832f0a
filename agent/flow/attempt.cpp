#include "agent/flow/attempt.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/process_tree.h"
#include "agent/flow/attempt_impl.h"
#include "agent/flow/nondeterminism.h"
#include "agent/kernel/claims.h"

namespace bide::flow {

std::string request_hash(std::string_view request) { return sha256(json::canonical(request)); }

namespace {

struct Loaded {
  kernel::RunRow run;
  std::vector<kernel::StepRow> journal;
  std::vector<kernel::ProcessRow> holders;
  bool marks = false;
};

Loaded load(db::ReadTx& tx, RunId id) {
  Loaded loaded;
  auto row = kernel::read_run(tx, id);
  if (!row) throw Bug("attempt: the claimed run is not there");
  loaded.run = std::move(*row);
  loaded.journal = kernel::load_journal(tx, id);
  loaded.holders = kernel::live_holders(tx, id);
  loaded.marks = loaded.run.recoveries > 0 || loaded.run.redriven;
  return loaded;
}

}  // namespace

Attempt::Attempt(db::Store& store, Random& random, kernel::Fence fence, AttemptOptions options)
    : store_(store), random_(random), fence_(std::move(fence)), options_(std::move(options)), journal_({}) {
  Loaded loaded = store_.read([&](db::ReadTx& tx) { return load(tx, fence_.run); });
  run_ = std::move(loaded.run);
  journal_ = Journal(std::move(loaded.journal));
  adopt(std::move(loaded.holders));
  reset_marks_ = loaded.marks;
  cancelled_ = !options_.undoing && run_.cancel_requested_at.has_value();
  if (run_.error && !options_.undoing)
    closing_ = Closing::ending;  // E6: the end is written, the code is not entered again
  if (run_.paused_at && closing_ == Closing::open && !cancelled_) closing_ = Closing::paused;
  loaded_boot_ms_ = store_.system_clock().boot_ms();
  if (options_.resumed) resume();
  if (options_.deadline > 0) deadline_boot_ms_ = store_.system_clock().boot_ms() + options_.deadline;
}

kernel::StepIntent Attempt::intent_of(const Entry& entry) const {
  kernel::StepIntent intent;
  intent.position = entry.row.position;
  intent.seq = entry.row.seq;
  intent.kind = entry.row.kind;
  intent.name = entry.row.name;
  intent.effect = entry.row.effect;
  intent.request = entry.row.request;
  intent.request_hash = entry.row.request_hash;
  intent.nonce = entry.row.nonce.value_or("");
  intent.caller_hash = entry.row.caller_hash;
  intent.retries = entry.ask.retries;
  intent.compensate = entry.ask.compensate;
  intent.assume = entry.ask.assume;
  return intent;
}

Closed Attempt::continue_as_new(std::string input) {
  Guard guard(mutex_);
  if (closing_ != Closing::open || cancelled_) return Closed{closing_ != Closing::open ? closing_ : Closing::cancelled};
  if (options_.style == Style::program && !journal_.at_work().empty()) {
    (void)end_locked(guard, error_json("UnfinishedBranch",
                                       "The program went on as a new run while a verb in the background was open: add "
                                       "`wait` before it."));
    return Closed{closing_};
  }
  continue_input_ = std::move(input);
  close_locked(Closing::ending);
  return Closed{closing_};
}

void Attempt::set_fresh_bell(std::function<void()> bell) {
  Guard guard(mutex_);
  fresh_bell_ = std::move(bell);
}

Outcome Attempt::end_locked(Guard& guard, std::string_view error) {
  ends_ = true;  // from here on nothing begins, though the end be not on disk yet [P1]
  const bool held = persist(guard, [&](db::Tx& tx) { return kernel::record_error(tx, fence_, error, tx.now()); });
  if (!held) return lost();
  close_locked(Closing::ending);
  return Closed{Closing::ending};
}

Closed Attempt::end(std::string_view error, std::int64_t from_step) {
  Guard guard(mutex_);
  if (closing_ == Closing::open) (void)end_locked(guard, error);
  if (Entry* entry = from_step == 0 ? nullptr : journal_.by_seq(from_step)) {
    stop_executing(*entry);
    entry->open = false;
    if (bell_) bell_();
  }
  return Closed{closing_};
}

// A verb in a program never ends before it was answered, or its attempt ended: one that is gone was killed.
bool Attempt::verb_killed() const {
  if (options_.style != Style::program || options_.undoing) return false;  // ~undo is a process of ours, no program
  if (vanished_ > 0) return true;
  const auto gone = [](const ProcessKey& verb) {
    try {
      return verb.pid > 0 && !is_alive(verb);
    } catch (const CannotLook&) {
      return false;  // looked at again
    }
  };
  // Every entry that is not answered, not only those asleep in block(): one that was woken (by its own hang-up) and
  // looks into the file just now must not be missed.
  const auto& entries = journal_.at_work();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& item) { return gone(item.second->verb); });
}

bool Attempt::end_if_verb_killed() {
  Guard guard(mutex_);
  if (closing_ != Closing::open || !verb_killed()) return false;
  (void)end_locked(guard, verb_killed_error());
  return true;
}

void Attempt::set_program(const ProcessKey& program) {
  Guard guard(mutex_);
  program_ = program;
}

Attempt::Reader Attempt::reader_asks() {
  Guard guard(mutex_);
  // An attempt that is over refuses by itself.
  if (options_.style != Style::program || options_.undoing || over() || cancelled_) return Reader::may_ask;
  if (program_.pid == 0) return Reader::unknown;
  try {
    if (!is_ending(program_)) return Reader::may_ask;
  } catch (const CannotLook&) {
    return Reader::unknown;
  }
  reader_came_too_late_ = true;
  return Reader::too_late;
}

bool Attempt::reader_came_too_late() const {
  Guard guard(mutex_);
  return reader_came_too_late_;
}

Outcome Attempt::lost() {
  close_locked(Closing::lease_lost);
  return Closed{Closing::lease_lost};
}

void Attempt::close_locked(Closing why) {
  // What is over stays over; a lost lease overrides what was still going on.
  const bool going_on = closing_ == Closing::open || closing_ == Closing::ending || closing_ == Closing::shutdown ||
                        closing_ == Closing::fault || closing_ == Closing::paused;
  if (!going_on || why == Closing::open) return;
  closing_ = why;
  ++changes_;
  changed_.notify_all();
  if (bell_) bell_();
}

void Attempt::close(Closing why) {
  Guard guard(mutex_);
  close_locked(why);
}

Closing Attempt::closing() const {
  Guard guard(mutex_);
  return closing_;
}

bool Attempt::cancel_requested() const {
  Guard guard(mutex_);
  return cancelled_;
}

int Attempt::vanished() const {
  Guard guard(mutex_);
  return vanished_;
}

void Attempt::ring() {
  rung_.store(true);
  {
    Guard guard(mutex_);
    ++changes_;
    changed_.notify_all();
    if (bell_) bell_();
  }
}

void Attempt::set_bell(std::function<void()> bell) {
  Guard guard(mutex_);
  bell_ = std::move(bell);
}

bool Attempt::refresh() {
  Guard guard(mutex_);
  const auto before = std::pair(closing_, cancelled_);
  refresh_locked(guard);
  return before != std::pair(closing_, cancelled_);
}

void Attempt::refresh_locked(Guard& guard) {
  if (refused_.load()) close_locked(Closing::lease_lost);
  std::optional<kernel::RunRow> row;
  for (;;) {
    while (suspending_) wait_for_change(guard);
    if (!rung_.exchange(false)) return;
    guard.unlock();
    row = store_.read([&](db::ReadTx& tx) { return kernel::read_run(tx, fence_.run); });
    guard.lock();
    if (!suspending_) break;
    rung_.store(true);  // a suspension began meanwhile: what was read may be the half of it
  }
  if (!row || row->status != kernel::RunStatus::running || row->epoch != fence_.epoch || row->owner != fence_.owner) {
    close_locked(Closing::lease_lost);
    return;
  }
  // X5: a deadline wrote the end, or an operator wants it to rest.
  if (row->error && !options_.undoing) close_locked(Closing::ending);
  if (row->paused_at && closing_ == Closing::open && !row->cancel_requested_at) close_locked(Closing::paused);
  if (row->cancel_requested_at && !cancelled_ && !options_.undoing) {
    cancelled_ = true;
    ++changes_;
    changed_.notify_all();
  }
}

kernel::Finished Attempt::finish(const kernel::Finish& asked) {
  Guard guard(mutex_);
  if (closing_ != Closing::open && closing_ != Closing::ending && closing_ != Closing::cancelled)
    return kernel::Finished::lease_lost;
  kernel::Finish finish = asked;
  const bool by_itself = closing_ == Closing::open || continue_input_.has_value();
  if (options_.style != Style::program && !options_.undoing && !finish.error && by_itself && !cancelled_) {
    if (const Entry* unvisited = journal_.first_unvisited()) {
      StepAsk none;
      finish.error = nondeterminism(
          replayed(), unvisited, Attempted{"", unvisited->row.kind, none},
          "The code ended without asking for an entry that was recorded: " + unvisited->row.position + ".");
    } else if (const Entry* open = journal_.first_open()) {
      const auto more = persist(guard, [&](db::Tx& tx) { return kernel::queue_once_more(tx, fence_, tx.now()); });
      if (more != kernel::OnceMore::spent) {
        close_locked(more == kernel::OnceMore::queued ? Closing::finished : Closing::lease_lost);
        if (options_.on_requeued) options_.on_requeued();
        return more == kernel::OnceMore::queued ? kernel::Finished::queued_again : kernel::Finished::lease_lost;
      }
      finish.error = error_json("OpenSteps", "The code ended twice while \"" + open->row.name + "\" was open.");
    }
  }
  if (continue_input_ && !finish.error) {
    guard.unlock();  // a program's files are read and pinned outside of the transaction
    kernel::ContinueAsNew next{*continue_input_, random_.uid(), {}};
    if (options_.find_workflow) {
      const auto found = options_.find_workflow(run_.workflow_name);
      if (const auto* newest = std::get_if<Startable>(&found)) {
        next.version = newest->version;
        const auto refused = input_refused(run_.workflow_name, *newest, next.input);
        if (refused)
          finish.error = error_json(refused->code, refused->detail + ", at \"" + refused->errors[0].pointer +
                                                       "\": " + refused->errors[0].detail);
      }
    }
    guard.lock();
    if (!finish.error) finish.continue_as_new = std::move(next);
  }
  const auto outcome = persist(guard, [&](db::Tx& tx) {
    kernel::Ripples ripples;
    const auto ended = kernel::finish_run(tx, fence_, finish, tx.now(), &ripples);
    tell(tx, ripples);
    return ended;
  });
  compensates_ = outcome == kernel::Finished::compensate;
  close_locked(outcome == kernel::Finished::lease_lost ? Closing::lease_lost : Closing::finished);
  return outcome;
}

bool Attempt::hand_back(TimeMs run_at, std::string_view reason, Closing why) {
  Guard guard(mutex_);
  const bool held = persist(guard, [&](db::Tx& tx) { return kernel::hand_back(tx, fence_, run_at, reason, tx.now()); });
  close_locked(held ? why : Closing::lease_lost);
  if (held && options_.on_requeued) options_.on_requeued();
  return held;
}

void Attempt::tell(db::Tx& tx, const kernel::Ripples& ripples) {
  if (options_.on_ripples) options_.on_ripples(tx, ripples);
}

std::vector<Attempt::OpenCall> Attempt::open_calls() const {
  Guard guard(mutex_);
  std::vector<OpenCall> calls;
  for (const auto& [seq, entry] : journal_.at_work()) {
    if (entry->executing)
      calls.push_back({seq, entry->verb, false, true, entry->deadline_boot_ms, entry->holder,
                       entry->row.nonce.value_or(""), entry->adopted,
                       entry->row.position.starts_with(std::string(kernel::kUndoBranch) + "/")});
  }
  for (const Waiter* waiter : waiters_)
    calls.push_back({waiter->entry->row.seq, waiter->verb, waiter->may_suspend, false, 0, {}, {}, false, false});
  return calls;
}

void Attempt::will_signal(std::int64_t step) {
  Guard guard(mutex_);
  if (Entry* entry = journal_.by_seq(step)) entry->signalled = true;
}

bool Attempt::executes(std::int64_t step, std::string_view nonce) const {
  Guard guard(mutex_);
  const auto found = journal_.all().find(step);
  return found != journal_.all().end() && found->second->executing && found->second->row.nonce == nonce;
}

void Attempt::branch_began() {
  Guard guard(mutex_);
  ++branches_;
}

void Attempt::branch_ended() {
  Guard guard(mutex_);
  --branches_;
  suspend_if_all_wait(guard);
}

void Attempt::run_branches(const std::vector<std::function<void()>>& branches) {
  if (options_.pace != nullptr) return options_.pace->run(branches);
  std::vector<std::jthread> threads;
  threads.reserve(branches.size());
  for (const auto& branch : branches) threads.emplace_back(branch);
}

void Attempt::wait_for_change(Guard& guard, DurationMs longest) {
  if (options_.pace == nullptr) {
    changed_.wait_for(guard, std::chrono::milliseconds(longest));
    return;
  }
  struct Relock {
    Guard& guard;
    ~Relock() { guard.lock(); }
  };
  guard.unlock();
  const Relock relock{guard};
  options_.pace->wait(longest);
}

void Attempt::set_result(std::string result) {
  Guard guard(mutex_);
  result_ = std::move(result);
}

std::optional<std::string> Attempt::result() const {
  Guard guard(mutex_);
  return result_;
}

}  // namespace bide::flow
