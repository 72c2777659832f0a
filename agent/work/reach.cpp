#include "agent/work/reach.h"

#include <utility>

namespace bide::work {

Answered Reach::unreachable(const std::string& why) const {
  return {has_network() ? Answered::Kind::failed : Answered::Kind::no_network, 0, why, {}};
}

std::variant<std::vector<Address>, Answered> Reach::addresses_of(const Url& url, const std::vector<std::string>& allow,
                                                                 BootMs deadline) const {
  std::vector<Address> addresses;
  if (url.is_address) {
    addresses.push_back(parse_address(url.host, url.port).value());
  } else {
    Resolved resolved = resolver.resolve(url.host, url.port, deadline - clock.boot_ms());
    if (const auto* none = std::get_if<NoSuchName>(&resolved))
      return Answered{Answered::Kind::failed, 0, url.host + ": " + none->why, {}};
    if (const auto* none = std::get_if<NoAnswer>(&resolved)) return unreachable(url.host + ": " + none->why);
    addresses = std::move(std::get<std::vector<Address>>(resolved));
  }
  for (const Address& address : addresses) {
    if (auto why = refuse(address, allow, own)) return Answered{Answered::Kind::never, 0, std::move(*why), {}};
  }
  return addresses;
}

}  // namespace bide::work
