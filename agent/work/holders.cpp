#include "agent/work/holders.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/base/process_tree.h"
#include "agent/flow/attempt_impl.h"
#include "agent/flow/retry_delay.h"
#include "agent/kernel/steps.h"

namespace bide::work {

namespace fs = std::filesystem;

namespace {

// The whole one, and one that was being written.
void remove_outcome(const std::string& directory, std::string_view nonce) {
  ::unlink((directory + "/" + std::string(nonce)).c_str());
  ::unlink((directory + "/." + std::string(nonce)).c_str());
}

std::optional<kernel::HeldOutcome> read_outcome(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_outcome(text);
}

}  // namespace

std::optional<kernel::HeldOutcome> parse_outcome(std::string_view text) {
  if (text.empty() || json::check(text)) return std::nullopt;
  kernel::HeldOutcome outcome;
  outcome.result = json::member(text, "result");
  outcome.error = json::member(text, "error").value_or("");
  if (outcome.result.has_value() == !outcome.error.empty()) return std::nullopt;
  if (!outcome.result && !json::string_member(outcome.error, "code")) return std::nullopt;
  outcome.retryable = json::bool_member(text, "retryable").value_or(true);
  outcome.unknown = json::bool_member(text, "unknown").value_or(false);
  outcome.begun = json::bool_member(text, "begun").value_or(true);
  outcome.left = json::bool_member(text, "left").value_or(false);
  outcome.backoff = json::int_member(text, "backoff_ms").value_or(0);
  return outcome;
}

void Holders::make_directory() const { fs::create_directories(directory_); }

void Holders::tidy() {
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    std::string nonce = it->path().filename();
    if (nonce.starts_with('.')) nonce.erase(0, 1);  // a holder that lives is writing it just now
    const bool known = store_.read([&](db::ReadTx& tx) { return kernel::holder_lives(tx, nonce); });
    std::error_code ignored;
    if (!known) fs::remove(it->path(), ignored);
  }
}

namespace {

struct Execution {
  RunId run;
  std::int64_t step = 0;  // seq
  std::string_view nonce;
};

kernel::Taken take(db::Store& store, Random& random, Executor& executor, const Execution& which,
                   const kernel::HeldOutcome& outcome) {
  if (const auto attempt = executor.attempt(which.run)) {
    switch (attempt->hand_in(which.step, which.nonce, outcome)) {
      case flow::Attempt::HandIn::recorded: return kernel::Taken::recorded;
      case flow::Attempt::HandIn::again: return kernel::Taken::again;
      case flow::Attempt::HandIn::not_here: break;
    }
  }
  kernel::HeldOutcome taken = outcome;
  if (taken.result) {
    if (auto error = flow::unusable(*taken.result)) {
      taken.result.reset();
      taken.error = std::move(*error);
      taken.retryable = false;
      taken.unknown = false;
    }
  }
  const std::uint64_t chance = random.next();
  const auto delay = [&](std::int64_t failures) { return flow::retry_delay(taken.backoff, failures, chance); };
  const kernel::Taken how =
      store.write([&](db::Tx& tx) { return kernel::hand_in(tx, which.nonce, taken, delay, tx.now()); });
  if (how == kernel::Taken::recorded) {
    executor.ring(which.run);  // one that was claimed just now has read the step as it was
    executor.ring();
  }
  return how;
}

}  // namespace

kernel::Taken Holders::hand_in(RunId run, std::int64_t step, std::string_view nonce,
                               const kernel::HeldOutcome& outcome) {
  const kernel::Taken how = take(store_, random_, executor_, {run, step, nonce}, outcome);
  // The holder does so too, but may be ended with its attempt before it has read the answer.
  if (how != kernel::Taken::stranger) remove_outcome(directory_, nonce);
  return how;
}

Holder Holders::of_row(const kernel::ProcessRow& row) const {
  Holder holder;
  holder.run = row.run;
  holder.step = store_.read([&](db::ReadTx& tx) { return kernel::read_step(tx, *row.step)->seq; });
  holder.nonce = row.nonce;
  holder.key = {static_cast<int>(row.pid), static_cast<std::uint64_t>(row.pid_start)};
  holder.this_boot = row.boot_id == boot_id();
  holder.handed_in = row.handed_in;
  return holder;
}

// The holder with all below it, and whatever carries the token of its execution: a holder that was killed leaves its
// command to others.
bool Holders::end_tree(const Holder& holder) const {
  return kill_with_root(TreeScope{holder.key, AttemptMark{socket_, holder.run.value, 0, holder.nonce}});
}

void Holders::stop(const Holder& holder) {
  store_.write([&](db::Tx& tx) { kernel::stop_holder(tx, holder.nonce, tx.now()); });
  remove_outcome(directory_, holder.nonce);
}

Holders::Found Holders::look(const Holder& holder) {
  if (holder.this_boot && is_alive(holder.key)) return Found::alive;
  if (holder.this_boot && !end_tree(holder)) return Found::lingers;
  // Dead: all that it did is done, so what is not in its file now never will be.
  auto outcome = holder.handed_in ? std::nullopt : read_outcome(file_of(holder.nonce));
  // Whatever ended the command by a signal may have ended its holder too, as a machine that goes down does: that is a
  // crash, and no failure of the step [E7].
  if (outcome && outcome->unknown) outcome.reset();
  if (outcome) {
    outcome->left = false;  // ended above
    const auto how = hand_in(holder.run, holder.step, holder.nonce, *outcome);
    log::info("holder.outcome_found",
              {{"run", holder.run.value}, {"step", holder.step}, {"how", static_cast<int>(how)}});
  } else if (!holder.handed_in) {
    log::warn("holder.gone", {{"run", holder.run.value}, {"step", holder.step}, {"pid", holder.key.pid}});
  }
  stop(holder);
  executor_.ring(holder.run);
  executor_.ring();
  return outcome ? Found::handed_in : Found::gone;
}

bool Holders::end(const Holder& holder) {
  if (holder.this_boot && !end_tree(holder)) return false;
  stop(holder);
  executor_.ring();
  return true;
}

}  // namespace bide::work
