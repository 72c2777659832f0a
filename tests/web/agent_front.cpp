#include "tests/web/agent_front.h"

#include <unistd.h>

#include <stdexcept>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/flow/context.h"
#include "tests/support/eventually.h"
#include "tests/web/front.h"

namespace bide::test {

AgentFront::AgentFront() : auth(::getuid()) {
  rig.add("echo", [](flow::Context& c) { return c.input(); });
  rig.add("gate", [](flow::Context& c) { return c.approval("May it go?", {.name = "go"}); });
  rig.add("ear", [](flow::Context& c) { return c.signal("news"); });
  rig.add("nap", [](flow::Context& c) {
    c.sleep(3'600'000);
    return std::string("null");
  });
  rig.restart();
  rig.executor->start();
  socket_ = folder_.str("bide.sock");
  web::Listener tcp = web::Listener::tcp("127.0.0.1:0");
  port_ = tcp.port();
  ports_ = std::make_unique<web::Ports>(
      web::Ports{*rig.commands,
                 clock_,
                 random_,
                 sessions_,
                 "0.0.0-test",
                 "http://" + tcp.name() + "/",
                 [this](RunId run) { return folder_.str(std::to_string(run.value) + ".log"); },
                 {}});
  auth.set_tokens({{"admin", sha256(kAdminToken), web::kAdmin}, {"reader", sha256("bide_READER"), web::kRead}});
  auth.set_sessions(&sessions_);
  web::add_routes(router_, *ports_);
  server_ = std::make_unique<web::Server>(router_, auth, clock_);
  server_->listen(web::Listener::unix_socket(socket_));
  server_->listen(std::move(tcp));
  server_->start();
}

AgentFront::~AgentFront() {
  rig.feed->close();
  rig.executor->stop();  // first: it closes the attempts, and with them the requests that wait for them
  server_->stop();
}

std::int64_t AgentFront::start(const std::string& workflow, const std::string& input) const {
  const HttpAnswer answer =
      ask("POST", "/v1/runs", "{\"workflow\":" + json::quote(workflow) + ",\"input\":" + input + "}");
  if (answer.status != 201) throw std::runtime_error("not started: " + answer.body);
  return json::int_member(answer.body, "id").value();
}

void AgentFront::until(std::int64_t run, const std::string& status) const {
  HttpClient asking = client();
  eventually(
      [&] {
        return json::string_member(asking.ask("GET", "/v1/runs/" + std::to_string(run)).body, "status") == status;
      },
      "run " + std::to_string(run) + " is " + status);
}

std::int64_t AgentFront::wait_of(std::int64_t run) const {
  std::int64_t wait = 0;
  HttpClient asking = client();
  eventually(
      [&] {
        const HttpAnswer page = asking.ask("GET", "/v1/waits?status=pending&run=" + std::to_string(run));
        const auto id = json::at_pointer(page.body, "/items/0/id");
        wait = id ? std::stoll(*id) : 0;
        return wait != 0;
      },
      "the run waits");
  return wait;
}

}  // namespace bide::test
