// Client: asks the agent over its Unix socket or a URL. One thread. Answers with an error status are answers;
// Unreachable: nobody answered, twice. A write carries an Idempotency-Key of its own, so that the second try does
// nothing twice.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "agent/base/random.h"
#include "agent/base/time.h"

namespace bide::cli {

struct Unreachable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Reply {
  int status = 0;
  std::string body;
  std::string etag;
  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
};

class Client {
 public:
  // address: an absolute path, or http://HOST:PORT, https://HOST:PORT. Throws ConfigFault for anything else.
  // token: of BIDE_TOKEN, may be empty.
  Client(std::string address, std::string token, Random& random);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // `wait`: asks the agent to hold the answer back until something changes (Prefer: wait).
  [[nodiscard]] Reply get(const std::string& path, DurationMs wait = 0);
  [[nodiscard]] Reply post(const std::string& path, const std::string& body, const std::string& if_match = {});
  [[nodiscard]] Reply del(const std::string& path);
  // Hands a body of any length on as it comes; an error document comes in Reply::body instead.
  [[nodiscard]] Reply get_streamed(const std::string& path, const std::function<void(std::string_view)>& sink);
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  struct Impl;
  const std::string address_;
  Random& random_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::cli
