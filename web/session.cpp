#include "web/session.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::web {
namespace {

constexpr std::size_t kKept = 64;  // people and their browsers on one box (guess)

template <class Row>
auto row_of(Row& rows, std::string_view hash) {
  return std::find_if(rows.begin(), rows.end(), [&hash](const auto& one) { return same_secret(one.hash, hash); });
}

}  // namespace

std::string Sessions::make_code(const std::string& name, unsigned scopes, const std::string& origin) {
  Lock lock(mutex_);
  std::string code = random_.uid();
  codes_.push_back({sha256(code), clock_.boot_ms() + limits::kCodeMs, {name, scopes, "", origin}});
  if (codes_.size() > kKept) codes_.pop_front();
  return code;
}

std::optional<NewSession> Sessions::redeem(std::string_view code) {
  Lock lock(mutex_);
  const auto found = row_of(codes_, sha256(code));
  if (found == codes_.end()) return std::nullopt;
  const Code used = *found;
  codes_.erase(found);
  const BootMs now = clock_.boot_ms();
  if (used.until <= now) return std::nullopt;
  NewSession made{random_.uid() + random_.uid(), used.session};
  made.session.csrf = random_.uid();
  kept_.push_back({sha256(made.secret), now + limits::kSessionMs, made.session});
  if (kept_.size() > kKept) kept_.pop_front();
  return made;
}

std::optional<Session> Sessions::find(std::string_view secret) const { return find_hash(sha256(secret)); }

std::optional<Session> Sessions::find_hash(std::string_view hash) const {
  Lock lock(mutex_);
  const auto found = row_of(kept_, hash);
  if (found == kept_.end() || found->until <= clock_.boot_ms()) return std::nullopt;
  return found->session;
}

void Sessions::end(std::string_view secret) {
  Lock lock(mutex_);
  const auto found = row_of(kept_, sha256(secret));
  if (found != kept_.end()) kept_.erase(found);
}

std::string cookie_value(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    const std::size_t end = std::min(cookies.find(';'), cookies.size());
    const std::string_view one = trim(cookies.substr(0, end));
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos && one.substr(0, equals) == name) return std::string(one.substr(equals + 1));
  }
  return {};
}

}  // namespace bide::web
