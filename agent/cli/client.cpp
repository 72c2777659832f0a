#include "agent/cli/client.h"

#include <httplib.h>

#include "agent/base/errors.h"
#include "agent/base/limits.h"

namespace bide::cli {
namespace {

bool is_url(const std::string& address) {
  return address.rfind("http://", 0) == 0 || address.rfind("https://", 0) == 0;
}

std::unique_ptr<httplib::Client> connect_later(const std::string& address) {
  std::unique_ptr<httplib::Client> client;
  if (is_url(address)) {
    const std::size_t host = address.find("//") + 2;
    const std::size_t slash = address.find('/', host);
    if (slash != std::string::npos && slash + 1 != address.size()) {
      throw ConfigFault("the agent's address is a socket's path or http://HOST:PORT, without a path: " + address);
    }
    client = std::make_unique<httplib::Client>(address.substr(0, slash));
    if (!client->is_valid()) throw ConfigFault("this is no URL: " + address);
  } else if (!address.empty() && address.front() == '/') {
    client = std::make_unique<httplib::Client>(address, 80);
    client->set_address_family(AF_UNIX);
  } else {
    throw ConfigFault("the agent's address is a socket's whole path or http://HOST:PORT, not \"" + address + "\"");
  }
  client->set_connection_timeout(std::chrono::milliseconds(limits::kClientConnectMs));
  client->set_write_timeout(std::chrono::milliseconds(limits::kClientReadMs));
  client->set_follow_location(false);
  client->set_url_encode(false);
  client->set_keep_alive(true);
  client->set_tcp_nodelay(true);
  return client;
}

}  // namespace

struct Client::Impl {
  std::unique_ptr<httplib::Client> http;
  httplib::Headers fields;  // of every request

  using Sink = std::function<bool(int status, std::string_view)>;
  // False: nobody answered.
  bool ask(httplib::Request request, DurationMs patience, Reply& reply, const Sink& sink, std::string& why) {
    http->set_read_timeout(std::chrono::milliseconds(patience));
    bool too_large = false;
    int status = 0;
    request.response_handler = [&](const httplib::Response& head) {
      status = head.status;
      return true;
    };
    request.content_receiver = [&](const char* bytes, std::size_t n, std::uint64_t, std::uint64_t) {
      if (sink && sink(status, std::string_view(bytes, n))) return true;
      too_large = reply.body.size() + n > limits::kClientAnswerBytes;
      if (!too_large) reply.body.append(bytes, n);
      return !too_large;
    };
    const httplib::Result result = http->send(request);
    if (too_large) throw std::runtime_error("the answer is too large");
    if (!result) {
      why = httplib::to_string(result.error());
      return false;
    }
    reply.status = result->status;
    reply.etag = result->get_header_value("ETag");
    return true;
  }

  Reply ask_twice(const httplib::Request& request, DurationMs patience, const Sink& sink, const std::string& address) {
    std::string why;
    bool handed_on = false;
    const Sink noting = !sink ? sink : [&](int status, std::string_view bytes) {
      const bool taken = sink(status, bytes);
      handed_on = handed_on || taken;
      return taken;
    };
    for (int tries = 0; tries < 2; ++tries) {
      Reply reply;
      if (ask(request, patience, reply, noting, why)) return reply;
      if (handed_on) throw Unreachable("the agent at " + address + " went away in the middle of its answer");
    }
    throw Unreachable("no agent answers at " + address + " (" + why + ")");
  }
};

Client::Client(std::string address, std::string token, Random& random)
    : address_(std::move(address)), random_(random), impl_(std::make_unique<Impl>()) {
  impl_->http = connect_later(address_);
  if (!is_url(address_)) impl_->fields.emplace("Host", "localhost");
  if (token.find_first_of("\r\n") != std::string::npos) throw ConfigFault("BIDE_TOKEN has more than one line");
  if (!token.empty()) impl_->fields.emplace("Authorization", "Bearer " + token);
}
Client::~Client() = default;

Reply Client::get(const std::string& path, DurationMs wait) {
  httplib::Request request;
  request.method = "GET";
  request.path = path;
  request.headers = impl_->fields;
  if (wait > 0) request.headers.emplace("Prefer", "wait=" + std::to_string((wait + 999) / 1000));
  return impl_->ask_twice(request, limits::kClientReadMs + wait, {}, address_);
}

Reply Client::post(const std::string& path, const std::string& body, const std::string& if_match) {
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.headers = impl_->fields;
  request.headers.emplace("Content-Type", "application/json");
  request.headers.emplace("Idempotency-Key", random_.uid());
  if (!if_match.empty()) request.headers.emplace("If-Match", if_match);
  request.body = body;
  return impl_->ask_twice(request, limits::kClientReadMs, {}, address_);
}

Reply Client::del(const std::string& path) {
  httplib::Request request;
  request.method = "DELETE";
  request.path = path;
  request.headers = impl_->fields;
  request.headers.emplace("Content-Type", "application/json");
  return impl_->ask_twice(request, limits::kClientReadMs, {}, address_);
}

Reply Client::get_streamed(const std::string& path, const std::function<void(std::string_view)>& sink) {
  httplib::Request request;
  request.method = "GET";
  request.path = path;
  request.headers = impl_->fields;
  const auto hand_on = [&](int status, std::string_view bytes) {
    if (status != 200) return false;
    sink(bytes);
    return true;
  };
  return impl_->ask_twice(request, limits::kClientReadMs, hand_on, address_);
}

}  // namespace bide::cli
