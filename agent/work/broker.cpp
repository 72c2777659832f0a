#include "agent/work/broker.h"

#include <mosquitto.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/base/secrets.h"
#include "agent/base/text.h"

namespace bide::work {
namespace {

// UTF-8 as MQTT takes it: without control characters.
bool is_text(const std::string& text) {
  return invalid_utf8(text) == std::string::npos &&
         mosquitto_validate_utf8(text.data(), static_cast<int>(text.size())) == MOSQ_ERR_SUCCESS;
}

// Takes the user out of "mqtt://user@host/…"; what is wrong with it.
std::optional<std::string> take_user(std::string& text, std::string& user) {
  const std::size_t colon = text.find("://");
  if (colon == std::string::npos) return std::nullopt;  // parse_url says it
  const std::size_t begin = colon + 3;
  const std::size_t end = std::min(text.find_first_of("/?#", begin), text.size());
  const std::size_t at = std::string_view(text).substr(0, end).rfind('@');
  if (at == std::string::npos || at < begin) return std::nullopt;
  const std::string written = text.substr(begin, at - begin);
  if (written.find(':') != std::string::npos)
    return "the URL holds a password: it belongs into the file that mqtt_brokers in bide.toml names";
  const auto decoded = percent_decode(written);
  if (!decoded || decoded->empty() || written.find('@') != std::string::npos || !is_text(*decoded))
    return "the URL's user is none: its characters are percent-encoded UTF-8";
  user = *decoded;
  text.erase(begin, at + 1 - begin);
  return std::nullopt;
}

std::optional<std::string> wrong_topic(const std::string& topic) {
  if (topic.empty()) return "the URL has no topic: mqtt://HOST/TOPIC";
  if (topic.find_first_of("+#") != std::string::npos) return "a topic that is published to holds no wildcard (+, #)";
  if (mosquitto_pub_topic_check2(topic.data(), topic.size()) != MOSQ_ERR_SUCCESS)
    return "the topic is too long: it has at most 65535 bytes and 200 levels";
  if (!is_text(topic)) return "the topic is no UTF-8, or holds control characters";
  return std::nullopt;
}

// The broker of a URL; its topic is not looked at.
std::variant<BrokerUrl, std::string> parse_broker(std::string_view text) {
  BrokerUrl broker;
  std::string rest(text);
  if (auto wrong = take_user(rest, broker.user)) return std::move(*wrong);
  auto parsed = parse_url(rest, kMqtt);
  if (auto* wrong = std::get_if<std::string>(&parsed)) return std::move(*wrong);
  broker.url = std::move(std::get<Url>(parsed));
  broker.name = std::string(broker.url.tls ? kMqtt.tls : kMqtt.plain) + "://" + broker.url.authority;
  return broker;
}

}  // namespace

bool is_broker_url(std::string_view text) {
  const std::string scheme = lower(text.substr(0, text.find("://")));
  return scheme == kMqtt.plain || scheme == kMqtt.tls;
}

std::variant<BrokerUrl, std::string> parse_broker_url(std::string_view text) {
  auto parsed = parse_broker(text);
  auto* broker = std::get_if<BrokerUrl>(&parsed);
  if (broker == nullptr) return parsed;
  if (text.find_first_of("?#") != std::string_view::npos)
    return "a broker's URL has no query and no fragment: write a ? of the topic as %3F";
  const auto topic = percent_decode(std::string_view(broker->url.target).substr(1));
  if (!topic) return "the topic holds a % without two hexadecimal digits after it";
  if (auto wrong = wrong_topic(*topic)) return std::move(*wrong);
  broker->topic = *topic;
  return parsed;
}

std::string account_of(const BrokerUrl& broker) {
  return std::string(broker.url.tls ? kMqtt.tls : kMqtt.plain) + "://" + percent_encode(broker.user) + "@" +
         broker.url.host + ":" + std::to_string(broker.url.port);
}

// -- The file.

namespace {

std::string where(const std::string& path, const toml::source_region& at) {
  return path + ":" + std::to_string(at.begin.line) + ": ";
}

// A password is for its owner, and for a group that only reads it.
void check_closed(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0 && (found.st_mode & 027) != 0)
    throw ConfigFault(path + " holds a password and is open to others: chmod 600 " + path);
}

std::string password_in(const std::string& file, const std::string& place) {
  check_closed(file);
  auto password = read_secret(file);
  if (!password) throw ConfigFault(place + "password_file: " + file + " cannot be read");
  return std::move(*password);
}

BrokerLogin read_login(const toml::table& table, const std::string& path, bool tls) {
  BrokerLogin login;
  const std::vector<std::string> names = {"user", "password", "password_file", "ca_file", "cert_file", "key_file"};
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string place = where(path, key.source());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string near = nearest(name, names);
      throw ConfigFault(place + "there is no key " + json::quote(name) +
                        (near.empty() ? "" : "; did you mean " + near + "?"));
    }
    const auto text = node.value<std::string>();
    if (!node.is_string() || !text || text->empty()) throw ConfigFault(place + name + " is a text in quotes");
    const bool file = name.ends_with("_file");
    if (file && text->front() != '/')
      throw ConfigFault(place + name + " is a whole path, such as \"/etc/bide/" + name + "\"");
    if (file && name != "password_file" && !tls) throw ConfigFault(place + name + " is for a broker of mqtts://");
    if (name == "user") login.user = *text;
    if (name == "password") login.password = *text;
    if (name == "password") check_closed(path);
    if (name == "password_file") login.password = password_in(*text, place);
    if (name == "ca_file") login.ca_file = *text;
    if (name == "cert_file") login.cert_file = *text;
    if (name == "key_file") login.key_file = *text;
  }
  if (login.cert_file.empty() != login.key_file.empty())
    throw ConfigFault(where(path, table.source()) + "cert_file and key_file belong together");
  return login;
}

}  // namespace

Brokers Brokers::parse(std::string_view text, const std::string& path) {
  Brokers brokers;
  toml::table document;
  try {
    document = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw ConfigFault(where(path, error.source()) + std::string(error.description()));
  }
  for (const auto& [key, node] : document) {
    const std::string place = where(path, key.source());
    const auto broker = parse_broker(key.str());
    if (const auto* wrong = std::get_if<std::string>(&broker))
      throw ConfigFault(place + "a table's name is a broker's URL, such as [\"mqtts://broker.example\"]: " + *wrong);
    const auto& url = std::get<BrokerUrl>(broker);
    if (url.url.target != "/") throw ConfigFault(place + "a table's name is a broker's URL without a topic");
    if (!node.is_table()) throw ConfigFault(place + "what belongs to a broker is a table");
    if (!brokers.logins_.emplace(account_of(url), read_login(*node.as_table(), path, url.url.tls)).second)
      throw ConfigFault(place + "this broker stands there twice");
  }
  return brokers;
}

Brokers Brokers::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) throw ConfigFault(path + ": cannot be read: " + std::strerror(errno));
  return parse(text.str(), path);
}

BrokerLogin Brokers::login_of(const BrokerUrl& broker) const {
  const auto found = logins_.find(account_of(broker));
  BrokerLogin login = found == logins_.end() ? BrokerLogin{} : found->second;
  if (login.user.empty()) login.user = broker.user;
  return login;
}

}  // namespace bide::work
