// With `listen` on 0.0.0.0 or [::] the other addresses of the box on our port were not seen as the agent's own door: a
// webhook could be sent to ourselves. Under a wildcard every address of the box is that door.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <catch2/catch.hpp>

#include <vector>

#include "agent/work/targets.h"

using namespace bide::work;

namespace {

std::vector<std::string> addresses_of_this_box() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  REQUIRE(::getifaddrs(&list) == 0);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    char text[INET6_ADDRSTRLEN] = "";
    if (one->ifa_addr == nullptr) continue;
    if (one->ifa_addr->sa_family == AF_INET)
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
    if (one->ifa_addr->sa_family == AF_INET6)
      ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, text, sizeof text);
    if (*text != '\0') found.emplace_back(text);
  }
  ::freeifaddrs(list);
  return found;
}

}  // namespace

TEST_CASE("[O6] issue: under a wildcard each address of the box is the agent's own door") {
  const std::vector<std::string> allow = {"0.0.0.0/0", "::/0"};
  const auto all = addresses_of_this_box();
  REQUIRE_FALSE(all.empty());
  for (const std::string wildcard : {"0.0.0.0", "::"}) {
    const auto own = parse_address(wildcard, 7433);
    REQUIRE(own);
    for (const std::string& host : all) {
      INFO(wildcard << " and " << host);
      const auto refused = refuse(*parse_address(host, 7433), allow, own);
      REQUIRE(refused);
      CHECK(refused->find("own door") != std::string::npos);
      CHECK_FALSE(refuse(*parse_address(host, 7434), allow, own));
    }
    CHECK_FALSE(refuse(*parse_address("198.51.100.77", 7433), allow, own));
  }
  // One address is one door.
  const auto one = parse_address("198.51.100.78", 7433);
  for (const std::string& host : all) {
    const bool loopback = host.starts_with("127.") || host == "::1";
    CHECK(refuse(*parse_address(host, 7433), allow, one).has_value() == loopback);
  }
}
