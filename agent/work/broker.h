// Brokers: where a message goes over MQTT, as a URL says it, and how the agent logs in there, as an operator's file
// says it. A login is given to its own broker only, in its own scheme: a URL that somebody else wrote cannot ask for
// it. Values; thread-safe once read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "agent/work/targets.h"

namespace bide::work {

inline constexpr Schemes kMqtt{"mqtt", 1883, "mqtts", 8883};

// mqtt[s]://[USER@]HOST[:PORT]/TOPIC. The topic is what follows the slash, percent-decoded: "/fleet/a%20b" is
// "fleet/a b".
struct BrokerUrl {
  Url url;  // tls, host and port
  std::string user;
  std::string topic;
  std::string name;  // "mqtts://broker.example": for messages, without the user
};
[[nodiscard]] bool is_broker_url(std::string_view text);
// Refused, with the reason: what parse_url refuses, a password, an empty topic, wildcards, a topic that is no UTF-8 or
// holds control characters. The reason never holds the URL.
[[nodiscard]] std::variant<BrokerUrl, std::string> parse_broker_url(std::string_view text);

struct BrokerLogin {
  std::string user;  // empty: none, or that of the URL
  std::string password;
  std::string ca_file;    // PEM; empty: the certificates of the system
  std::string cert_file;  // PEM, with its chain: who we are; empty: a broker that asks for one refuses us
  std::string key_file;
};

// The file that mqtt_brokers of the configuration names: a table a broker, by its URL without a topic.
//   ["mqtts://broker.example"]            or, for one of several users, ["mqtts://box-17@broker.example"]
//   user = "box-17"
//   password_file = "/etc/bide/broker.password"    or password = "…"
//   ca_file = "/etc/bide/broker-ca.pem"
//   cert_file = "/etc/bide/box.pem"
//   key_file = "/etc/bide/box.key"
// ConfigFault, with "file:line: ": an unknown key, a text that is none, a file with a password that others may read.
class Brokers {
 public:
  Brokers() = default;
  [[nodiscard]] static Brokers read(const std::string& path);
  [[nodiscard]] static Brokers parse(std::string_view text, const std::string& path);
  // What holds for this URL: its user is the login's, if the login says none. No table: its user, without a password.
  [[nodiscard]] BrokerLogin login_of(const BrokerUrl& broker) const;

 private:
  std::map<std::string, BrokerLogin> logins_;  // by account_of
};

// Broker and user: whose messages one connection may carry.
[[nodiscard]] std::string account_of(const BrokerUrl& broker);

}  // namespace bide::work
