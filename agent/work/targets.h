// Targets: where a request may go [O6]. A URL is read strictly, its name is resolved once, every address is checked,
// and who connects takes one of these addresses and no other. Pure functions but for resolve(), has_network() and
// refuse(), which ask for the addresses of this box.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/time.h"

namespace bide::work {

struct Url {
  bool tls = false;
  std::string host;  // lower case, without brackets
  bool is_address = false;
  int port = 0;
  std::string target;     // path and query, as written; at least "/"
  std::string authority;  // for the Host field: with brackets, with the port where it is not the scheme's own
};
// The two schemes of a protocol, and the ports that need not be written.
struct Schemes {
  std::string_view plain;
  int port = 0;
  std::string_view tls;
  int tls_port = 0;
};
inline constexpr Schemes kHttp{"http", 80, "https", 443};
// These schemes only. Refused, with the reason: a user before the host, forms of addresses that only some parsers take
// (127.1, 0x7f000001, 2130706433), zone ids, white space and control characters, a port that is none.
[[nodiscard]] std::variant<Url, std::string> parse_url(std::string_view text, const Schemes& schemes = kHttp);

// One address and port to connect to.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] std::string text() const;  // "127.0.0.1:80", "[::1]:80"
};
[[nodiscard]] std::optional<Address> parse_address(const std::string& host, int port);
[[nodiscard]] bool same_address(const Address& a, const Address& b);

// Whether an address is one of the public internet: not loopback, private, link-local, shared, documentation,
// multicast, reserved, and no form of IPv6 that carries such a one.
[[nodiscard]] bool is_public(const Address& address);
// "127.0.0.1:9000", "[::1]:9000", "10.1.2.3", "10.0.0.0/8", "fd00::/8"
[[nodiscard]] bool allowed_by(std::string_view rule, const Address& address);
[[nodiscard]] bool is_allow_rule(std::string_view rule);

// Why this address may not be used; nullopt: it may. `own`: what the agent itself listens on, never a target; of a
// wildcard (0.0.0.0, ::) every address of this box is that.
[[nodiscard]] std::optional<std::string> refuse(const Address& address, const std::vector<std::string>& allow,
                                                const std::optional<Address>& own);

// Names to addresses.
struct NoSuchName {
  std::string why;
};
struct NoAnswer {  // the resolver did not say, or not in time: it may, another time
  std::string why;
};
using Resolved = std::variant<std::vector<Address>, NoSuchName, NoAnswer>;
class Resolver {
 public:
  virtual ~Resolver() = default;
  [[nodiscard]] virtual Resolved resolve(const std::string& host, int port, DurationMs longest) = 0;
};
// getaddrinfo with a deadline. Thread-safe. What the resolver still works on after it stays in memory until it is done;
// with limits::kStuckResolutions of these it answers NoAnswer at once.
class SystemResolver final : public Resolver {
 public:
  SystemResolver();
  ~SystemResolver() override;
  Resolved resolve(const std::string& host, int port, DurationMs longest) override;

 private:
  struct Stuck;
  std::unique_ptr<Stuck> stuck_;
};

// The box has an address beside loopback on an interface that is up.
[[nodiscard]] bool has_network();

}  // namespace bide::work
