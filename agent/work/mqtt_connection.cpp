#include "agent/work/mqtt_connection.h"

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/base/errors.h"

namespace bide::work {
namespace {

constexpr int kKeepAliveSeconds = 60;  // a connection lives for a page of rows, each of which says something sooner

using Heard = MqttConnection::Heard;

Heard& heard(void* object) { return *static_cast<Heard*>(object); }

void on_connect(mosquitto*, void* object, int reason, int, const mosquitto_property*) {
  heard(object).connack = reason;
}
void on_publish(mosquitto*, void* object, int message, int reason, const mosquitto_property*) {
  if (message == heard(object).message) heard(object).puback = reason;
}
void on_disconnect(mosquitto*, void* object, int reason, const mosquitto_property*) { heard(object).gone = reason; }

Heard& heard(const SSL* tls) { return heard(SSL_CTX_get_app_data(SSL_get_SSL_CTX(tls))); }

// The library asks for the certificate of the address that it was given: we know the name.
void on_handshake(const SSL* tls, int where, int) {
  if ((where & SSL_CB_HANDSHAKE_START) == 0) return;
  const Url& url = *heard(tls).url;
  const char* name = url.is_address ? nullptr : url.host.c_str();
  SSL_set_tlsext_host_name(const_cast<SSL*>(tls), name);
}
int on_certificate(int accepted, X509_STORE_CTX* store) {
  const auto* tls = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (accepted == 0) heard(tls).certificate = X509_verify_cert_error_string(X509_STORE_CTX_get_error(store));
  return accepted;
}

bool is_refusal(int reason) { return reason >= MQTT_RC_UNSPECIFIED; }

// A login or a right that is refused may be granted later, by whoever looks after the broker: tried again, then parked.
bool can_never(int reason) {
  switch (reason) {
    case MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION:
    case MQTT_RC_CLIENTID_NOT_VALID:
    case MQTT_RC_TOPIC_NAME_INVALID:
    case MQTT_RC_PACKET_TOO_LARGE:
    case MQTT_RC_PAYLOAD_FORMAT_INVALID:
    case MQTT_RC_QOS_NOT_SUPPORTED:
    case MQTT_RC_SERVER_MOVED: return true;
    default: return false;
  }
}

bool is_unreachable(int code) {
  return code == ENETUNREACH || code == EHOSTUNREACH || code == ENETDOWN || code == EADDRNOTAVAIL;
}

std::string host_of(const Address& address) {  // without the port, as the library takes it
  const std::string text = address.text();
  const std::string host = text.substr(0, text.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

class Properties {
 public:
  ~Properties() { mosquitto_property_free_all(&list_); }
  Properties() = default;
  Properties(const Properties&) = delete;
  Properties& operator=(const Properties&) = delete;
  // False: a text that MQTT cannot carry.
  [[nodiscard]] bool fill(const MqttMessage& message) {
    int code = mosquitto_property_add_byte(&list_, MQTT_PROP_PAYLOAD_FORMAT_INDICATOR, 1);
    if (code == MOSQ_ERR_SUCCESS && !message.content_type.empty())
      code = mosquitto_property_add_string(&list_, MQTT_PROP_CONTENT_TYPE, message.content_type.c_str());
    for (const auto& [name, value] : message.properties) {
      if (code == MOSQ_ERR_SUCCESS)
        code = mosquitto_property_add_string_pair(&list_, MQTT_PROP_USER_PROPERTY, name.c_str(), value.c_str());
    }
    return code == MOSQ_ERR_SUCCESS;
  }
  [[nodiscard]] const mosquitto_property* get() const { return list_; }

 private:
  mosquitto_property* list_ = nullptr;
};

}  // namespace

MqttConnection::MqttConnection(Clock& clock, int closing, BrokerUrl broker, BrokerLogin login,
                               const std::string& client_id)
    : clock_(clock),
      closing_(closing),
      broker_(std::move(broker)),
      login_(std::move(login)),
      context_(nullptr, SSL_CTX_free),
      client_(nullptr, mosquitto_destroy) {
  [[maybe_unused]] static const int begun = mosquitto_lib_init();
  client_.reset(mosquitto_new(client_id.empty() ? nullptr : client_id.c_str(), true, &heard_));
  if (client_ == nullptr) throw std::runtime_error(std::string("MQTT: ") + std::strerror(errno));
  heard_.url = &broker_.url;
  mosquitto_int_option(client_.get(), MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
  mosquitto_int_option(client_.get(), MOSQ_OPT_TCP_NODELAY, 1);
  mosquitto_connect_v5_callback_set(client_.get(), on_connect);
  mosquitto_publish_v5_callback_set(client_.get(), on_publish);
  mosquitto_disconnect_v5_callback_set(client_.get(), on_disconnect);
}

MqttConnection::~MqttConnection() {
  if (heard_.connack == MQTT_RC_SUCCESS) mosquitto_disconnect_v5(client_.get(), MQTT_RC_NORMAL_DISCONNECTION, nullptr);
}

bool MqttConnection::fail(Trouble trouble, const std::string& why) {
  trouble_ = trouble;
  error_ = broker_.name + ": " + why;
  return false;
}

bool MqttConnection::refused(int reason, const std::string& what) {
  reason_ = reason;
  return fail(can_never(reason) ? Trouble::never : Trouble::failed,
              what + ": " + mosquitto_reason_string(reason) + " (" + std::to_string(reason) + ")");
}

// What the library says of a connection that it has given up.
bool MqttConnection::lost(int code) {
  if (!heard_.certificate.empty()) return fail(Trouble::failed, "TLS: " + heard_.certificate);
  if (heard_.gone && is_refusal(*heard_.gone)) return refused(*heard_.gone, "the broker hung up");
  if (code == MOSQ_ERR_TLS) return fail(Trouble::failed, "TLS: the broker did not come to terms");
  if (code == MOSQ_ERR_ERRNO && errno != 0) return fail(Trouble::failed, std::strerror(errno));
  return fail(Trouble::failed, std::string("the connection was lost: ") + mosquitto_strerror(code));
}

std::optional<short> MqttConnection::wait(int fd, short events, BootMs deadline) {
  for (;;) {
    const BootMs left = deadline - clock_.boot_ms();
    if (left <= 0) {
      fail(Trouble::late, "no answer in time");
      return std::nullopt;
    }
    pollfd fds[] = {{fd, events, 0}, {closing_, POLLIN, 0}};
    const int ready = ::poll(fds, 2, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) {
      fail(Trouble::failed, std::strerror(errno));
      return std::nullopt;
    }
    if (ready <= 0) continue;
    if (fds[1].revents != 0) {
      fail(Trouble::closing, "the agent closes");
      return std::nullopt;
    }
    if (fds[0].revents != 0) return fds[0].revents;
  }
}

bool MqttConnection::set_up_tls() {
  context_ = make_tls_context(login_.ca_file);
  SSL_CTX* context = context_.get();
  SSL_CTX_set_app_data(context, &heard_);
  SSL_CTX_set_info_callback(context, on_handshake);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, on_certificate);
  expect_host(SSL_CTX_get0_param(context), broker_.url);
  if (!login_.cert_file.empty() &&
      (SSL_CTX_use_certificate_chain_file(context, login_.cert_file.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context, login_.key_file.c_str(), SSL_FILETYPE_PEM) != 1))
    return fail(Trouble::failed,
                "our certificate (cert_file, key_file) cannot be read, or they do not belong together");
  // Without the library's defaults: they would compare the certificate with the address.
  mosquitto_int_option(client_.get(), MOSQ_OPT_SSL_CTX_WITH_DEFAULTS, 0);
  if (mosquitto_void_option(client_.get(), MOSQ_OPT_SSL_CTX, context) != MOSQ_ERR_SUCCESS)
    return fail(Trouble::failed, "TLS could not be set up");
  return true;
}

bool MqttConnection::connect(const Address& address, BootMs until) {
  const auto failed = [&](int code) {
    return fail(is_unreachable(code) ? Trouble::unreachable : Trouble::failed,
                address.text() + ": " + std::strerror(code));
  };
  if (broker_.url.tls && !set_up_tls()) return false;
  const bool named = !login_.user.empty() || !login_.password.empty();
  if (named && mosquitto_username_pw_set(client_.get(), login_.user.c_str(),
                                         login_.password.empty() ? nullptr : login_.password.c_str()) != 0)
    return fail(Trouble::never, "its login cannot be sent: user and password are UTF-8 of 65535 bytes at most");
  errno = 0;
  const int code =
      mosquitto_connect_async(client_.get(), host_of(address).c_str(), broker_.url.port, kKeepAliveSeconds);
  if (code == MOSQ_ERR_ERRNO && errno != 0) return failed(errno);
  if (code != MOSQ_ERR_SUCCESS) return lost(code);
  const int fd = mosquitto_socket(client_.get());
  if (fd < 0) return lost(MOSQ_ERR_CONN_LOST);
  if (!wait(fd, POLLOUT, until)) return false;
  int refusal = 0;
  socklen_t length = sizeof refusal;
  (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &refusal, &length);
  if (refusal != 0) return failed(refusal);
  return check_peer(address);
}

// Who is there is whom we checked [O6]. Nobody is there: refused, and the library has taken the reason.
bool MqttConnection::check_peer(const Address& address) {
  Address peer;
  peer.length = sizeof peer.storage;
  if (::getpeername(mosquitto_socket(client_.get()), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0)
    return fail(Trouble::failed, address.text() + ": " + std::strerror(ECONNREFUSED));
  if (same_address(peer, address)) return true;
  return fail(Trouble::failed, "the peer of the connection is not " + address.text());
}

// Reads and writes until it is there.
bool MqttConnection::hear(const std::optional<int>& awaited, BootMs deadline) {
  while (!awaited) {
    const int fd = mosquitto_socket(client_.get());
    if (fd < 0) return lost(MOSQ_ERR_CONN_LOST);
    const bool writes = mosquitto_want_write(client_.get());
    const auto seen = wait(fd, static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), deadline);
    if (!seen) return false;
    errno = 0;
    int code = MOSQ_ERR_SUCCESS;
    if ((*seen & ~POLLOUT) != 0) code = mosquitto_loop_read(client_.get(), 1);
    if (code == MOSQ_ERR_SUCCESS && !awaited && (*seen & POLLOUT) != 0) code = mosquitto_loop_write(client_.get(), 1);
    if (awaited) break;
    if (code != MOSQ_ERR_SUCCESS) return lost(code);
  }
  return true;
}

bool MqttConnection::log_in(BootMs deadline) {
  if (!hear(heard_.connack, deadline)) return false;
  if (*heard_.connack == MQTT_RC_SUCCESS) return true;
  return refused(*heard_.connack, "the broker refused the login");
}

bool MqttConnection::publish(const MqttMessage& message, BootMs deadline) {
  trouble_ = Trouble::none;
  Properties properties;
  if (!properties.fill(message)) return fail(Trouble::never, "the message has a property that is no UTF-8");
  heard_.puback.reset();
  heard_.message = 0;
  errno = 0;
  const int code =
      mosquitto_publish_v5(client_.get(), &heard_.message, message.topic.c_str(), static_cast<int>(message.body.size()),
                           message.body.data(), 1, false, properties.get());
  switch (code) {
    case MOSQ_ERR_SUCCESS: break;
    case MOSQ_ERR_OVERSIZE_PACKET:
    case MOSQ_ERR_PAYLOAD_SIZE: return fail(Trouble::never, "the message is larger than the broker takes");
    case MOSQ_ERR_QOS_NOT_SUPPORTED: return fail(Trouble::never, "the broker does not acknowledge messages (QoS 1)");
    case MOSQ_ERR_INVAL:
    case MOSQ_ERR_MALFORMED_UTF8: return fail(Trouble::never, "the topic is none");
    default: return lost(code);
  }
  if (!hear(heard_.puback, deadline)) return false;
  reason_ = *heard_.puback;
  if (!is_refusal(reason_)) return true;
  return refused(reason_, "the broker refused the message");
}

bool MqttConnection::alive() {
  const int fd = mosquitto_socket(client_.get());
  if (fd < 0 || heard_.gone || heard_.connack != MQTT_RC_SUCCESS) return false;
  pollfd now{fd, POLLIN, 0};
  if (::poll(&now, 1, 0) <= 0) return true;
  if ((now.revents & (POLLHUP | POLLERR)) != 0) return false;
  return mosquitto_loop_read(client_.get(), 1) == MOSQ_ERR_SUCCESS && !heard_.gone;
}

}  // namespace bide::work
