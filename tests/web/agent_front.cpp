#include "tests/web/agent_front.h"

#include <unistd.h>

#include <stdexcept>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/flow/context.h"
#include "agent/kernel/tokens.h"
#include "tests/support/eventually.h"
#include "tests/web/front.h"
#include "web/attempt_token.h"

namespace bide::test {

AgentFront::AgentFront(web::ServerOptions options, web::StreamBounds bounds) : auth(::getuid()) {
  rig.add("echo", [](flow::Context& c) { return c.input(); });
  rig.add("gate", [](flow::Context& c) { return c.approval("May it go?", {.name = "go"}); });
  rig.add("ear", [](flow::Context& c) { return c.signal("news"); });
  rig.add("nap", [](flow::Context& c) {
    c.sleep(3'600'000);
    return std::string("null");
  });
  rig.add("chore", [](flow::Context& c) { return c.task("shrink", c.input()); });
  rig.add_task("local", [](const std::string& request, const flow::EffectInfo&) { return request; });
  rig.after_commit = [this] {
    if (web::Streams* streams = hearing_.load()) streams->notify();
  };
  rig.deliveries.emplace();
  rig.deliveries->allow = {"127.0.0.1"};
  rig.restart();
  restart();
  deliveries_.emplace(*rig.store, random_, *rig.deliverer, [] {});
  remote_tasks_.emplace(*rig.store, random_, *rig.executor, *rig.feed);
  if (rig.tasks) rig.tasks->set_alive_elsewhere([this](StepId task) { return remote_tasks_->alive(task); });
  rig.executor->set_elsewhere({[this](RunId run) { remotes->ring(run); }, [this](RunId run) { remotes->told(run); },
                               [this] { remotes->due(); }});
  rig.sweep->set_lease_lives([this](RunId run, std::int64_t epoch) { return remotes->lease_lives(run, epoch); });
  rig.sweep->add("orphans", [this](TimeMs now) { return remotes->sweep(now); });
  rig.find_more = [this](const std::string& name) { return remotes->find(name); };
  rig.executor->start();
  socket_ = folder_.str("bide.sock");
  web::Listener tcp = web::Listener::tcp("127.0.0.1:0");
  port_ = tcp.port();
  streams_ = std::make_unique<web::Streams>(*rig.store, clock_, bounds);
  ports_ = std::make_unique<web::Ports>(
      web::Ports{*rig.commands,
                 clock_,
                 random_,
                 sessions_,
                 "0.0.0-test",
                 "http://" + tcp.name() + "/",
                 [this](RunId run) { return folder_.str(std::to_string(run.value) + ".log"); },
                 {},
                 &*deliveries_,
                 nullptr,
                 nullptr,
                 remotes.get(),
                 &*remote_tasks_});
  ports_->streams = streams_.get();
  ports_->credentials_changed = [this] {
    load_tokens();
    server_->recheck();
  };
  load_tokens();
  auth.set_sessions(&sessions_);
  auth.set_time([this] { return rig.store->now(); }, clock_);
  auth.set_attempt_token_is_known([this](const web::AttemptToken& token) {
    return web::attempt_token_is_known(*rig.executor, remotes.get(), *rig.store, token);
  });
  web::add_routes(router_, *ports_);
  server_ = std::make_unique<web::Server>(router_, auth, clock_, std::move(options));
  server_->listen(web::Listener::unix_socket(socket_));
  server_->listen(std::move(tcp));
  server_->start();
  streams_->start([this] { server_->ring_streams(); });
  hearing_.store(streams_.get());
}

void AgentFront::load_tokens() {
  std::vector<web::TokenRow> rows = {{"admin", sha256(kAdminToken), web::kAdmin, {}},
                                     {"reader", sha256("bide_READER"), web::kRead, {}}};
  for (const auto& t : rig.store->read([&](db::ReadTx& tx) { return kernel::valid_tokens(tx, rig.store->now()); })) {
    rows.push_back({t.name, t.hash, web::parse_scopes(t.scopes).value_or(0), t.expires_at});
  }
  auth.set_tokens(std::move(rows));
}

AgentFront::~AgentFront() {
  remotes->stop();
  rig.feed->close();
  rig.executor->stop();  // first: it closes the attempts, and with them the requests that wait for them
  hearing_.store(nullptr);
  streams_->stop();
  server_->stop();
  rig.store->close();  // a bell of its last batch may still speak to the streams
}

void AgentFront::restart() {
  if (remotes) remotes->stop();
  remotes = std::make_unique<work::Remotes>(*rig.store, random_, *rig.executor, *rig.feed);
  remotes->adopt();
  if (ports_) ports_->remotes = remotes.get();
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
