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

std::variant<Principal, Problem> Auth::by_token(std::string_view token) const {
  const std::string hash = sha256(token);
  Lock lock(mutex_);
  for (const TokenRow& row : tokens_) {
    if (!same_secret(row.hash, hash)) continue;
    Principal principal;
    principal.name = row.name;
    principal.scopes = row.scopes;
    return principal;
  }
  return problem("unauthorized", "the token is not one that this agent knows");
}

// A browser sends the cookie with whatever makes it ask us; only our page knows the token that goes with it.
std::variant<Principal, Problem> Auth::by_cookie(const Head& head, std::string_view cookies) const {
  const std::string secret = cookie_value(cookies, kCookie);
  const auto session = sessions_ == nullptr || secret.empty() ? std::nullopt : sessions_->find(secret);
  if (!session) return problem("unauthorized", "the page is not signed in", "bide ui");
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
  if (peer.uid != own_uid_ && peer.uid != 0) {
    return problem("forbidden", "uid " + std::to_string(peer.uid) + " has no scopes on this socket");
  }
  Principal principal;
  principal.name = "uid:" + std::to_string(peer.uid);
  principal.scopes = kAdmin;
  return principal;
}

void Auth::narrow(Principal& principal, const Peer& peer) const {
  if (!peer.unix_socket || principal.is_attempt()) return;
  AttemptOfProcess ask;
  {
    Lock lock(mutex_);
    ask = attempt_of_;
  }
  if (!ask) return;
  const std::optional<RunId> run = ask(peer.pid);
  if (!run) return;
  principal = Principal{};
  principal.name = "attempt:" + std::to_string(run->value);
  principal.scopes = kAttemptScopes;
  principal.run = run;
}

std::string ensure_admin_token(const std::string& file, Random& random) {
  const Fd there(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (there.valid()) return read_token(file, there);
  if (errno != ENOENT) throw ConfigFault("cannot read " + file + ": " + std::strerror(errno));
  const std::string token = "bide_" + random.uid() + random.uid();
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
