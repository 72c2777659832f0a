#include "agent/work/remotes.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/hmac.h"
#include "agent/base/log.h"
#include "agent/kernel/claims.h"
#include "agent/kernel/outbox.h"
#include "agent/kernel/workflows.h"

namespace bide::work {
// What a worker may be given: pinned version → as which it would run.
struct Remotes::Known {
  std::map<VersionId, kernel::RemoteVersion> versions;

  [[nodiscard]] VersionId as(VersionId pinned) const {
    const auto it = versions.find(pinned);
    return it == versions.end() ? VersionId() : it->second.id;
  }
  [[nodiscard]] kernel::ClaimRules rules(const std::string& owner, DurationMs lease) const {
    kernel::ClaimRules rules;
    rules.owner = owner;
    rules.lease = lease;
    rules.known = [this](VersionId pinned) { return as(pinned); };
    rules.max_running = [this](WorkflowId workflow) {
      for (const auto& [pinned, version] : versions) {
        if (version.workflow == workflow) return version.max_running;
      }
      return 0;
    };
    return rules;
  }
};

Remotes::Remotes(db::Store& store, Random& random, Executor& executor, Feed& feed, RemoteOptions options)
    : store_(store), random_(random), executor_(executor), feed_(feed), options_(options) {}

void Remotes::adopt() {
  const std::string fresh = random_.uid() + random_.uid();
  std::vector<kernel::RemoteLease> leases;
  store_.write([&](db::Tx& tx) {
    key_ = kernel::attempt_key(tx, fresh);
    leases = kernel::remote_leases(tx);
    for (const auto& lease : leases) (void)kernel::renew_lease(tx, lease.fence, tx.now() + options_.lease);
  });
  const BootMs until = store_.system_clock().boot_ms() + options_.lease;
  Lock lock(mutex_);
  for (const auto& lease : leases) held_[lease.fence.run] = Held{lease.fence, nullptr, until, until, std::nullopt};
}

void Remotes::stop() {
  std::vector<std::shared_ptr<flow::Attempt>> open;
  {
    Lock lock(mutex_);
    stopping_ = true;
    for (const auto& [run, held] : held_) {
      if (held.attempt) open.push_back(held.attempt);
    }
  }
  for (const auto& attempt : open) attempt->close(flow::Closing::shutdown);
  feed_.notify();
}

std::variant<kernel::RemoteVersion, Problem> Remotes::add(const kernel::NewRemote& remote) {
  auto made = store_.write([&](db::Tx& tx) { return kernel::register_remote(tx, remote, tx.now()); });
  executor_.ring();  // runs of older versions may be its to drive now
  return made;
}

std::optional<flow::Startable> Remotes::find(const std::string& name) {
  const auto versions = store_.read([&](db::ReadTx& tx) { return kernel::remote_versions(tx, name); });
  if (versions.empty()) return std::nullopt;
  return flow::Startable{versions.front().workflow, versions.front().id, std::nullopt};
}

std::variant<Remotes::Known, Problem> Remotes::known(db::ReadTx& tx, const Ask& ask) const {
  Known known;
  for (const Ask::Workflow& wanted : ask.workflows) {
    const auto versions = kernel::remote_versions(tx, wanted.name);
    const auto it = std::find_if(versions.begin(), versions.end(),
                                 [&](const auto& v) { return !wanted.version || v.version == *wanted.version; });
    if (it == versions.end()) {
      return problem("workflow_unknown",
                     "There is no remote workflow " + wanted.name +
                         (wanted.version ? " of version " + *wanted.version : std::string()) + ".",
                     "Register it first: POST /v1/workflows.");
    }
    for (const VersionId pinned : kernel::versions_driven_by(tx, *it)) known.versions.emplace(pinned, *it);
  }
  return known;
}

Remotes::Claim Remotes::claim(const Ask& ask, BootMs until, const std::function<bool()>& gone) {
  for (;;) {
    const std::uint64_t seen = feed_.seen();
    std::optional<Problem> refused;
    std::optional<Known> known;
    bool there = false;
    store_.read([&](db::ReadTx& tx) {
      auto read = this->known(tx, ask);
      if (const auto* bad = std::get_if<Problem>(&read)) {
        refused = *bad;
        return;
      }
      known = std::move(std::get<Known>(read));
      there = !store_.clock().held() && !executor_.door().is_shut() &&
              kernel::claim_due(tx, known->rules("", options_.lease), store_.now());
    });
    if (refused) return *refused;
    if (there && !gone()) {
      if (auto given = claim_one(ask, *known)) return std::move(*given);
    }
    const DurationMs left = until - store_.system_clock().boot_ms();
    {
      Lock lock(mutex_);
      if (stopping_) return NothingDue{};
    }
    if (left <= 0 || gone() || feed_.closed()) return NothingDue{};
    feed_.wait(seen, std::min(left, limits::kClaimLookMs));
  }
}

std::optional<Remotes::Given> Remotes::claim_one(const Ask& ask, const Known& known) {
  const kernel::ClaimRules rules = known.rules(std::string(kernel::kRemoteOwner) + ask.worker, options_.lease);
  std::optional<kernel::Claimed> taken;
  const BootMs lease_until = store_.system_clock().boot_ms() + options_.lease;
  const auto job = [&](db::Tx& tx) {
    if (taken) forget(taken->run, taken->epoch);  // of a batch that was rolled back
    taken.reset();
    const auto outcome =
        ask.run ? kernel::claim_run(tx, rules, *ask.run, tx.now()) : kernel::claim_next(tx, rules, tx.now());
    const auto* one = std::get_if<kernel::Claimed>(&outcome);
    if (one == nullptr) return;
    taken = *one;
    // In the table before the commit: the sweep must not take it for an orphan in between.
    Lock lock(mutex_);
    held_[one->run] = Held{{one->run, one->epoch, rules.owner}, nullptr, lease_until, lease_until, std::nullopt};
  };
  try {
    const ClaimDoor::Pass pass = executor_.door().enter();
    if (!pass) return std::nullopt;
    store_.write(job);
  } catch (...) {
    if (taken) forget(taken->run, taken->epoch);
    throw;
  }
  if (!taken) return std::nullopt;
  if (lease_bell_) lease_bell_();
  auto attempt = make_attempt({taken->run, taken->epoch, rules.owner}, false);
  if (!attempt) return std::nullopt;
  if (attempt->closing() != flow::Closing::open || attempt->cancel_requested()) {
    conclude(*attempt);  // its end is written already, or it is paused: the code is not entered
    forget(taken->run, taken->epoch);
    return std::nullopt;
  }
  log::info("run.claimed",
            {{"run", taken->run.value}, {"epoch", taken->epoch}, {"workflow", attempt->run().workflow_name}});
  Given given{attempt, "", ""};
  given.token = "bat_" + std::to_string(taken->run.value) + "_" + std::to_string(taken->epoch) + "_" +
                secret_of(taken->run, taken->epoch);
  for (const auto& [pinned, version] : known.versions) {
    if (version.id == taken->version) given.version = version.version;
  }
  return given;
}

// The attempt of the table, loaded if it is not. Null: fenced off meanwhile.
std::shared_ptr<flow::Attempt> Remotes::make_attempt(const kernel::Fence& fence, bool resumed) {
  Lock one(making_);
  {
    Lock lock(mutex_);
    const auto it = held_.find(fence.run);
    if (it == held_.end() || it->second.fence.epoch != fence.epoch || stopping_) return nullptr;
    if (it->second.attempt) return it->second.attempt;
  }
  const auto version = store_.read([&](db::ReadTx& tx) -> std::optional<std::string> {
    if (!kernel::holds(tx, fence)) return std::nullopt;
    return kernel::read_version(tx, kernel::read_run(tx, fence.run)->version)->version;
  });
  if (!version) return nullptr;
  flow::AttemptOptions options;
  options.style = flow::Style::remote;
  options.resumed = resumed;
  options.longest_poll = options_.lease / 2;
  options.version = *version;
  options.secret = secret_of(fence.run, fence.epoch);
  auto attempt = std::make_shared<flow::Attempt>(store_, random_, fence, executor_.attempt_options(std::move(options)));
  {
    Lock lock(mutex_);
    const auto it = held_.find(fence.run);
    if (it == held_.end() || it->second.fence.epoch != fence.epoch) return nullptr;
    it->second.attempt = attempt;
    if (stopping_) attempt->close(flow::Closing::shutdown);
  }
  attempt->ring();  // something may have come between the claim and here
  return attempt;
}

std::string Remotes::secret_of(RunId run, std::int64_t epoch) const {
  return to_hex(hmac_sha256(key_, "attempt:" + std::to_string(run.value) + ":" + std::to_string(epoch))).substr(0, 40);
}

std::variant<std::shared_ptr<flow::Attempt>, Problem> Remotes::attempt(RunId run, std::int64_t epoch,
                                                                       const std::string& secret) {
  if (!same_secret(secret_of(run, epoch), secret)) return problem("unauthorized", "the attempt's token is not valid");
  std::optional<kernel::Fence> fence;
  std::shared_ptr<flow::Attempt> attempt;
  {
    Lock lock(mutex_);
    if (stopping_) return problem("closing", "the agent is closing; the attempt goes on when it is back");
    const auto it = held_.find(run);
    if (it != held_.end() && it->second.fence.epoch == epoch) {
      fence = it->second.fence;
      attempt = it->second.attempt;
    }
  }
  if (fence && !attempt) attempt = make_attempt(*fence, true);
  if (!attempt) return problem("lease_lost", "the attempt is over; another one has the run, or will");
  renew(run, epoch);
  return attempt;
}

bool Remotes::lease_lives(RunId run, std::int64_t epoch) const {
  Lock lock(mutex_);
  const auto it = held_.find(run);
  return it != held_.end() && it->second.fence.epoch == epoch;  // the sweep takes it out when it has ended
}

// The table at once; the file when a third of what it has is over: it is read by people, and by the next agent.
void Remotes::renew(RunId run, std::int64_t epoch) {
  const BootMs now = store_.system_clock().boot_ms();
  std::optional<kernel::Fence> write;
  {
    Lock lock(mutex_);
    const auto it = held_.find(run);
    if (it == held_.end() || it->second.fence.epoch != epoch) return;
    Held& held = it->second;
    held.lease_until = std::max(held.lease_until, now + options_.lease);
    if (held.written_until - now < options_.lease * 2 / 3) {
      held.written_until = now + options_.lease;
      write = held.fence;
    }
  }
  if (!write) return;
  store_.submit(
      [fence = *write, lease = options_.lease](db::Tx& tx) { (void)kernel::renew_lease(tx, fence, tx.now() + lease); },
      [](const std::optional<std::string>&) {});
}

void Remotes::forget(RunId run, std::int64_t epoch) {
  Lock lock(mutex_);
  const auto it = held_.find(run);
  if (it != held_.end() && it->second.fence.epoch == epoch) held_.erase(it);
}

void Remotes::ring(RunId run) {
  std::shared_ptr<flow::Attempt> attempt;
  {
    Lock lock(mutex_);
    const auto it = held_.find(run);
    if (it != held_.end()) attempt = it->second.attempt;
  }
  if (attempt) attempt->ring();
}

void Remotes::told(RunId run) {
  const BootMs now = store_.system_clock().boot_ms();
  Lock lock(mutex_);
  const auto it = held_.find(run);
  if (it != held_.end() && !it->second.told_at) it->second.told_at = now;
}

void Remotes::due() {
  const auto runs =
      store_.read([&](db::ReadTx& tx) { return kernel::due_wakes(tx, limits::kSweepPage, store_.now()); });
  if (!runs.empty()) {
    store_.write([&](db::Tx& tx) {
      for (const RunId run : kernel::due_wakes(tx, limits::kSweepPage, tx.now()))
        (void)kernel::write_wake(tx, run, tx.now());
    });
  }
  feed_.notify();
}

std::int64_t Remotes::sweep(TimeMs) {
  struct Ending {
    kernel::Fence fence;
    std::shared_ptr<flow::Attempt> attempt;
    bool lapsed = false;
  };
  std::vector<Ending> ending;
  const BootMs now = store_.system_clock().boot_ms();
  {
    Lock lock(mutex_);
    for (auto it = held_.begin(); it != held_.end();) {
      Held& held = it->second;
      const auto closing = held.attempt ? held.attempt->closing() : flow::Closing::open;
      const bool over = closing == flow::Closing::suspended || closing == flow::Closing::finished ||
                        closing == flow::Closing::lease_lost;
      if (over) {
        it = held_.erase(it);
        continue;
      }
      if (held.lease_until <= now && now - held.lease_until > limits::kLateLeaseMs) {
        held.lease_until = now + options_.lease;  // K3: we were stalled, and nobody could renew it
      } else if (held.lease_until <= now) {
        ending.push_back({held.fence, held.attempt, true});
      } else {
        bool late = held.told_at && *held.told_at + options_.abandon_after <= now;
        if (held.attempt) {
          for (const auto& call : held.attempt->open_calls())
            late = late || (call.executing && call.deadline_boot_ms > 0 &&
                            call.deadline_boot_ms + options_.abandon_after <= now);
        }
        if (late) ending.push_back({held.fence, held.attempt, false});
      }
      ++it;
    }
  }
  for (const Ending& one : ending) {
    if (one.lapsed || !one.attempt) {
      lapse(one.fence, one.attempt);
    } else {
      log::warn("run.abandoned", {{"run", one.fence.run.value}, {"epoch", one.fence.epoch}});
      one.attempt->abandon();
    }
    forget(one.fence.run, one.fence.epoch);
  }
  return static_cast<std::int64_t>(ending.size());
}

// W4, E1: the run is queued for whoever comes next.
void Remotes::lapse(const kernel::Fence& fence, const std::shared_ptr<flow::Attempt>& attempt) {
  log::warn("run.lease_ended", {{"run", fence.run.value}, {"epoch", fence.epoch}, {"owner", fence.owner}});
  store_.write([&](db::Tx& tx) {
    kernel::Ripples ripples;
    if (kernel::holds(tx, fence)) {
      (void)kernel::recover_run(tx, fence.run, fence.epoch, tx.now(), &ripples);
      ripples.queued = true;
    }
    executor_.ripple(tx, ripples);
  });
  if (attempt) attempt->close(flow::Closing::lease_lost);
}

std::optional<DurationMs> Remotes::look(TimeMs) const {
  const BootMs now = store_.system_clock().boot_ms();
  std::optional<DurationMs> soonest;
  const auto take = [&](BootMs at) {
    const DurationMs in = std::max<DurationMs>(1, at - now);
    soonest = soonest ? std::min(*soonest, in) : in;
  };
  Lock lock(mutex_);
  for (const auto& [run, held] : held_) {
    take(held.lease_until);
    if (held.told_at) take(*held.told_at + options_.abandon_after);
  }
  return soonest;
}

void conclude(flow::Attempt& attempt) {
  attempt.refresh();
  if (attempt.executes_any()) return;
  const flow::Closing why = attempt.closing();
  if (why == flow::Closing::ending || (why == flow::Closing::open && attempt.cancel_requested())) {
    (void)attempt.finish({});
  } else if (why == flow::Closing::paused || why == flow::Closing::fault) {
    (void)attempt.hand_back(attempt.now(), "", flow::Closing::finished);
  }
}

}  // namespace bide::work
