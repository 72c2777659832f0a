// MqttConnection: one connection to one broker, MQTT 5 over libmosquitto, plain or TLS. No thread of the library: it
// reads and writes when we have waited for its descriptor, so that each call ends by its deadline and when the agent
// closes. The library gets an address that was checked, never a name, and TLS is verified against the name [O6].
// One thread at a time. Failures are values: what went wrong stands in trouble() and error(), which never hold a login.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/clock.h"
#include "agent/work/broker.h"
#include "agent/work/targets.h"
#include "agent/work/tls.h"

struct mosquitto;

namespace bide::work {

struct MqttMessage {
  std::string topic;
  std::string body;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> properties;  // of the user
};

class MqttConnection {
 public:
  enum class Trouble { none, failed, never, late, closing, unreachable };

  // `closing`: a descriptor that is readable when the agent closes.
  MqttConnection(Clock& clock, int closing, BrokerUrl broker, BrokerLogin login, const std::string& client_id);
  ~MqttConnection();
  MqttConnection(const MqttConnection&) = delete;
  MqttConnection& operator=(const MqttConnection&) = delete;

  // The connection to an address, by `until`; its peer is compared with it. Once.
  [[nodiscard]] bool connect(const Address& address, BootMs until);
  // TLS, and the broker's consent to our login.
  [[nodiscard]] bool log_in(BootMs deadline);
  // QoS 1: true is the broker's PUBACK with a reason code of success, which is in reason().
  [[nodiscard]] bool publish(const MqttMessage& message, BootMs deadline);
  // The broker has not hung up.
  [[nodiscard]] bool alive();

  [[nodiscard]] int reason() const { return reason_; }
  [[nodiscard]] Trouble trouble() const { return trouble_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  // What the library tells us, on our thread.
  struct Heard {
    std::optional<int> connack;
    std::optional<int> puback;
    int message = 0;  // the id that puback is for
    std::optional<int> gone;
    const Url* url = nullptr;
    std::string certificate;  // why it was not accepted
  };

 private:
  bool fail(Trouble trouble, const std::string& why);
  bool refused(int reason, const std::string& what);
  bool lost(int code);
  bool hear(const std::optional<int>& awaited, BootMs deadline);
  [[nodiscard]] std::optional<short> wait(int fd, short events, BootMs deadline);
  [[nodiscard]] bool check_peer(const Address& address);
  [[nodiscard]] bool set_up_tls();

  Clock& clock_;
  const int closing_;
  const BrokerUrl broker_;
  const BrokerLogin login_;
  Heard heard_;
  TlsContext context_;
  std::unique_ptr<::mosquitto, void (*)(::mosquitto*)> client_;
  Trouble trouble_ = Trouble::none;
  std::string error_;
  int reason_ = 0;
};

}  // namespace bide::work
