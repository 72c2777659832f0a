// The MQTT transport against Debian's mosquitto on loopback, and the URLs and files that say where and who [O3, O4,
// O6].
#include <catch2/catch.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "agent/base/errors.h"
#include "agent/base/fd.h"
#include "agent/kernel/outbox.h"
#include "tests/support/eventually.h"
#include "tests/support/mqtt.h"
#include "tests/support/sink.h"
#include "tests/work/mqtt_box.h"

namespace bide {
namespace {

using namespace std::chrono_literals;
using test::Broker;
using test::eventually;
using test::MqttPost;
using test::Sink;
using test::Subscriber;
using work::Answered;
using Kind = Answered::Kind;
using Message = Subscriber::Message;

std::string wrong_with(const std::string& url) {
  const auto parsed = work::parse_broker_url(url);
  const auto* wrong = std::get_if<std::string>(&parsed);
  return wrong == nullptr ? "" : *wrong;
}

TEST_CASE("[O6] a broker's URL is read strictly, and no reason that it is refused for holds its password") {
  const auto good =
      std::get<work::BrokerUrl>(work::parse_broker_url("MQTTS://box%2017@Broker.Example/fleet/a%20b/%3F"));
  CHECK(good.url.tls);
  CHECK(good.url.host == "broker.example");
  CHECK(good.url.port == 8883);
  CHECK(good.user == "box 17");
  CHECK(good.topic == "fleet/a b/?");
  CHECK(good.name == "mqtts://broker.example");
  const auto plain = std::get<work::BrokerUrl>(work::parse_broker_url("mqtt://[::1]:1884//x"));
  CHECK(plain.url.port == 1884);
  CHECK(plain.topic == "/x");
  CHECK(plain.name == "mqtt://[::1]:1884");
  const std::vector<std::string> refused = {"mqtt://h",
                                            "mqtt://h/",
                                            "mqtt://h/a/+",
                                            "mqtt://h/a/%23",
                                            "mqtt://h/a#",
                                            "mqtt://h/a?b=c",
                                            "mqtt://h/%zz",
                                            "mqtt://h/%00",
                                            "mqtt://h/%ff",
                                            "mqtt://h/a%0Ab",
                                            "mqtt://h/a b",
                                            "mqtt://:1883/a",
                                            "mqtt://h:0/a",
                                            "mqtt://h:70000/a",
                                            "mqtt://127.1/a",
                                            "mqtt://0x7f.1/a",
                                            "mqtt://@h/a",
                                            "mqtt://a@@h/a",
                                            "mqtt://%00@h/a",
                                            "mqtt:h/a",
                                            "http://h/a",
                                            "ws://h/a",
                                            "mqtt://h/" + std::string(70'000, 'a'),
                                            "mqtt://u:secret@h/a",
                                            "mqtt://u:secret@h",
                                            "mqtts://:secret@h/a",
                                            "mqtt://u:secret@/a"};
  for (const std::string& url : refused) {
    INFO(url.substr(0, 60));
    CHECK(!wrong_with(url).empty());
    CHECK(wrong_with(url).find("secret") == std::string::npos);
  }
  CHECK(kernel::lane_of("mqtts://token@Broker.Example:8883/fleet/a") == "mqtts://broker.example:8883");
}

TEST_CASE("[O6] the file of brokers: a login is for its own broker and scheme, and what is wrong has its line") {
  const std::string file =
      "[\"mqtts://broker.example\"]\nuser = \"box\"\nca_file = \"/ca.pem\"\n"
      "[\"mqtt://broker.example:1884\"]\n[\"mqtts://ann@broker.example:8883\"]\n";
  const auto brokers = work::Brokers::parse(file, "b.toml");
  const auto login = [&](const std::string& url) {
    return brokers.login_of(std::get<work::BrokerUrl>(work::parse_broker_url(url)));
  };
  CHECK(login("mqtts://broker.example/t").user == "box");
  CHECK(login("mqtts://Broker.example:8883/t").ca_file == "/ca.pem");
  CHECK(login("mqtt://broker.example/t").user.empty());  // the password does not go out in the clear
  CHECK(login("mqtt://broker.example:8883/t").user.empty());
  CHECK(login("mqtts://broker.example:8884/t").user.empty());
  CHECK(login("mqtts://bob@broker.example/t").ca_file.empty());
  CHECK(login("mqtts://bob@broker.example/t").user == "bob");
  CHECK(login("mqtts://ann@broker.example/t").user == "ann");
  const test::TempDir dir;
  test::write_file(dir / "open", "long-password\n");
  ::chmod(dir.str("open").c_str(), 0644);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"x = 1", "b.toml:1: a table's name is a broker's URL"},
      {"[\"https://h\"]", "b.toml:1: a table's name is a broker's URL"},
      {"[\"mqtt://h/topic\"]", "b.toml:1: a table's name is a broker's URL without a topic"},
      {"[\"mqtt://u:secret@h\"]", "the URL holds a password"},
      {"[\"mqtt://h\"]\npasword = \"a\"", "b.toml:2: there is no key \"pasword\"; did you mean password?"},
      {"[\"mqtt://h\"]\nuser = 7", "b.toml:2: user is a text in quotes"},
      {"[\"mqtt://h\"]\nca_file = \"/ca\"", "b.toml:2: ca_file is for a broker of mqtts://"},
      {"[\"mqtts://h\"]\nca_file = \"ca\"", "b.toml:2: ca_file is a whole path"},
      {"[\"mqtts://h\"]\ncert_file = \"/c\"", "b.toml:1: cert_file and key_file belong together"},
      {"[\"mqtt://h\"]\n[\"mqtt://H:1883\"]", "this broker stands there twice"},
      {"[\"mqtt://h\"]\npassword_file = \"" + dir.str("open") + "\"", "is open to others: chmod 600"},
      {"[\"mqtt://h\"]\npassword_file = \"" + dir.str("none") + "\"", "cannot be read"},
      {"[\"mqtt://h\"", "b.toml:1: "}};
  for (const auto& [text, said] : wrong) {
    INFO(text);
    std::string got;
    try {
      (void)work::Brokers::parse(text, "b.toml");
    } catch (const ConfigFault& fault) {
      got = fault.what();
    }
    CHECK(got.find(said) != std::string::npos);
    CHECK(got.find("secret") == std::string::npos);
  }
  test::write_file(dir / "b.toml", "[\"mqtt://h\"]\npassword = \"long-password\"\n");
  ::chmod(dir.str("b.toml").c_str(), 0604);
  CHECK_THROWS_WITH(work::Brokers::read(dir.str("b.toml")), Catch::Contains("is open to others: chmod 600"));
  ::chmod(dir.str("b.toml").c_str(), 0640);
  CHECK_NOTHROW(work::Brokers::read(dir.str("b.toml")));
}

TEST_CASE("[O3] a message arrives byte for byte, under its key, with QoS 1, on the topic of its URL") {
  const Broker broker;
  const Subscriber subscriber(broker, "#");
  MqttPost post;
  const auto answer = post(broker.url("fleet/box%2017/events"), "key-1");
  CHECK(answer.error.empty());
  CHECK(answer.kind == Kind::accepted);
  CHECK(answer.delivered());
  post.body = std::string(1 << 20, 'x');
  CHECK(post(broker.url("large"), "key-2").delivered());
  eventually([&] { return subscriber.count() == 2; }, "both are there");
  const Message first = subscriber.messages()[0];
  CHECK(first.topic == "fleet/box 17/events");
  CHECK(first.body == R"({"a": [1, 2.50, "ü"]})");
  CHECK(first.qos == 1);
  CHECK(first.content_type == "application/json");
  CHECK(first.property("Idempotency-Key") == "key-1");
  CHECK(first.property("webhook-id") == "key-1");
  CHECK(first.property("User-Agent") == "bide/test");
  CHECK(first.properties.count("Content-Type") == 0);
  CHECK(first.properties.count("Idempotency-Key") == 1);
  const Message second = subscriber.messages()[1];
  CHECK(second.body == post.body);
  CHECK(second.property("Idempotency-Key") == "key-2");
}

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST_CASE("[O4] the rows of a lane share a connection until they rest, and a broker that came back is met anew") {
  Broker broker;
  const Subscriber subscriber(broker, "#");
  MqttPost post;
  const auto connected = [&] { return broker.lines("New client connected") - 1; };  // without the subscriber
  const auto threads = entries("/proc/self/task");
  const auto descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 20; ++i) REQUIRE(post(broker.url("t"), "a" + std::to_string(i)).delivered());
  CHECK(connected() == 1);
  CHECK(entries("/proc/self/task") == threads);  // the library has none
  CHECK(entries("/proc/self/fd") > descriptors);
  post.transport.rest(kernel::lane_of(broker.url("t")));
  eventually([&] { return broker.lines(" disconnected.") == 1; }, "the connection is ended in order");
  CHECK(entries("/proc/self/fd") == descriptors);
  REQUIRE(post(broker.url("t"), "b").delivered());
  CHECK(connected() == 2);
  broker.stop();
  const auto away = post(broker.url("t"), "c", {"127.0.0.1"}, 2'000);
  CHECK(away.kind == Kind::failed);
  CHECK(away.error.starts_with("mqtt://" + broker.address() + ": "));
  broker.start();
  CHECK(post(broker.url("t"), "c").delivered());
  eventually([&] { return subscriber.count() >= 22; }, "all are there", 60s);
  // A connection that one row opened is closed to another that may not go there.
  const auto refused = post(broker.url("t"), "d", {});
  CHECK(refused.kind == Kind::never);
}

// Takes connections, one after the other, and does something else than a broker.
class Rude {
 public:
  enum class Act { hang, hang_up, hang_up_later, talk };
  explicit Rude(Act act) : act_(act), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
    REQUIRE(::listen(fd_.get(), 16) == 0);
    port = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ~Rude() { ::shutdown(fd_.get(), SHUT_RDWR); }
  int port = 0;

 private:
  void serve() const {
    std::vector<Fd> open;
    for (;;) {
      Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) return;
      char bytes[512];
      if (act_ == Act::hang_up_later || act_ == Act::talk) (void)!::recv(fd.get(), bytes, sizeof bytes, 0);
      const std::string said = "HTTP/1.1 400 Bad Request\r\n\r\n";
      if (act_ == Act::talk) (void)!::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL);
      if (act_ == Act::hang) open.push_back(std::move(fd));
    }
  }
  const Act act_;
  const Fd fd_;
  std::jthread thread_;
};

TEST_CASE("[O4] a broker that hangs, hangs up or talks something else is a failure within the deadline") {
  std::signal(SIGPIPE, SIG_IGN);
  MqttPost post;
  for (const std::string scheme : {"mqtt", "mqtts"}) {
    for (const auto act : {Rude::Act::hang, Rude::Act::hang_up, Rude::Act::hang_up_later, Rude::Act::talk}) {
      INFO(scheme << " " << static_cast<int>(act));
      const Rude rude(act);
      const BootMs began = post.clock.boot_ms();
      const bool hangs = act == Rude::Act::hang;
      const DurationMs deadline = hangs ? 500 : 30'000;
      const auto answer =
          post(scheme + "://127.0.0.1:" + std::to_string(rude.port) + "/t", "k", {"127.0.0.1"}, deadline);
      CHECK(post.clock.boot_ms() - began < 5'000 * test::kSlower);
      CHECK(answer.kind == Kind::failed);
      CHECK((answer.error.find("no answer in time") != std::string::npos) == hangs);
    }
  }
  const auto gone = post("mqtts://127.0.0.1:" + std::to_string(test::free_port()) + "/t", "k");
  CHECK(gone.kind == Kind::failed);
  CHECK(gone.error.find("refused") != std::string::npos);
}

TEST_CASE("[O4] closing cuts a message that is under way, and what is sent later") {
  Sink sink([](const Sink::Request&, int) { return Sink::act(Sink::Reply::Act::hang); });
  MqttPost post;
  Answered answer;
  const std::string url = "mqtt://" + sink.address() + "/t";
  std::jthread sender([&] { answer = post(url, "k", {"127.0.0.1"}, 60'000); });
  eventually([&] { return sink.connections() == 1; }, "the connection is there");
  post.transport.close();
  sender.join();
  CHECK(answer.kind == Kind::interrupted);
  CHECK(post(url, "k").kind == Kind::interrupted);
}

TEST_CASE("[O6] an address that is not allowed is refused, and nobody there hears of it") {
  Sink canary;
  MqttPost post;
  const std::string port = std::to_string(canary.port());
  post.resolver.names = {{"localhost", {"127.0.0.1"}},
                         {"two.example", {"93.184.216.34", "127.0.0.1"}},
                         {"mapped.example", {"::ffff:127.0.0.1"}},
                         {"inside.example", {"10.0.0.7"}}};
  for (const std::string host : {"127.0.0.1", "localhost", "two.example", "mapped.example", "inside.example", "[::1]",
                                 "[::ffff:127.0.0.1]", "0.0.0.0", "127.1", "2130706433"}) {
    for (const std::string scheme : {"mqtt://", "mqtts://", "mqtt://user@"}) {
      INFO(scheme << host);
      CHECK(post(scheme + host + ":" + port + "/t", "k", {"127.0.0.1:1"}).kind == Kind::never);
    }
  }
  CHECK(canary.connections() == 0);
  MqttPost at_home({}, work::parse_address("127.0.0.1", canary.port()));
  const auto own = at_home("mqtt://127.0.0.1:" + port + "/t", "k");
  CHECK(own.kind == Kind::never);
  CHECK(own.error.find("own door") != std::string::npos);
  CHECK(canary.connections() == 0);
  (void)post("mqtt://localhost:" + port + "/t", "k", {canary.address()}, 300);
  CHECK(canary.connections() == 1);
}

// -- Logins.

struct Guarded {
  Guarded() {
    test::write_file(dir / "passwords", "ann:good-password\n");
    const auto made = test::run({.argv = {"mosquitto_passwd", "-U", dir.str("passwords")}});
    REQUIRE(made.exit.code == 0);
    test::write_file(dir / "rights", "user ann\ntopic readwrite fleet/#\n");
  }
  std::vector<std::string> config() const {
    return {"allow_anonymous false", "password_file " + dir.str("passwords"), "acl_file " + dir.str("rights")};
  }
  test::TempDir dir;
};

TEST_CASE("[O6] a refused login names the broker and no password, and the right one gets in") {
  const Guarded guarded;
  const Broker broker(guarded.config());
  const std::string name = "mqtt://" + broker.address();
  const auto file = [&](const std::string& more) { return "[\"" + name + "\"]\n" + more; };
  MqttPost nobody;
  const auto none = nobody(broker.url("fleet/t"), "k");
  CHECK(none.kind == Kind::failed);
  CHECK(none.error == name + ": the broker refused the login: Not authorized (135)");
  CHECK(none.status == 135);
  test::write_file(guarded.dir / "secret", "bad-password\n");
  ::chmod(guarded.dir.str("secret").c_str(), 0600);
  MqttPost wrong(file("user = \"ann\"\npassword_file = \"" + guarded.dir.str("secret") + "\"\n"));
  const auto bad = wrong(broker.url("fleet/t"), "k");
  CHECK(bad.kind == Kind::failed);
  CHECK(bad.error == name + ": the broker refused the login: Not authorized (135)");
  test::write_file(guarded.dir / "secret", "good-password\n");
  ::chmod(guarded.dir.str("secret").c_str(), 0600);
  const Subscriber subscriber(broker, "fleet/#", "ann", "good-password");
  MqttPost right(file("user = \"ann\"\npassword_file = \"" + guarded.dir.str("secret") + "\"\n"));
  CHECK(right(broker.url("fleet/t"), "k1").delivered());
  eventually([&] { return subscriber.count() == 1; }, "it is there");
  const auto elsewhere = right(broker.url("other/t"), "k2");
  CHECK(elsewhere.kind == Kind::failed);
  CHECK(elsewhere.error == name + ": the broker refused the message: Not authorized (135)");
  CHECK(elsewhere.status == 135);
  // The login is for whom the table names: another user of the same broker comes without it.
  CHECK(right(broker.url("fleet/t", "bob"), "k3").error.find("Not authorized") != std::string::npos);
  CHECK(subscriber.count() == 1);
}

TEST_CASE("[O6] TLS: the name of the URL is verified, whatever its address, and the broker may ask who we are") {
  std::signal(SIGPIPE, SIG_IGN);
  const test::TempDir dir;
  const test::Authority authority(dir);
  authority.sign("broker", "DNS:broker.example");
  authority.sign("box", "DNS:box.example");
  const test::TempDir other_dir;
  const test::Authority other(other_dir);
  const std::vector<std::string> tls = {"allow_anonymous true", "cafile " + authority.file("ca.pem"),
                                        "certfile " + authority.file("broker.pem"),
                                        "keyfile " + authority.file("broker.key")};
  const Broker broker(tls);
  const std::string port = std::to_string(broker.port());
  const auto tried = [](const Broker& at, const std::string& host, const std::string& more) {
    const std::string url = "mqtts://" + host + ":" + std::to_string(at.port());
    MqttPost post("[\"" + url + "\"]\n" + more);
    post.resolver.names = {{"broker.example", {"127.0.0.1"}}, {"other.example", {"127.0.0.1"}}};
    return post(url + "/t", "k");
  };
  const std::string trusted = "ca_file = \"" + authority.file("ca.pem") + "\"\n";
  const auto good = tried(broker, "broker.example", trusted);
  CHECK(good.error.empty());
  CHECK(good.delivered());
  CHECK(tried(broker, "other.example", trusted).error == "mqtts://other.example:" + port + ": TLS: hostname mismatch");
  CHECK(tried(broker, "127.0.0.1", trusted).error == "mqtts://127.0.0.1:" + port + ": TLS: IP address mismatch");
  CHECK(tried(broker, "broker.example", "").error.find("TLS: ") != std::string::npos);
  CHECK(tried(broker, "broker.example", "ca_file = \"" + other.file("ca.pem") + "\"\n").error.find("TLS: ") !=
        std::string::npos);
  CHECK(tried(broker, "broker.example", "ca_file = \"/nowhere.pem\"\n").error.find("/nowhere.pem") !=
        std::string::npos);
  CHECK(broker.lines("New client connected") == 1);

  std::vector<std::string> asking = tls;
  asking.emplace_back("require_certificate true");
  const Broker strict(asking);
  CHECK(tried(strict, "broker.example", trusted).kind == Kind::failed);
  const std::string known =
      trusted + "cert_file = \"" + authority.file("box.pem") + "\"\nkey_file = \"" + authority.file("box.key") + "\"\n";
  const auto shown = tried(strict, "broker.example", known);
  CHECK(shown.error.empty());
  CHECK(shown.delivered());
  CHECK(strict.lines("New client connected") == 1);
}

TEST_CASE("[O6] TLS: the broker is asked for by the name of the URL") {
  const test::TempDir dir;
  const test::Authority authority(dir);
  authority.sign("broker", "DNS:broker.example");
  const int port = test::free_port();
  // It ends with its standard input.
  const std::string serve = "tail -f /dev/null | openssl s_server -accept 127.0.0.1:" + std::to_string(port) +
                            " -cert broker.pem -key broker.key -servername broker.example -cert2 broker.pem -key2 "
                            "broker.key";
  test::Process server({.argv = {"sh", "-c", serve}, .cwd = dir.str(), .own_group = true});
  eventually([&] { return server.out().find("ACCEPT") != std::string::npos; }, "the server listens", 60s);
  const std::string url = "mqtts://broker.example:" + std::to_string(port);
  MqttPost post("[\"" + url + "\"]\nca_file = \"" + authority.file("ca.pem") + "\"\n");
  post.resolver.names = {{"broker.example", {"127.0.0.1"}}};
  CHECK(post(url + "/t", "k", {"127.0.0.1"}, 2'000).kind == Kind::failed);
  eventually([&] { return server.out().find("Hostname in TLS extension: \"broker.example\"") != std::string::npos; },
             "the name was asked for");
}

}  // namespace
}  // namespace bide
