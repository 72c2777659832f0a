// The API's document (web/openapi.json) as the tests use it: what it says of a request, and whether an answer is one
// that it describes. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/http_client.h"

namespace bide::test {

class ApiDocument {
 public:
  // Of the embedded file; made once.
  static ApiDocument& get();
  ~ApiDocument();

  struct Operation {
    std::string method;  // GET
    std::string path;    // "/v1/runs/{id}"
    std::string scope;
    std::string text;  // the operation itself, as JSON
  };
  [[nodiscard]] const std::vector<Operation>& operations() const;
  // The operation that a request is; null: none, or a page's file.
  [[nodiscard]] const Operation* find(std::string_view method, std::string_view target) const;
  // What is wrong with an answer; empty: it is as described, or the request is of no operation.
  [[nodiscard]] std::string check(std::string_view method, std::string_view target, const HttpAnswer& answer);
  // A body that fits the operation's schema, or nearly: seeded, so that it comes again.
  [[nodiscard]] std::string make_body(const Operation& operation, std::uint64_t seed) const;
  // How many answers were held to a schema so far.
  [[nodiscard]] int checked() const;

 private:
  ApiDocument();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::test
