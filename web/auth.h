// Who gets in. A Unix peer is known by the kernel's word for its uid; a TCP client by a bearer token, of which only the
// hash is kept. Thread-safe: admit() is asked on the reactor's thread and reads memory only; narrow() may read /proc
// and is asked on a pool thread, before any handler runs.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "web/gate.h"
#include "web/request.h"
#include "web/session.h"

namespace bide::web {

struct TokenRow {
  std::string name;  // the principal
  std::string hash;  // sha256 of the token, 32 raw bytes
  unsigned scopes = kNoScope;
};

class Auth {
 public:
  // The run of which `pid` is a process (its attempt's token, cgroup, session or ancestors say so), or none.
  using AttemptOfProcess = std::function<std::optional<RunId>(pid_t pid)>;

  explicit Auth(uid_t own_uid) : own_uid_(own_uid) {}

  void set_tokens(std::vector<TokenRow> tokens) EXCLUDES(mutex_);
  void set_attempt_of_process(AttemptOfProcess ask) EXCLUDES(mutex_);    // before the door opens
  void set_sessions(const Sessions* sessions) { sessions_ = sessions; }  // before the door opens; may be absent

  // The credential that a head carries. Problem: `unauthorized` or `forbidden`.
  [[nodiscard]] std::variant<Principal, Problem> admit(const Head& head, const Peer& peer) const EXCLUDES(mutex_);
  // A Unix peer that is a process of an attempt has that attempt's scope only, whatever it shows: or a step could
  // approve its own gate [A7].
  void narrow(Principal& principal, const Peer& peer) const EXCLUDES(mutex_);

 private:
  [[nodiscard]] std::variant<Principal, Problem> by_token(std::string_view token) const EXCLUDES(mutex_);

  [[nodiscard]] std::variant<Principal, Problem> by_cookie(const Head& head, std::string_view cookies) const;

  const uid_t own_uid_;
  const Sessions* sessions_ = nullptr;
  mutable Mutex mutex_;
  std::vector<TokenRow> tokens_ GUARDED_BY(mutex_);
  AttemptOfProcess attempt_of_ GUARDED_BY(mutex_);
};

// What an attempt may do beside its own routes: read. Its verbs inside a step need no more.
inline constexpr unsigned kAttemptScopes = kAttempt | kRead;

// "bat_<run>_<epoch>_<secret>" of a program, or "bst_<run>_<epoch>_<step>_<nonce>" of a step's command; nullopt:
// neither.
struct AttemptToken {
  RunId run;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::string secret;
};
[[nodiscard]] std::optional<AttemptToken> parse_attempt_token(std::string_view token);

// Names and bits: "read start approve work admin", in any order, apart by spaces or commas. nullopt: an unknown one.
[[nodiscard]] std::optional<unsigned> parse_scopes(std::string_view text);

// The token in DIR/admin.token; makes the file (0600, synced) with a new one if it is not there. Throws ConfigFault
// if it cannot be read or written, or if others may read it.
[[nodiscard]] std::string ensure_admin_token(const std::string& file, Random& random);

}  // namespace bide::web
