// Exchange: one connection to one checked address, plain or TLS, under one deadline, and cut when the agent closes.
// One thread. Failures are values: what went wrong stands in error().
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "agent/base/clock.h"
#include "agent/base/fd.h"
#include "agent/work/targets.h"

namespace bide::work {

class Exchange {
 public:
  enum class Trouble { none, failed, late, closing, unreachable };

  // `closing`: a descriptor that is readable when the agent closes.
  Exchange(Clock& clock, BootMs deadline, int closing) : clock_(clock), deadline_(deadline), closing_(closing) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Connects by `until`, and compares the peer with the address.
  [[nodiscard]] bool connect(const Address& address, BootMs until);
  // TLS 1.2 or newer, verified against `host`.
  [[nodiscard]] bool secure(ssl_ctx_st* context, const Url& url);
  // As read(2) and write(2): 0 at the end, -1 with trouble().
  [[nodiscard]] long read(char* to, std::size_t size);
  [[nodiscard]] long write(const char* from, std::size_t size);

  [[nodiscard]] BootMs left() const { return deadline_ - clock_.boot_ms(); }
  [[nodiscard]] Trouble trouble() const { return trouble_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void fail(Trouble trouble, std::string error);

 private:
  [[nodiscard]] bool wait(short events, BootMs until);
  [[nodiscard]] bool wait_tls(int result, const char* what);
  [[nodiscard]] bool check_peer(const Address& address);

  Clock& clock_;
  const BootMs deadline_;
  const int closing_;
  Fd fd_;
  ssl_st* tls_ = nullptr;
  Trouble trouble_ = Trouble::none;
  std::string error_;
};

}  // namespace bide::work
