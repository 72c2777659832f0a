// MQTT in tests: Debian's mosquitto on a port of loopback of its own, a subscriber that keeps what it gets, and
// certificates of an authority of our own.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/mutex.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

struct mosquitto;
struct mosquitto_message;
struct mqtt5__property;  // NOLINT(bugprone-reserved-identifier): the library's name

namespace bide::test {

// A port of loopback that nobody listens at.
[[nodiscard]] int free_port();

// DIR/ca.pem, and a certificate with its key that this authority signed: DIR/NAME.pem, DIR/NAME.key.
struct Authority {
  explicit Authority(const TempDir& dir);
  void sign(const std::string& name, const std::string& alternative) const;  // "DNS:broker.example"
  [[nodiscard]] std::string file(const std::string& name) const { return dir_.str(name); }

 private:
  const TempDir& dir_;
};

// A broker: started at once, and again as often as wanted, on the same port. What it knows of its clients lives through
// stop() and start(), so that a message that it took reaches a subscriber that was late. One thread.
class Broker {
 public:
  // Lines of mosquitto.conf beside the listener; without a word on it everybody may come.
  explicit Broker(std::vector<std::string> config = {"allow_anonymous true"});
  void start();
  void stop();  // in order
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url(const std::string& topic, const std::string& user = {}) const {
    return "mqtt://" + (user.empty() ? "" : user + "@") + address() + "/" + topic;
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::string log() const;                   // of all its lives
  [[nodiscard]] int lines(const std::string& with) const;  // of the log
  [[nodiscard]] std::string file(const std::string& name) const { return dir_.str(name); }

 private:
  TempDir dir_;
  int port_;
  std::string earlier_;
  std::optional<Process> process_;
};

// Hears all of a topic's messages, at QoS 1 and with a session that the broker keeps; comes again by itself. A thread
// of the library, which ends with it. Thread-safe.
class Subscriber {
 public:
  struct Message {
    std::string topic;
    std::string body;
    std::string content_type;
    int qos = 0;
    std::multimap<std::string, std::string> properties;  // of the user
    [[nodiscard]] std::string property(const std::string& name) const;
  };
  // Returns when the broker has taken the subscription.
  Subscriber(const Broker& broker, const std::string& filter, const std::string& user = {},
             const std::string& password = {});
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  [[nodiscard]] std::vector<Message> messages() const;
  [[nodiscard]] std::size_t count() const;
  // The keys under which each body came.
  [[nodiscard]] std::map<std::string, std::set<std::string>> keys_of_bodies() const;

 private:
  static void on_connect(mosquitto* client, void* self, int reason, int flags, const mqtt5__property* properties);
  static void on_subscribe(mosquitto* client, void* self, int id, int count, const int* granted,
                           const mqtt5__property* properties);
  static void on_message(mosquitto* client, void* self, const mosquitto_message* message,
                         const mqtt5__property* properties);

  const std::string filter_;
  mutable Mutex mutex_;
  std::vector<Message> messages_ GUARDED_BY(mutex_);
  bool subscribed_ GUARDED_BY(mutex_) = false;
  mosquitto* client_ = nullptr;
};

}  // namespace bide::test
