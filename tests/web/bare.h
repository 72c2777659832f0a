// Bare: cpp-httplib's own server, as it comes, with the same routes as Front: what the traps are measured against.
#pragma once

#include <memory>
#include <string>

#include "tests/support/http_client.h"

namespace bide::test {

class Bare {
 public:
  Bare();
  ~Bare();
  [[nodiscard]] int port() const;
  [[nodiscard]] HttpClient tcp() const { return HttpClient::tcp(port()); }
  [[nodiscard]] int runs() const;
  void stop();
  // True: a second server of the kind binds the same port without a word.
  [[nodiscard]] bool shares_its_port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::test
