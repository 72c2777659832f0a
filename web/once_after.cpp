#include "web/once_after.h"

#include <mutex>
#include <string_view>

#include "agent/base/json.h"
#include "agent/work/once.h"
#include "web/body.h"
#include "web/problem.h"

namespace bide::web {
namespace {

using work::Answer;

constexpr std::pair<std::string_view, std::string_view> kRoutes[] = {
    {"POST", "/v1/sweep"},
    {"POST", "/v1/clock/accept"},
    {"POST", "/v1/drain"},
    {"POST", "/v1/environments"},
    {"DELETE", "/v1/environments/{name}"},
    {"POST", "/v1/outbox/actions"},
    {"POST", "/v1/outbox/{id}/retry"},
    {"DELETE", "/v1/outbox/{id}"},
    {"POST", "/v1/webhooks/{id}"},
    {"POST", "/v1/webhooks/{id}/test"},
    {"DELETE", "/v1/webhooks/{id}"},
};

}  // namespace

class OnceAfter::InHand {
 public:
  InHand(OnceAfter& of, Name name) NO_THREAD_SAFETY_ANALYSIS : of_(of), name_(std::move(name)) {
    std::unique_lock lock(of_.mutex_);
    of_.done_.wait(lock, [this]() NO_THREAD_SAFETY_ANALYSIS { return of_.in_hand_.count(name_) == 0; });
    of_.in_hand_.insert(name_);
  }
  ~InHand() {
    {
      Lock lock(of_.mutex_);
      of_.in_hand_.erase(name_);
    }
    of_.done_.notify_all();
  }
  InHand(const InHand&) = delete;
  InHand& operator=(const InHand&) = delete;

 private:
  OnceAfter& of_;
  const Name name_;
};

Response OnceAfter::run(const Handler& handler, Request& request) {
  if (request.field("idempotency-key") == nullptr) return handler(request);
  if (request.body.empty()) request.body = "{}";
  if (const auto refused = json::check(request.body)) return handler(request);  // says what is wrong with it
  const auto key = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&key)) return problem_response(*bad);
  const auto& once = std::get<work::Commands::Once>(key);
  db::Store& store = ports_.commands.store();
  const InHand in_hand(*this, {once->principal, once->key});
  const auto found = store.read([&](db::ReadTx& tx) { return kernel::find_answer(tx, *once); });
  if (!std::holds_alternative<kernel::NewCommand>(found)) {
    return respond(work::once(store, once, [](db::Tx&) { return Answer{}; }));
  }
  Response response = handler(request);
  if (response.after != Response::After::answer || response.status >= 500) return response;
  store.write([&](db::Tx& tx) { kernel::store_answer(tx, *once, response.status, response.body, tx.now()); });
  return response;
}

void wrap_once_after(Router& router, Ports& ports) {
  const auto once = std::make_shared<OnceAfter>(ports);
  for (const auto& [method, pattern] : kRoutes) {
    router.wrap(method, pattern, [once](Handler inner) -> Handler {
      return [once, inner = std::move(inner)](Request& request) { return once->run(inner, request); };
    });
  }
}

}  // namespace bide::web
