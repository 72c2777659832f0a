#include "agent/work/mqtt_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "agent/base/fd.h"
#include "agent/base/hash.h"
#include "agent/base/mutex.h"
#include "agent/kernel/outbox.h"
#include "agent/work/mqtt_connection.h"
#include "agent/work/reach.h"

namespace bide::work {
namespace {

constexpr std::size_t kClientIdBytes = 23;  // what every broker takes (MQTT 5, 3.1.3.1)

struct Kept {
  std::string account;
  std::vector<Address> addresses;  // all that its name had: another row may not be allowed to go to one of them
  std::unique_ptr<MqttConnection> connection;
};

MqttMessage message_of(const BrokerUrl& broker, const Envelope& envelope) {
  MqttMessage message;
  message.topic = broker.topic;
  message.body = envelope.body;
  message.properties.emplace_back("Idempotency-Key", envelope.key);
  for (const auto& [name, value] : envelope.headers) {
    if (name == "Content-Type") {
      message.content_type = value;
    } else if (name != "Idempotency-Key") {
      message.properties.emplace_back(name, value);
    }
  }
  return message;
}

}  // namespace

struct MqttTransport::Impl {
  Impl(Clock& given, Resolver& names, MqttTransportOptions&& chosen)
      : clock(given),
        reach{given, names, chosen.own, chosen.has_network},
        brokers(std::move(chosen.brokers)),
        box(std::move(chosen.box)),
        closing(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  [[nodiscard]] Answered send(const BrokerUrl& broker, const Envelope& envelope);
  [[nodiscard]] std::optional<Kept> take(const std::string& lane);
  [[nodiscard]] bool fits(const Kept& kept, const BrokerUrl& broker, const std::vector<std::string>& allow) const;
  [[nodiscard]] std::variant<Kept, Answered> open(const BrokerUrl& broker, const std::vector<std::string>& allow,
                                                  BootMs deadline);
  [[nodiscard]] std::string client_id(const BrokerUrl& broker) const;
  [[nodiscard]] Answered trouble_of(const MqttConnection& connection) const;

  Clock& clock;
  const Reach reach;
  const Brokers brokers;
  const std::function<std::string()> box;
  const Fd closing;
  Mutex mutex;
  std::map<std::string, Kept> kept GUARDED_BY(mutex);  // by lane; the one in use is taken out
};

std::string MqttTransport::Impl::client_id(const BrokerUrl& broker) const {
  const std::string id = box ? box() : "";
  if (id.empty()) return "";
  return ("bide" + to_hex(sha256(id + "\n" + account_of(broker)))).substr(0, kClientIdBytes);
}

std::optional<Kept> MqttTransport::Impl::take(const std::string& lane) {
  Lock lock(mutex);
  auto node = kept.extract(lane);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

bool MqttTransport::Impl::fits(const Kept& one, const BrokerUrl& broker, const std::vector<std::string>& allow) const {
  if (one.account != account_of(broker) || !one.connection->alive()) return false;
  return std::none_of(one.addresses.begin(), one.addresses.end(),
                      [&](const Address& address) { return refuse(address, allow, reach.own).has_value(); });
}

std::variant<Kept, Answered> MqttTransport::Impl::open(const BrokerUrl& broker, const std::vector<std::string>& allow,
                                                       BootMs deadline) {
  auto found = reach.addresses_of(broker.url, allow, deadline);
  if (auto* wrong = std::get_if<Answered>(&found)) return std::move(*wrong);
  Kept made{account_of(broker), std::move(std::get<std::vector<Address>>(found)), nullptr};
  for (std::size_t i = 0; i < made.addresses.size(); ++i) {
    const BootMs now = clock.boot_ms();  // a dead address leaves time for the next
    const BootMs until = now + (deadline - now) / static_cast<BootMs>(made.addresses.size() - i);
    made.connection =
        std::make_unique<MqttConnection>(clock, closing.get(), broker, brokers.login_of(broker), client_id(broker));
    if (made.connection->connect(made.addresses[i], until)) {
      if (!made.connection->log_in(deadline)) return trouble_of(*made.connection);
      return made;
    }
    if (made.connection->trouble() == MqttConnection::Trouble::closing) break;
  }
  return trouble_of(*made.connection);
}

Answered MqttTransport::Impl::trouble_of(const MqttConnection& connection) const {
  const auto answered = [&](Answered::Kind kind) {
    return Answered{kind, connection.reason(), connection.error(), {}};
  };
  switch (connection.trouble()) {
    case MqttConnection::Trouble::closing: return answered(Answered::Kind::interrupted);
    case MqttConnection::Trouble::unreachable: return reach.unreachable(connection.error());
    case MqttConnection::Trouble::never: return answered(Answered::Kind::never);
    case MqttConnection::Trouble::none:
    case MqttConnection::Trouble::failed:
    case MqttConnection::Trouble::late: break;
  }
  return answered(Answered::Kind::failed);
}

Answered MqttTransport::Impl::send(const BrokerUrl& broker, const Envelope& envelope) {
  const BootMs deadline = clock.boot_ms() + envelope.deadline;
  const std::string lane = kernel::lane_of(envelope.url);
  auto one = take(lane);
  if (!one || !fits(*one, broker, envelope.allow)) {
    one.reset();  // first the old one goes: the broker knows us by one id
    auto opened = open(broker, envelope.allow, deadline);
    if (auto* wrong = std::get_if<Answered>(&opened)) return std::move(*wrong);
    one = std::move(std::get<Kept>(opened));
  }
  const bool taken = one->connection->publish(message_of(broker, envelope), deadline);
  Answered answer =
      taken ? Answered{Answered::Kind::accepted, one->connection->reason(), {}, {}} : trouble_of(*one->connection);
  if (taken) {
    Lock lock(mutex);
    kept.insert_or_assign(lane, std::move(*one));
  }
  return answer;
}

MqttTransport::MqttTransport(Clock& clock, Resolver& resolver, MqttTransportOptions options)
    : impl_(std::make_unique<Impl>(clock, resolver, std::move(options))) {}
MqttTransport::~MqttTransport() = default;

Answered MqttTransport::send(const Envelope& envelope) {
  auto broker = parse_broker_url(envelope.url);
  if (auto* wrong = std::get_if<std::string>(&broker)) return {Answered::Kind::never, 0, std::move(*wrong), {}};
  try {
    return impl_->send(std::get<BrokerUrl>(broker), envelope);
  } catch (const std::exception& e) {  // a file of certificates, memory
    return {Answered::Kind::failed, 0, std::get<BrokerUrl>(broker).name + ": " + e.what(), {}};
  }
}

void MqttTransport::rest(const std::string& lane) { (void)impl_->take(lane); }

void MqttTransport::close() {
  const std::uint64_t one = 1;
  (void)!::write(impl_->closing.get(), &one, sizeof one);
}

}  // namespace bide::work
