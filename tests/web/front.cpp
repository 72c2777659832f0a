#include "tests/web/front.h"

#include <stdexcept>

#include "agent/base/doorbell.h"
#include "agent/base/json.h"
#include "web/problem.h"

namespace bide::test {

using web::json_response;
using web::Request;
using web::Response;

Front::Front(web::ServerOptions options, const std::function<void(web::Router&)>& more)
    : auth_(::getuid()), server_(router_, auth_, clock_, std::move(options)) {
  auth_.set_tokens({{"admin", sha256(kAdminToken), web::kAdmin}, {"reader", sha256("bide_READER"), web::kRead}});
  add_routes();
  if (more) more(router_);
  web::Listener tcp = web::Listener::tcp("127.0.0.1:0");
  port_ = tcp.port();
  server_.listen(web::Listener::unix_socket(socket()));
  server_.listen(std::move(tcp));
  server_.start();
}

Front::~Front() { server_.stop(); }

void Front::add_routes() {
  router_.post("/v1/runs", web::kStart, [this](Request& request) {
    ++runs_;
    return json_response(201, request.body);
  });
  router_.get("/v1/waits", web::kRead, [](Request&) { return json_response(200, "{\"items\":[],\"next\":null}"); });
  router_.get("/v1/runs/{id}", web::kRead, [](Request& request) {
    return json_response(200, "{\"id\":" + json::quote(request.capture("id")) + "}");
  });
  router_.get("/seen", web::kNoScope, [](Request& request) {
    const std::string* value = request.field("x-echo");
    const std::string* authorization = request.field("authorization");
    json::Writer out;
    out.begin_object().member("echo", value ? *value : "").member("authorization", authorization ? *authorization : "");
    out.member("name", request.principal.name).member("attempt", request.principal.is_attempt()).end_object();
    return json_response(200, out.take());
  });
  router_.open("/throws", [](Request&) -> Response { throw std::runtime_error("secret text"); });
  router_.open("/big", [](Request&) { return json_response(200, "\"" + std::string(8 << 20, 'x') + "\""); });
  router_.open(
      "/healthz", [](Request&) { return json_response(200, "{}"); }, web::Lane::health);
  router_.open("/errors/{code}", web::problem_page);
  router_.open("/parked", [](Request&) { return web::stay_open(); });
  router_.open("/gone", [](Request&) { return web::hang_up(); });
  router_.open(
      "/hold",
      [this](Request& request) {
        Doorbell bell;
        const std::stop_callback ring(request.stop, [&bell] { bell.ring(); });
        ++holding_;
        while (!request.stop.stop_requested()) bell.wait();
        --holding_;
        return json_response(200, "{}");
      },
      web::Lane::waits);
}

}  // namespace bide::test
