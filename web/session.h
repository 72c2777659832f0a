// The page's sign-in: `bide ui` asks for a one-time code over the socket, the page turns it into a session: a cookie
// that scripts cannot read and a token that only our page can. In memory: a restart signs everybody out. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/clock.h"
#include "agent/base/mutex.h"
#include "agent/base/random.h"

namespace bide::web {

struct Session {
  std::string name;  // who asked for the code: what they decide on the page is theirs
  unsigned scopes = 0;
  std::string csrf;
  std::string origin;  // sha256 of the token that asked for the code: the session ends with it; empty: none
};
struct NewSession {
  std::string secret;  // the cookie's value
  Session session;
};

class Sessions {
 public:
  Sessions(Clock& clock, Random& random) : clock_(clock), random_(random) {}

  // A code for one use within limits::kCodeMs.
  [[nodiscard]] std::string make_code(const std::string& name, unsigned scopes, const std::string& origin = {})
      EXCLUDES(mutex_);
  // nullopt: not such a code, used, or too late.
  [[nodiscard]] std::optional<NewSession> redeem(std::string_view code) EXCLUDES(mutex_);
  // The session of a cookie, for limits::kSessionMs after its sign-in.
  [[nodiscard]] std::optional<Session> find(std::string_view secret) const EXCLUDES(mutex_);
  [[nodiscard]] std::optional<Session> find_hash(std::string_view hash) const EXCLUDES(mutex_);  // of the cookie
  void end(std::string_view secret) EXCLUDES(mutex_);

 private:
  struct Code {
    std::string hash;
    BootMs until = 0;
    Session session;
  };
  struct Kept {
    std::string hash;
    BootMs until = 0;
    Session session;
  };
  Clock& clock_;
  Random& random_;
  mutable Mutex mutex_;
  std::deque<Code> codes_ GUARDED_BY(mutex_);  // at most kKept; the oldest goes first
  std::deque<Kept> kept_ GUARDED_BY(mutex_);
};

// The value of one cookie in a Cookie field; empty if it is not there.
[[nodiscard]] std::string cookie_value(std::string_view cookies, std::string_view name);

}  // namespace bide::web
