// HttpTransport: requests over HTTP/1.1 and TLS, for real. A name is resolved once, every address is checked, the
// connection goes to a checked one and its peer is compared; one deadline holds for all of it; redirects are answers
// like any other; of an answer only the head counts [O4, O6].
// Thread-safe; each send is on its caller's thread. No failure is thrown. close() ends all that is under way.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "agent/base/clock.h"
#include "agent/work/targets.h"
#include "agent/work/transport.h"

namespace bide::work {

struct HttpTransportOptions {
  std::optional<Address> own;  // where the agent itself listens: never a target
  std::string ca_file;         // empty: those of the system
  std::function<bool()> has_network = work::has_network;
};

class HttpTransport final : public Transport {
 public:
  HttpTransport(Clock& clock, Resolver& resolver, const HttpTransportOptions& options = {});
  ~HttpTransport() override;
  Answered send(const Envelope& envelope) override;
  void close() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::work
