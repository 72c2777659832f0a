// SystemResolver: getaddrinfo_a, because getaddrinfo knows no deadline.
#include <netdb.h>

#include <algorithm>
#include <list>

#include "agent/base/limits.h"
#include "agent/base/mutex.h"
#include "agent/work/targets.h"

namespace bide::work {
namespace {

// One question with all that the resolver reads and writes while it works.
struct Question {
  Question(std::string name, int number) : host(std::move(name)), port(std::to_string(number)) {
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
    request.ar_name = host.c_str();
    request.ar_service = port.c_str();
    request.ar_request = &hints;
  }
  ~Question() {
    if (request.ar_result != nullptr) ::freeaddrinfo(request.ar_result);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  [[nodiscard]] bool working() { return ::gai_error(&request) == EAI_INPROGRESS; }

  const std::string host;
  const std::string port;
  addrinfo hints{};
  gaicb request{};
};

Resolved answer_of(Question& question) {
  const int code = ::gai_error(&question.request);
  if (code == 0) {
    std::vector<Address> addresses;
    for (const addrinfo* one = question.request.ar_result; one != nullptr; one = one->ai_next) {
      if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
      Address address;
      std::copy_n(reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen,
                  reinterpret_cast<char*>(&address.storage));
      address.length = one->ai_addrlen;
      addresses.push_back(address);
    }
    if (!addresses.empty()) return addresses;
    return NoSuchName{"the name has no address"};
  }
  const std::string why = ::gai_strerror(code);
  if (code == EAI_NONAME || code == EAI_NODATA) return NoSuchName{why};
  return NoAnswer{why};
}

}  // namespace

struct SystemResolver::Stuck {
  Mutex mutex;
  std::list<std::unique_ptr<Question>> questions GUARDED_BY(mutex);
};

SystemResolver::SystemResolver() : stuck_(std::make_unique<Stuck>()) {}

// What the resolver still writes to must outlive it, and nobody may wait for it at a stop.
SystemResolver::~SystemResolver() {
  Lock lock(stuck_->mutex);
  for (auto& question : stuck_->questions) {
    if (question->working()) (void)question.release();  // NOLINT(bugprone-unused-return-value): the resolver's
  }
}

Resolved SystemResolver::resolve(const std::string& host, int port, DurationMs longest) {
  {
    Lock lock(stuck_->mutex);
    stuck_->questions.remove_if([](const auto& question) { return !question->working(); });
    if (stuck_->questions.size() >= static_cast<std::size_t>(limits::kStuckResolutions))
      return NoAnswer{"the resolver of this box does not answer"};
  }
  auto question = std::make_unique<Question>(host, port);
  gaicb* list[] = {&question->request};
  const int begun = ::getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr);
  if (begun != 0) return NoAnswer{::gai_strerror(begun)};
  timespec left{static_cast<time_t>(longest / 1000), static_cast<long>(longest % 1000 * 1'000'000)};
  const gaicb* const waiting[] = {&question->request};
  while (question->working() && ::gai_suspend(waiting, 1, &left) == EAI_INTR) {
  }
  if (!question->working()) return answer_of(*question);
  if (::gai_cancel(&question->request) != EAI_CANCELED) {
    Lock lock(stuck_->mutex);
    stuck_->questions.push_back(std::move(question));
  }
  return NoAnswer{"the name was not resolved in time"};
}

}  // namespace bide::work
