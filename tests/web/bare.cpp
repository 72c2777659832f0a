#include "tests/web/bare.h"

#include <httplib.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "agent/base/json.h"

namespace bide::test {

struct Bare::Impl {
  httplib::Server server;
  std::atomic<int> runs{0};
  int port = 0;
  std::thread thread;
};

Bare::Bare() : impl_(std::make_unique<Impl>()) {
  httplib::Server& server = impl_->server;
  server.set_payload_max_length(1 << 20);
  server.set_read_timeout(0, 300'000);
  server.Post("/v1/runs", [this](const httplib::Request& request, httplib::Response& response) {
    ++impl_->runs;
    response.status = 201;
    response.set_content(request.body, "application/json");
  });
  server.Get("/v1/waits", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("{\"items\":[],\"next\":null}" + std::string(4096, ' '), "application/json");
  });
  server.Get("/seen", [](const httplib::Request& request, httplib::Response& response) {
    json::Writer out;
    out.begin_object().member("echo", request.get_header_value("X-Echo"));
    out.member("authorization", request.get_header_value("Authorization"));
    out.member("remote", request.get_header_value("REMOTE_ADDR")).end_object();
    response.set_content(out.take(), "application/json");
  });
  server.Get("/throws", [](const httplib::Request&, httplib::Response&) { throw std::runtime_error("secret text"); });
  impl_->port = server.bind_to_any_port("127.0.0.1");
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::yield();
}

Bare::~Bare() {
  if (impl_->thread.joinable()) stop();
}

void Bare::stop() {
  impl_->server.stop();
  impl_->thread.join();
}

int Bare::port() const { return impl_->port; }
int Bare::runs() const { return impl_->runs.load(); }

bool Bare::shares_its_port() const {
  httplib::Server second;
  return second.bind_to_port("127.0.0.1", impl_->port);
}

}  // namespace bide::test
