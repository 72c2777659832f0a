#include "tests/support/mqtt.h"

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "agent/base/fd.h"
#include "tests/support/eventually.h"

namespace bide::test {

using namespace std::chrono_literals;

int free_port() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error(std::string("no port: ") + std::strerror(errno));
  return ntohs(address.sin_port);
}

namespace {

bool answers(int port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

void openssl(std::vector<std::string> words) {
  words.insert(words.begin(), "openssl");
  const Finished done = run({.argv = std::move(words)});
  if (done.exit.code != 0) throw std::runtime_error("openssl: " + done.err);
}

constexpr const char* kNewKey[] = {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"};

}  // namespace

Authority::Authority(const TempDir& dir) : dir_(dir) {
  std::vector<std::string> words = {"req", "-x509", "-days", "7", "-subj", "/CN=an authority of our own"};
  words.insert(words.end(), std::begin(kNewKey), std::end(kNewKey));
  words.insert(words.end(), {"-keyout", file("ca.key"), "-out", file("ca.pem")});
  openssl(std::move(words));
}

void Authority::sign(const std::string& name, const std::string& alternative) const {
  std::vector<std::string> words = {"req", "-subj", "/CN=" + name};
  words.insert(words.end(), std::begin(kNewKey), std::end(kNewKey));
  words.insert(words.end(), {"-keyout", file(name + ".key"), "-out", file(name + ".request")});
  openssl(std::move(words));
  write_file(file(name + ".more"), "subjectAltName=" + alternative + "\n");
  openssl({"x509", "-req", "-days", "7", "-in", file(name + ".request"), "-CA", file("ca.pem"), "-CAkey",
           file("ca.key"), "-CAcreateserial", "-extfile", file(name + ".more"), "-out", file(name + ".pem")});
}

Broker::Broker(std::vector<std::string> config) : port_(free_port()) {
  std::string text = "user root\npersistence true\npersistence_location " + dir_.str() +
                     "/\nlog_type all\nlog_dest stderr\nmax_queued_messages 0\nlistener " + std::to_string(port_) +
                     " 127.0.0.1\n";
  for (const std::string& line : config) text += line + "\n";
  write_file(dir_ / "mosquitto.conf", text);
  start();
}

void Broker::start() {
  process_.emplace(Command{.argv = {"/usr/sbin/mosquitto", "-c", dir_.str("mosquitto.conf")}});
  eventually([&] { return answers(port_) || !process_->running(); }, "the broker listens", 60s);
  if (!process_->running()) throw std::runtime_error("mosquitto: " + process_->err());
}

void Broker::stop() {
  process_->signal(SIGTERM);
  eventually([&] { return !process_->running(); }, "the broker has ended", 60s);
  earlier_ += process_->err();
  process_.reset();
}

std::string Broker::log() const { return earlier_ + (process_ ? process_->err() : ""); }

int Broker::lines(const std::string& with) const {
  const std::string text = log();
  int found = 0;
  for (std::size_t at = text.find(with); at != std::string::npos; at = text.find(with, at + 1)) ++found;
  return found;
}

// -- Subscriber.

std::string Subscriber::Message::property(const std::string& name) const {
  const auto found = properties.find(name);
  return found == properties.end() ? "" : found->second;
}

Subscriber::Subscriber(const Broker& broker, const std::string& filter, const std::string& user,
                       const std::string& password)
    : filter_(filter) {
  mosquitto_lib_init();
  client_ = mosquitto_new(("hears" + std::to_string(broker.port())).c_str(), false, this);
  mosquitto_int_option(client_, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
  mosquitto_int_option(client_, MOSQ_OPT_RECEIVE_MAXIMUM, 65535);
  mosquitto_connect_v5_callback_set(client_, on_connect);
  mosquitto_subscribe_v5_callback_set(client_, on_subscribe);
  mosquitto_message_v5_callback_set(client_, on_message);
  if (!user.empty()) mosquitto_username_pw_set(client_, user.c_str(), password.c_str());
  mosquitto_reconnect_delay_set(client_, 1, 1, false);
  mosquitto_property* session = nullptr;
  mosquitto_property_add_int32(&session, MQTT_PROP_SESSION_EXPIRY_INTERVAL, 3600);
  const int code = mosquitto_connect_bind_v5(client_, "127.0.0.1", broker.port(), 60, nullptr, session);
  mosquitto_property_free_all(&session);
  if (code != MOSQ_ERR_SUCCESS) throw std::runtime_error(std::string("subscriber: ") + mosquitto_strerror(code));
  mosquitto_loop_start(client_);
  eventually(
      [&] {
        Lock lock(mutex_);
        return subscribed_;
      },
      "subscribed", 60s);
}

Subscriber::~Subscriber() {
  mosquitto_disconnect(client_);
  mosquitto_loop_stop(client_, true);
  mosquitto_destroy(client_);
}

void Subscriber::on_connect(mosquitto* client, void* self, int reason, int, const mosquitto_property*) {
  if (reason == 0) mosquitto_subscribe(client, nullptr, static_cast<Subscriber*>(self)->filter_.c_str(), 1);
}

void Subscriber::on_subscribe(mosquitto*, void* self, int, int count, const int* granted, const mosquitto_property*) {
  auto& us = *static_cast<Subscriber*>(self);
  Lock lock(us.mutex_);
  us.subscribed_ = count == 1 && granted[0] == 1;
}

void Subscriber::on_message(mosquitto*, void* self, const mosquitto_message* message,
                            const mosquitto_property* properties) {
  Message heard;
  heard.topic = message->topic;
  heard.body.assign(static_cast<const char*>(message->payload), static_cast<std::size_t>(message->payloadlen));
  heard.qos = message->qos;
  char* text = nullptr;
  if (mosquitto_property_read_string(properties, MQTT_PROP_CONTENT_TYPE, &text, false) != nullptr) {
    heard.content_type = text;
    std::free(text);
  }
  char* name = nullptr;
  bool next = false;
  for (const mosquitto_property* at = properties;; next = true) {
    at = mosquitto_property_read_string_pair(at, MQTT_PROP_USER_PROPERTY, &name, &text, next);
    if (at == nullptr) break;
    heard.properties.emplace(name, text);
    std::free(name);
    std::free(text);
  }
  auto& us = *static_cast<Subscriber*>(self);
  Lock lock(us.mutex_);
  us.messages_.push_back(std::move(heard));
}

std::vector<Subscriber::Message> Subscriber::messages() const {
  Lock lock(mutex_);
  return messages_;
}

std::size_t Subscriber::count() const {
  Lock lock(mutex_);
  return messages_.size();
}

std::map<std::string, std::set<std::string>> Subscriber::keys_of_bodies() const {
  std::map<std::string, std::set<std::string>> keys;
  Lock lock(mutex_);
  for (const Message& one : messages_) keys[one.body].insert(one.property("Idempotency-Key"));
  return keys;
}

}  // namespace bide::test
