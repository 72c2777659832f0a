#include "agent/work/targets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "agent/base/text.h"

namespace bide::work {
namespace {

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

// A last label of digits or of 0x… makes a name an address for some resolvers.
bool looks_like_number(std::string_view host) {
  while (!host.empty() && host.back() == '.') host.remove_suffix(1);
  const std::string_view last = host.substr(host.rfind('.') + 1);
  if (last.starts_with("0x")) return true;
  return !last.empty() && std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct HostPort {
  std::string host;
  std::string_view port;  // digits, or empty
  bool brackets = false;
};

std::variant<HostPort, std::string> split_authority(std::string_view authority) {
  if (authority.find('@') != std::string_view::npos) return "the URL has a user before the host";
  HostPort parts;
  std::string_view rest;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return "the URL's address has no closing bracket";
    parts.brackets = true;
    parts.host = lower(authority.substr(1, end - 1));
    rest = authority.substr(end + 1);
  } else {
    const std::size_t colon = authority.find(':');
    parts.host = lower(authority.substr(0, colon));
    rest = colon == std::string_view::npos ? "" : authority.substr(colon);
  }
  if (!rest.empty() && rest[0] != ':') return "the URL's host is followed by something that is no port";
  if (!rest.empty()) parts.port = rest.substr(1);
  if (!rest.empty() && parts.port.empty()) return "the URL's port is empty";
  return parts;
}

std::optional<std::string> wrong_host(const HostPort& parts) {
  unsigned char bytes[sizeof(in6_addr)];
  if (parts.host.empty()) return "the URL has no host";
  if (parts.brackets) {
    if (::inet_pton(AF_INET6, parts.host.c_str(), bytes) == 1) return std::nullopt;
    return "the URL's address is no IPv6 address";
  }
  if (parts.host.size() > 253 || !std::all_of(parts.host.begin(), parts.host.end(), is_host_character))
    return "the URL's host is no name (write an international one in its ASCII form)";
  if (looks_like_number(parts.host) && ::inet_pton(AF_INET, parts.host.c_str(), bytes) != 1)
    return "the URL's host is a number in a form that only some programs read: write it as 192.0.2.1";
  return std::nullopt;
}

}  // namespace

std::variant<Url, std::string> parse_url(std::string_view text, const Schemes& schemes) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7F || c == '\\' || c == '"' || c == '<' || c == '>' || c == '^' || c == '`')
      return "the URL holds a character that must be percent-encoded";
  }
  const std::size_t colon = text.find("://");
  const std::string scheme = lower(text.substr(0, colon));
  if (colon == std::string_view::npos || (scheme != schemes.plain && scheme != schemes.tls))
    return "the URL does not begin with " + std::string(schemes.plain) + ":// or " + std::string(schemes.tls) + "://";
  const std::string_view rest = text.substr(colon + 3);
  const std::size_t end = rest.find_first_of("/?#");
  const auto split = split_authority(rest.substr(0, end));
  if (const auto* wrong = std::get_if<std::string>(&split)) return *wrong;
  const auto& parts = std::get<HostPort>(split);
  if (auto wrong = wrong_host(parts)) return std::move(*wrong);
  Url url;
  url.tls = scheme == schemes.tls;
  url.host = parts.host;
  unsigned char bytes[sizeof(in6_addr)];
  url.is_address = parts.brackets || ::inet_pton(AF_INET, parts.host.c_str(), bytes) == 1;
  const int own_port = url.tls ? schemes.tls_port : schemes.port;
  url.port = own_port;
  if (!parts.port.empty()) {
    const auto port = parse_number(parts.port);
    if (!port || *port < 1 || *port > 65535) return "the URL's port is none";
    url.port = static_cast<int>(*port);
  }
  url.authority = (parts.brackets ? "[" + parts.host + "]" : parts.host) +
                  (url.port == own_port ? "" : ":" + std::to_string(url.port));
  std::string_view target = end == std::string_view::npos ? "" : rest.substr(end);
  target = target.substr(0, target.find('#'));
  url.target = (target.starts_with('/') ? "" : "/") + std::string(target);
  return url;
}

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, buffer, sizeof buffer);
    return std::string(buffer) + ":" + std::to_string(ntohs(v4->sin_port));
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  ::inet_ntop(AF_INET6, &v6->sin6_addr, buffer, sizeof buffer);
  return "[" + std::string(buffer) + "]:" + std::to_string(ntohs(v6->sin6_port));
}

std::optional<Address> parse_address(const std::string& host, int port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    address.length = sizeof(sockaddr_in);
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<std::uint16_t>(port));
  address.length = sizeof(sockaddr_in6);
  return address;
}

namespace {

struct Bytes {
  const unsigned char* data = nullptr;
  std::size_t size = 0;
  int port = 0;
};
Bytes bytes_of(const Address& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return {reinterpret_cast<const unsigned char*>(&v4->sin_addr), 4, ntohs(v4->sin_port)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return {v6->sin6_addr.s6_addr, 16, ntohs(v6->sin6_port)};
}

bool in_range(const unsigned char* bytes, const unsigned char* range, int bits) {
  const int whole = bits / 8;
  if (std::memcmp(bytes, range, static_cast<std::size_t>(whole)) != 0) return false;
  const int rest = bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<unsigned char>(0xFF << (8 - rest));
  return (bytes[whole] & mask) == (range[whole] & mask);
}

struct Range {
  const char* address;
  int bits;
};
// RFC 6890 and its successors: what is not of the public internet.
constexpr Range kInside4[] = {{"0.0.0.0", 8},      {"10.0.0.0", 8},     {"100.64.0.0", 10}, {"127.0.0.0", 8},
                              {"169.254.0.0", 16}, {"172.16.0.0", 12},  {"192.0.0.0", 24},  {"192.0.2.0", 24},
                              {"192.88.99.0", 24}, {"192.168.0.0", 16}, {"198.18.0.0", 15}, {"198.51.100.0", 24},
                              {"203.0.113.0", 24}, {"224.0.0.0", 4},    {"240.0.0.0", 4}};
// Inside of 2000::/3: Teredo, ORCHID, documentation, 6to4 (they carry or name other addresses).
constexpr Range kInside6[] = {{"2001::", 23}, {"2001:db8::", 32}, {"2002::", 16}, {"3fff::", 20}};

bool in_any(const unsigned char* bytes, int family, const Range* ranges, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    unsigned char range[sizeof(in6_addr)];
    if (::inet_pton(family, ranges[i].address, range) == 1 && in_range(bytes, range, ranges[i].bits)) return true;
  }
  return false;
}

// An IPv4 address in the clothes of IPv6 is that IPv4 address.
Address undressed(const Address& address) {
  if (address.storage.ss_family != AF_INET6) return address;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  if (!IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) return address;
  Address plain;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&plain.storage);
  v4->sin_family = AF_INET;
  v4->sin_port = v6->sin6_port;
  std::memcpy(&v4->sin_addr, v6->sin6_addr.s6_addr + 12, 4);
  plain.length = sizeof(sockaddr_in);
  return plain;
}

}  // namespace

bool same_address(const Address& a, const Address& b) {
  const Address left = undressed(a);
  const Address right = undressed(b);
  const Bytes x = bytes_of(left);
  const Bytes y = bytes_of(right);
  return x.size == y.size && x.port == y.port && std::memcmp(x.data, y.data, x.size) == 0;
}

bool is_public(const Address& address) {
  const Address plain = undressed(address);
  const Bytes bytes = bytes_of(plain);
  if (bytes.size == 4) return !in_any(bytes.data, AF_INET, kInside4, std::size(kInside4));
  const bool global = (bytes.data[0] & 0xE0U) == 0x20U;  // 2000::/3 is all that was given out
  return global && !in_any(bytes.data, AF_INET6, kInside6, std::size(kInside6));
}

namespace {

struct Rule {
  Address address;
  int bits = 0;
  int port = 0;  // 0: any
};

std::optional<Rule> parse_rule(std::string_view text) {
  Rule rule;
  std::string host(text);
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = text.substr(1, end - 1);
    if (text.size() > end + 1 && text[end + 1] != ':') return std::nullopt;
    if (text.size() > end + 1) port = text.substr(end + 2);
    if (text.size() > end + 1 && port.empty()) return std::nullopt;
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':') + 1);
    if (port.empty()) return std::nullopt;
  }
  int bits = -1;
  if (const std::size_t slash = host.find('/'); slash != std::string::npos) {
    const auto number = parse_number(std::string_view(host).substr(slash + 1));
    if (!number || *number > 128) return std::nullopt;
    bits = static_cast<int>(*number);
    host.resize(slash);
  }
  if (!port.empty()) {
    const auto number = parse_number(port);
    if (!number || *number < 1 || *number > 65535) return std::nullopt;
    rule.port = static_cast<int>(*number);
  }
  const auto address = parse_address(lower(host), rule.port);
  if (!address) return std::nullopt;
  rule.address = undressed(*address);
  const int whole = rule.address.storage.ss_family == AF_INET ? 32 : 128;
  if (bits > whole) return std::nullopt;
  rule.bits = bits < 0 ? whole : bits;
  return rule;
}

}  // namespace

bool is_allow_rule(std::string_view text) { return parse_rule(text).has_value(); }

bool allowed_by(std::string_view text, const Address& address) {
  const auto rule = parse_rule(text);
  if (!rule) return false;
  const Address plain = undressed(address);
  const Bytes bytes = bytes_of(plain);
  const Bytes range = bytes_of(rule->address);
  if (bytes.size != range.size || (rule->port != 0 && rule->port != bytes.port)) return false;
  return in_range(bytes.data, range.data, rule->bits);
}

namespace {

// Whether `see` says true to an interface that has an address; nullopt: the list is not to be had.
template <class See>
std::optional<bool> any_interface(See see) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return std::nullopt;
  bool found = false;
  for (const ifaddrs* one = list; one != nullptr && !found; one = one->ifa_next) {
    const bool has =
        one->ifa_addr != nullptr && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6);
    found = has && see(*one);
  }
  ::freeifaddrs(list);
  return found;
}

bool is_wildcard(const Bytes& bytes) {
  return std::all_of(bytes.data, bytes.data + bytes.size, [](unsigned char byte) { return byte == 0; });
}

// Unknown counts as yes: it guards a door.
bool is_of_this_box(const Bytes& bytes) {
  const auto found = any_interface([&](const ifaddrs& one) {
    Address address;
    address.length = one.ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, one.ifa_addr, address.length);
    const Bytes there = bytes_of(address);
    return there.size == bytes.size && std::memcmp(there.data, bytes.data, bytes.size) == 0;
  });
  return found.value_or(true);
}

bool is_own_door(const Address& address, const Address& own) {
  const Bytes mine = bytes_of(own);
  const Address plain = undressed(address);
  const Bytes theirs = bytes_of(plain);
  if (mine.port != theirs.port) return false;
  if (same_address(address, own) || theirs.data[0] == 127 || theirs.data[0] == 0) return true;
  return is_wildcard(mine) && is_of_this_box(theirs);
}

}  // namespace

std::optional<std::string> refuse(const Address& address, const std::vector<std::string>& allow,
                                  const std::optional<Address>& own) {
  if (own && is_own_door(address, *own)) return address.text() + " is the agent's own door";
  if (is_public(address)) return std::nullopt;
  const bool allowed =
      std::any_of(allow.begin(), allow.end(), [&](const auto& rule) { return allowed_by(rule, address); });
  if (allowed) return std::nullopt;
  return address.text() + " is no address of the public internet, and was not allowed for this endpoint";
}

bool has_network() {
  const auto found = any_interface([](const ifaddrs& one) {
    const bool up = (one.ifa_flags & IFF_UP) != 0 && (one.ifa_flags & IFF_RUNNING) != 0;
    return up && (one.ifa_flags & IFF_LOOPBACK) == 0;
  });
  return found.value_or(true);  // not known: a try counts
}

}  // namespace bide::work
