#include "web/auth.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "agent/base/fd.h"
#include "agent/base/hash.h"
#include "agent/base/limits_api.h"
#include "agent/base/log.h"
#include "agent/base/text.h"

namespace bide::web {
namespace {

constexpr std::string_view kBearer = "bearer ";
constexpr std::string_view kAttemptPrefix = "bat_";
constexpr std::string_view kStepPrefix = "bst_";
constexpr std::string_view kCookie = "bide_session";

Principal of_attempt(const AttemptToken& token) {
  Principal principal;
  principal.name = "attempt:" + std::to_string(token.run.value);
  principal.scopes = kAttemptScopes;
  principal.run = token.run;
  principal.epoch = token.epoch;
  principal.step = token.step;
  principal.attempt_secret = token.secret;
  return principal;
}

std::string read_token(const std::string& file, const Fd& fd) {
  struct stat there {};
  if (::fstat(fd.get(), &there) != 0 || !S_ISREG(there.st_mode)) throw ConfigFault(file + " is no plain file");
  if ((there.st_mode & 077) != 0) throw ConfigFault("others may read " + file + ": chmod 600 it, and make a new token");
  std::array<char, 512> bytes;
  const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
  const std::string_view text = got > 0 ? trim(std::string_view(bytes.data(), static_cast<std::size_t>(got))) : "";
  if (text.size() < 20) throw ConfigFault(file + " holds no token: remove it, and a new one is made");
  return std::string(text);
}

}  // namespace

std::optional<AttemptToken> parse_attempt_token(std::string_view token) {
  const bool of_step = token.substr(0, kStepPrefix.size()) == kStepPrefix;
  if (!of_step && token.substr(0, kAttemptPrefix.size()) != kAttemptPrefix) return std::nullopt;
  token.remove_prefix(kAttemptPrefix.size());
  const auto number = [&token]() -> std::optional<std::int64_t> {
    const std::size_t end = token.find('_');
    if (end == std::string_view::npos) return std::nullopt;
    const auto value = parse_number(token.substr(0, end));
    token.remove_prefix(end + 1);
    return value;
  };
  const auto run = number();
  const auto epoch = number();
  const auto step = of_step ? number() : 0;
  if (!run || !epoch || !step || token.empty()) return std::nullopt;
  return AttemptToken{RunId(*run), *epoch, *step, std::string(token)};
}

std::optional<unsigned> parse_scopes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Scope>, 5> kNames = {
      {{"read", kRead}, {"start", kStart}, {"approve", kApprove}, {"work", kWork}, {"admin", kAdmin}}};
  unsigned scopes = kNoScope;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" ,"), text.size());
    const std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (name.empty()) continue;
    const auto found =
        std::find_if(kNames.begin(), kNames.end(), [name](const auto& one) { return one.first == name; });
    if (found == kNames.end()) return std::nullopt;
    scopes |= found->second;
  }
  return scopes;
}

void Auth::set_tokens(std::vector<TokenRow> tokens) {
  Lock lock(mutex_);
  tokens_ = std::move(tokens);
}

void Auth::set_attempt_of_process(AttemptOfProcess ask) {
  Lock lock(mutex_);
  attempt_of_ = std::move(ask);
}

void Auth::set_attempt_token_is_known(AttemptTokenIsKnown ask) {
  Lock lock(mutex_);
  is_known_ = std::move(ask);
}

void Auth::set_time(std::function<TimeMs()> now, Clock& clock) {
  Lock lock(mutex_);
  now_ = std::move(now);
  clock_ = &clock;
}

const TokenRow* Auth::find_token(std::string_view hash) const {
  for (const TokenRow& row : tokens_) {
    if (!same_secret(row.hash, hash)) continue;
    return row.expires_at && now_ && *row.expires_at <= now_() ? nullptr : &row;
  }
  return nullptr;
}

Problem Auth::wrong_token() const {
  Problem unknown = problem("unauthorized", "the token is not one that this agent knows");
  if (clock_ == nullptr) return unknown;
  const BootMs now = clock_->boot_ms();
  if (wrong_ == 0 || now - wrong_since_ >= limits::kWrongTokensMs) {
    if (wrong_ > limits::kWrongTokens) log::warn("auth.wrong_tokens", {{"count", wrong_}});
    wrong_since_ = now;
    wrong_ = 0;
  }
  ++wrong_;
  if (wrong_ == limits::kWrongTokens + 1) log::warn("auth.wrong_tokens", {{"count", wrong_}});
  if (wrong_ <= limits::kWrongTokens) return unknown;
  return problem("too_many_failures", "too many wrong tokens came within a short time");
}

std::variant<Principal, Problem> Auth::by_token(std::string_view token) const {
  std::string hash = sha256(token);
  Lock lock(mutex_);
  const TokenRow* row = find_token(hash);
  if (row == nullptr) return wrong_token();
  Principal principal;
  principal.name = row->name;
  principal.scopes = row->scopes;
  principal.credential = std::move(hash);
  return principal;
}

bool Auth::holds(const Principal& principal) const {
  if (principal.credential.empty()) return true;  // a peer of the socket, or an attempt: the kernel fences that
  if (principal.by_cookie) {
    const auto session = sessions_ == nullptr ? std::nullopt : sessions_->find_hash(principal.credential);
    if (!session) return false;
    if (session->origin.empty()) return true;
    Lock lock(mutex_);
    return find_token(session->origin) != nullptr;
  }
  Lock lock(mutex_);
  return find_token(principal.credential) != nullptr;
}

// A browser sends the cookie with whatever makes it ask us; only our page knows the token that goes with it.
std::variant<Principal, Problem> Auth::by_cookie(const Head& head, std::string_view cookies) const {
  const std::string secret = cookie_value(cookies, kCookie);
  const auto session = sessions_ == nullptr || secret.empty() ? std::nullopt : sessions_->find(secret);
  if (!session) return problem("unauthorized", "the page is not signed in", "bide ui");
  if (!session->origin.empty()) {
    Lock lock(mutex_);
    if (find_token(session->origin) == nullptr) {
      return problem("unauthorized", "the token that signed the page in is not valid any more", "bide ui");
    }
  }
  if (!is_safe_method(head.method)) {
    const std::string* token = head.field("x-bide-csrf");
    if (token == nullptr || !same_secret(*token, session->csrf)) {
      return problem("csrf", "a write by cookie needs the token of its session in X-Bide-CSRF");
    }
  }
  Principal principal;
  principal.name = session->name;
  principal.scopes = session->scopes;
  principal.by_cookie = true;
  principal.credential = sha256(secret);
  return principal;
}

std::variant<Principal, Problem> Auth::admit(const Head& head, const Peer& peer) const {
  if (const std::string* given = head.field("authorization")) {
    if (lower(std::string_view(*given).substr(0, kBearer.size())) != kBearer) {
      return problem("unauthorized", "the Authorization field must be Bearer and a token");
    }
    const std::string_view token = trim(std::string_view(*given).substr(kBearer.size()));
    const std::string_view prefix = token.substr(0, kAttemptPrefix.size());
    if (prefix != kAttemptPrefix && prefix != kStepPrefix) return by_token(token);
    if (const auto attempt = parse_attempt_token(token)) return of_attempt(*attempt);
    return problem("unauthorized", "the attempt's token is damaged");
  }
  if (const std::string* cookies = head.field("cookie"); cookies != nullptr && !peer.unix_socket) {
    return by_cookie(head, *cookies);
  }
  if (!peer.unix_socket) return problem("unauthorized", "the request has no token");
  const bool ours = peer.uid == own_uid_ || peer.uid == 0;
  if (!ours && (!peer.in_group || group_scopes_ == kNoScope)) {
    return problem("forbidden", "uid " + std::to_string(peer.uid) + " has no scopes on this socket");
  }
  Principal principal;
  principal.name = "uid:" + std::to_string(peer.uid);
  principal.scopes = ours ? kAdmin : group_scopes_;
  return principal;
}

std::optional<Problem> Auth::narrow(Principal& principal, const Peer& peer, Scope route) const {
  if (!principal.is_attempt() && !peer.unix_socket) return std::nullopt;
  AttemptOfProcess attempt_of;
  AttemptTokenIsKnown is_known;
  {
    Lock lock(mutex_);
    attempt_of = attempt_of_;
    is_known = is_known_;
  }
  if (principal.is_attempt()) {
    const AttemptToken token{*principal.run, principal.epoch, principal.step, principal.attempt_secret};
    if (route == kAttempt || (is_known && is_known(token))) return std::nullopt;
    return problem("unauthorized", "the token is of no attempt that runs now");
  }
  if (!peer.unix_socket || !attempt_of) return std::nullopt;
  std::optional<OfAttempt> found;
  try {
    found = attempt_of({static_cast<int>(peer.pid), peer.pid_start});
  } catch (const CannotTell& why) {
    return problem("forbidden", std::string("it cannot be told who asks: ") + why.what() +
                                    "; the process that connects must stay until it is answered");
  }
  if (!found) return std::nullopt;
  principal = Principal{};
  principal.name = "attempt:" + std::to_string(found->run.value);
  principal.scopes = kAttemptScopes;
  principal.run = found->run;
  const auto step = parse_attempt_token(found->step_token);
  if (step && step->step != 0 && step->run == found->run && is_known && is_known(*step)) {
    principal.epoch = step->epoch;
    principal.step = step->step;
    principal.attempt_secret = step->secret;
  }
  return std::nullopt;
}

std::string ensure_admin_token(const std::string& file, Random& random) {
  const Fd there(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (there.valid()) return read_token(file, there);
  if (errno != ENOENT) throw ConfigFault("cannot read " + file + ": " + std::strerror(errno));
  std::string token = "bide_" + random.uid() + random.uid();
  const Fd made(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string line = token + "\n";
  if (!made.valid() || ::write(made.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      ::fsync(made.get()) != 0) {
    const std::string why = std::strerror(errno);
    if (made.valid()) ::unlink(file.c_str());
    throw ConfigFault("cannot write " + file + ": " + why);
  }
  return token;
}

}  // namespace bide::web
