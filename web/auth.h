// Who gets in. A Unix peer is known by the kernel's word for its uid; a TCP client by a bearer token, of which only the
// hash is kept. Thread-safe: admit() is asked on the reactor's thread and reads memory only; narrow() may read /proc
// and the file, and is asked on a pool thread, before any handler runs.
// Wrong tokens are answered 401, and beyond limits::kWrongTokens in 10 s 429 (a log line says how many there were). A
// right one is never held up: else any neighbour could lock everybody out; guessing one of 256 bits is hopeless anyway.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/errors.h"
#include "agent/base/mutex.h"
#include "agent/base/process_tree.h"
#include "agent/base/random.h"
#include "web/gate.h"
#include "web/request.h"
#include "web/session.h"

namespace bide::web {

struct TokenRow {
  std::string name;  // the principal
  std::string hash;  // sha256 of the token, 32 raw bytes
  unsigned scopes = kNoScope;
  std::optional<TimeMs> expires_at;  // by the store's clock
};

// "bat_<run>_<epoch>_<secret>" of a program, or "bst_<run>_<epoch>_<step>_<nonce>" of a step's command.
struct AttemptToken {
  RunId run;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::string secret;
};
// nullopt: neither.
[[nodiscard]] std::optional<AttemptToken> parse_attempt_token(std::string_view token);

class Auth {
 public:
  // Of which run a process is one, and of which step's command (its token, empty: of none); nullopt: of no attempt.
  // Throws CannotTell and CannotLook.
  struct OfAttempt {
    RunId run;
    std::string step_token = {};
  };
  using AttemptOfProcess = std::function<std::optional<OfAttempt>(const ProcessKey& process)>;
  // Whether the secret is that of an attempt which is driven, or of a step's execution that goes on.
  using AttemptTokenIsKnown = std::function<bool(const AttemptToken& token)>;

  explicit Auth(uid_t own_uid) : own_uid_(own_uid) {}

  void set_tokens(std::vector<TokenRow> tokens) EXCLUDES(mutex_);
  void set_attempt_of_process(AttemptOfProcess ask) EXCLUDES(mutex_);         // before the door opens
  void set_attempt_token_is_known(AttemptTokenIsKnown ask) EXCLUDES(mutex_);  // the same; without it none is known
  void set_sessions(const Sessions* sessions) { sessions_ = sessions; }       // before the door opens; may be absent
  // Before the door opens: the store's time, by which tokens expire, and the clock by which wrong ones are counted.
  void set_time(std::function<TimeMs()> now, Clock& clock) EXCLUDES(mutex_);
  // What members of the socket's group may do; nothing unless it is set.
  void set_group_scopes(unsigned scopes) { group_scopes_ = scopes; }  // before the door opens

  // The credential that a head carries. Problem: `unauthorized` or `forbidden`.
  [[nodiscard]] std::variant<Principal, Problem> admit(const Head& head, const Peer& peer) const EXCLUDES(mutex_);
  // A Unix peer that is a process of an attempt has that attempt's scope only, whatever it shows: or a step could
  // approve its own gate; one of which that cannot be told has none [A7]. A token of an attempt must be one that is
  // known, but on the attempt's own routes, which look at it by themselves [K2]. Throws CannotLook.
  [[nodiscard]] std::optional<Problem> narrow(Principal& principal, const Peer& peer, Scope route) const
      EXCLUDES(mutex_);
  // Whether the credential that a principal came with still holds: no token that was revoked or has expired, no session
  // that was ended. Memory only.
  [[nodiscard]] bool holds(const Principal& principal) const EXCLUDES(mutex_);

 private:
  [[nodiscard]] std::variant<Principal, Problem> by_token(std::string_view token) const EXCLUDES(mutex_);
  [[nodiscard]] const TokenRow* find_token(std::string_view hash) const REQUIRES(mutex_);
  [[nodiscard]] Problem wrong_token() const REQUIRES(mutex_);

  [[nodiscard]] std::variant<Principal, Problem> by_cookie(const Head& head, std::string_view cookies) const;

  const uid_t own_uid_;
  const Sessions* sessions_ = nullptr;
  unsigned group_scopes_ = kNoScope;
  mutable Mutex mutex_;
  std::function<TimeMs()> now_ GUARDED_BY(mutex_);
  Clock* clock_ GUARDED_BY(mutex_) = nullptr;
  mutable BootMs wrong_since_ GUARDED_BY(mutex_) = 0;
  mutable int wrong_ GUARDED_BY(mutex_) = 0;
  std::vector<TokenRow> tokens_ GUARDED_BY(mutex_);
  AttemptOfProcess attempt_of_ GUARDED_BY(mutex_);
  AttemptTokenIsKnown is_known_ GUARDED_BY(mutex_);
};

// What an attempt may do beside its own routes: read. Its verbs inside a step need no more.
inline constexpr unsigned kAttemptScopes = kAttempt | kRead;

// Names and bits: "read start approve work admin", in any order, apart by spaces or commas. nullopt: an unknown one.
[[nodiscard]] std::optional<unsigned> parse_scopes(std::string_view text);

// The token in DIR/admin.token; makes the file (0600, synced) with a new one if it is not there. Throws ConfigFault
// if it cannot be read or written, or if others may read it.
[[nodiscard]] std::string ensure_admin_token(const std::string& file, Random& random);

}  // namespace bide::web
