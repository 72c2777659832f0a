// Transport: the port through which requests leave the process. One request, one answer, one total deadline.
// Thread-safe: several lanes send at once. Failures are values; what an implementation throws counts as a failed try.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/base/limits.h"
#include "agent/base/time.h"

namespace bide::work {

struct Envelope {
  std::string url;
  std::string key;  // of the row: the same at every delivery [O3]
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::vector<std::string> allow;  // addresses inside that the operator allowed: "127.0.0.1:9000", "10.0.0.0/8" [O6]
  DurationMs deadline = 0;         // for all of it: name, connect, TLS, request, answer [O4]
  std::size_t most_answer = limits::kAnswerBytes;  // of the answer, its head included; what is beyond is not read
};

struct Answered {
  enum class Kind {
    answered,     // there is a status of HTTP; 2xx is delivered
    accepted,     // a broker has taken it: delivered; the status is its reason code
    failed,       // refused, reset, timed out, no such name …: try again
    never,        // cannot succeed: unparsable, an address that is not allowed
    no_network,   // the box has none: counts for nothing [O5]
    interrupted,  // given up because we close: the row stays as it is
  };
  Kind kind = Kind::failed;
  int status = 0;
  std::string error;        // why, in words; empty for answered
  std::string retry_after;  // the header as it came
  std::string body;         // of a 2xx; its beginning, if there was more than Envelope::most_answer

  [[nodiscard]] bool delivered() const {
    return kind == Kind::accepted || (kind == Kind::answered && status >= 200 && status < 300);
  }
};

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual Answered send(const Envelope& envelope) = 0;
  // No row of this lane follows at once: a connection that was kept for the next one is let go.
  virtual void rest(const std::string& /*lane*/) {}
  // Ends what is under way, soon; what is sent later is interrupted at once.
  virtual void close() = 0;
};

}  // namespace bide::work
