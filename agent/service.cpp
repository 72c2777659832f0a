#include "agent/service.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>
#include <algorithm>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "agent/base/clock.h"
#include "agent/base/descriptors.h"
#include "agent/base/hash.h"
#include "agent/base/limits.h"
#include "agent/base/log.h"
#include "agent/base/mutex.h"
#include "agent/base/process_tree.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/kernel/links.h"
#include "agent/kernel/tokens.h"
#include "agent/kernel/webhooks.h"
#include "agent/version.h"
#include "agent/work/audit_log.h"
#include "agent/work/commands.h"
#include "agent/work/deliverer.h"
#include "agent/work/delivery.h"
#include "agent/work/delivery_commands.h"
#include "agent/work/environments.h"
#include "agent/work/executor.h"
#include "agent/work/feed.h"
#include "agent/work/holders.h"
#include "agent/work/mqtt_transport.h"
#include "agent/work/program_driver.h"
#include "agent/work/program_files.h"
#include "agent/work/programs.h"
#include "agent/work/remote_tasks.h"
#include "agent/work/remotes.h"
#include "agent/work/retention.h"
#include "agent/work/secrets.h"
#include "agent/work/sweep.h"
#include "agent/work/task_pool.h"
#include "agent/work/transports.h"
#include "agent/work/workflow_check.h"
#include "db/store.h"
#include "web/attempt_token.h"
#include "web/auth.h"
#include "web/listener.h"
#include "web/routes.h"
#include "web/secrets.h"
#include "web/server.h"

namespace bide {
namespace {

namespace fs = std::filesystem;

using Hearing = std::atomic<web::Streams*>;  // null while there are none

db::StoreOptions store_options(const Config& config, work::Feed& feed, work::FreshRows& fresh, Hearing& hearing) {
  db::StoreOptions options;
  options.directory = config.data_dir;
  options.durability = config.durability;
  options.after_batch = [&feed, &hearing] {
    feed.notify();
    if (web::Streams* streams = hearing.load()) streams->notify();
  };
  options.announced = [&fresh](std::int64_t id) { fresh.push(id); };
  return options;
}

// "127.0.0.1:7433" → what no request of ours may go to.
std::optional<work::Address> own_door(const Config& config) {
  const std::size_t colon = config.listen.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = config.listen.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  return work::parse_address(host, static_cast<int>(parse_number(config.listen.substr(colon + 1)).value_or(0)));
}

work::Brokers brokers_of(const Config& config) {
  return config.mqtt_brokers.empty() ? work::Brokers() : work::Brokers::read(config.mqtt_brokers);
}

work::DelivererOptions deliverer_options(const Config& config) {
  work::DelivererOptions options;
  options.park_after = config.park_after;
  options.allow = config.allow_targets;
  options.user_agent = std::string("bide/") + kVersion;
  return options;
}

work::ExecutorOptions executor_options(const Config& config) {
  work::ExecutorOptions options;
  options.workers = config.workers;
  options.inline_sleep = config.inline_sleep;
  return options;
}

work::RetentionOptions retention_options(const Config& config) {
  work::RetentionOptions options;
  options.rules = {config.keep_runs, config.keep_runs_most, config.keep_commands, config.keep_audit};
  options.max_db_bytes = config.max_db_bytes;
  return options;
}

// What programs find as `bide`: the static front beside the agent, or, for a program with the agent in it that lies
// elsewhere, the installed one.
std::string verb_executable() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = (error ? fs::path() : self.parent_path()) / "bide";
  const fs::path installed = BIDE_INSTALLED_FRONT;
  return (fs::exists(beside, error) || !fs::exists(installed, error) ? beside : installed).string();
}

work::ProgramSettings program_settings(const Config& config) {
  work::ProgramSettings settings;
  settings.directory = config.data_dir;
  settings.socket = config.socket;
  settings.verb_executable = verb_executable();
  if (!config.path.empty()) settings.path = config.path;
  const passwd* user = ::getpwuid(::getuid());
  settings.home = user == nullptr ? "/" : user->pw_dir;
  settings.user = user == nullptr ? std::to_string(::getuid()) : user->pw_name;
  return settings;
}

work::WorkflowCheckSettings check_settings(const Config& config) {
  const work::ProgramSettings of_programs = program_settings(config);
  return {of_programs.verb_executable,
          config.data_dir,
          config.workflows_dir,
          config.socket,
          of_programs.path,
          of_programs.home};
}

web::ServerOptions server_options(const Config& config) {
  web::ServerOptions options;
  options.act_threads = std::max(limits::kActThreads, config.workers * limits::kStepsAtOnce);
  // Connections never take what attempts and the file need; and the network never takes what the socket has.
  const std::size_t all = raise_descriptor_limit();
  const std::size_t kept =
      limits::kDescriptorReserve + static_cast<std::size_t>(config.workers) * limits::kDescriptorsOfAttempt;
  const std::size_t left = std::max(all > kept ? all - kept : 0, all / 4);
  options.connections = std::min(limits::kConnections, left / 3 * 2);
  options.tcp_connections = std::min(limits::kConnections, left / 3);
  return options;
}

// Where systemd puts what LoadCredential= names.
std::string credentials_directory() {
  const char* folder = std::getenv("CREDENTIALS_DIRECTORY");
  return folder == nullptr ? "" : folder;
}

std::string page_url(const std::optional<web::Listener>& tcp) { return tcp ? "http://" + tcp->name() + "/" : ""; }

}  // namespace

struct Service::Parts {
  Parts(Config given, flow::Registry workflows, const Trial& how)
      : config(std::move(given)),
        registry(std::move(workflows)),
        trial(how),
        clock(how.clock != nullptr ? *how.clock : own_clock),
        store(store_options(config, feed, fresh, hearing), clock),
        executor(store, random, registry, executor_options(config)),
        sweep(store, executor),
        http(clock, resolver, {own_door(config), {}, work::has_network}),
        mqtt(clock, resolver, {own_door(config), brokers_of(config), [this] { return box(); }, work::has_network}),
        transport(http, mqtt),
        deliverer(store, random, transport, fresh, deliverer_options(config)),
        deliveries(store, random, deliverer, [this] { sweep.ring(); }),
        tasks(store, random, registry, executor),
        environments(store, [this] { executor.ring(); }),
        files(config.workflows_dir, clock),
        programs(store, files, config.data_dir + "/versions"),
        workflow_check(spawner, clock, check_settings(config)),
        secrets(config.data_dir, credentials_directory(), clock),
        holders(store, random, executor, config.data_dir + "/outcomes", config.socket),
        driver(store, random, spawner, holders, program_settings(config),
               [this](const kernel::VersionRow& v) { return programs.lay_out(v); }),
        commands(store, random, executor, sweep, feed, [this](const std::string& name) { return find(name); }),
        remotes(store, random, executor, feed, {config.remote_lease, limits::kAbandonMs}),
        remote_tasks(store, random, executor, feed),
        retention(store, with_needed(retention_options(config))),
        audit_log(store),
        sessions(clock, random),
        auth(::getuid()),
        streams(store, clock) {}

  std::string box() {
    return store.read([](db::ReadTx& tx) { return kernel::agent_id(tx); });
  }

  work::RetentionOptions with_needed(work::RetentionOptions options) {
    options.needed = [this](const kernel::VersionRow& version) {
      return executor.registered(version.id) || programs.found_lately(version.version) ||
             version.kind == kernel::WorkflowKind::remote;  // an app registered it, and may come any time
    };
    options.storing = [this] { return programs.storing(); };
    return options;
  }

  std::variant<work::Startable, Problem> find(const std::string& name) {
    for (auto it = registry.all().rbegin(); it != registry.all().rend(); ++it) {
      if (it->name != name) continue;
      const auto version = store.read([&](db::ReadTx& tx) { return kernel::find_version(tx, name, it->version); });
      return work::Startable{store.read([&](db::ReadTx& tx) { return kernel::read_version(tx, *version)->workflow; }),
                             *version, it->run_deadline};
    }
    auto program = programs.find(name);
    const auto* unknown = std::get_if<Problem>(&program);
    if (unknown == nullptr || unknown->code != "workflow_unknown") return program;
    if (const auto remote = remotes.find(name)) return *remote;
    return program;
  }
  void wire();
  void open_door();
  void load_tokens();

  const Config config;
  const flow::Registry registry;
  const Trial trial;
  SystemClock own_clock;
  Clock& clock;
  SystemRandom random;
  work::Feed feed;
  work::FreshRows fresh;
  Hearing hearing{nullptr};
  db::Store store;
  work::Executor executor;
  work::Sweep sweep;
  work::SystemResolver resolver;
  work::HttpTransport http;
  work::MqttTransport mqtt;
  work::Transports transport;
  work::Deliverer deliverer;
  work::DeliveryCommands deliveries;
  work::TaskPool tasks;
  work::SystemSpawner spawner;
  work::Environments environments;
  work::ProgramFiles files;
  work::Programs programs;
  work::WorkflowCheck workflow_check;
  work::Secrets secrets;
  work::Holders holders;
  work::ProgramDriver driver;
  work::Commands commands;
  work::Remotes remotes;
  work::RemoteTasks remote_tasks;
  work::Retention retention;
  work::AuditLog audit_log;
  web::Sessions sessions;
  web::Auth auth;
  Mutex tokens_mutex;
  web::Streams streams;
  web::Router router;
  std::optional<web::Ports> ports;
  std::optional<web::Server> server;  // last: its threads use all of the above
};

void Service::Parts::wire() {
  programs.set_driver(&driver);
  driver.set_rehearsal(trial.rehearsal);
  driver.set_environments(&environments);
  driver.set_secrets(&secrets);
  executor.set_program_driver(&driver);
  executor.set_find_workflow([this](const std::string& name) { return find(name); });
  executor.set_task_bell([this](StepId task) {
    tasks.offer(task);
    if (remote_tasks.pushes()) sweep.ring();
  });
  remote_tasks.learn();
  deliverer.set_task_answered([this](db::Tx& tx, DeliveryId id, int status, const std::string& body) {
    remote_tasks.answered(tx, id, status, body);
  });
  remote_tasks.set_secret_in([this](std::string_view result) { return web::secret_in_result(&secrets, result); });
  sweep.add("undispatched", [this](TimeMs now) { return remote_tasks.push(now); });
  sweep.add_look([this](TimeMs now) { return remote_tasks.look(now); });
  tasks.set_alive_elsewhere([this](StepId task) { return remote_tasks.alive(task); });
  sweep.add("tasks", [this](TimeMs now) { return tasks.sweep_leases(now); });
  sweep.add("undispatched", [this](TimeMs now) { return tasks.sweep_undispatched(now); });
  executor.set_due_bell([this] { sweep.ring(); });
  executor.set_overdue_bell([this](BootMs at) { sweep.look_at(at); });
  executor.set_elsewhere(
      {[this](RunId run) { remotes.ring(run); }, [this](RunId run) { remotes.told(run); }, [this] { remotes.due(); }});
  sweep.set_lease_lives([this](RunId run, std::int64_t epoch) { return remotes.lease_lives(run, epoch); });
  sweep.add("orphans", [this](TimeMs now) { return remotes.sweep(now); });
  sweep.add_look([this](TimeMs now) { return remotes.look(now); });
  remotes.set_lease_bell([this] { sweep.recheck(); });
  executor.register_workflows();
  holders.tidy();
  driver.set_stopped_bell([this] { executor.ring(); });
  driver.set_left_bell([this] { sweep.ring(); });
  deliverer.set_due_bell([this] { sweep.recheck(); });
  if (trial.rehearsal == nullptr) {
    sweep.add("outbox", [this](TimeMs now) { return deliverer.sweep(now); });
    sweep.add_look([this](TimeMs now) { return deliverer.look(now); });
  }
  sweep.add("processes", [this](TimeMs now) { return driver.sweep_processes(now); });
  (void)programs.learn_limits();
  sweep.add("hooks", [this](TimeMs) -> std::int64_t {
    if (!programs.learn_limits()) return 0;
    executor.ring();
    return 1;
  });
  for (const auto& hook : registry.hooks()) sweep.add("hooks", hook);  // W10: each on its own
  sweep.add_look([this](TimeMs) { return driver.look_again(); });
  sweep.add("environments", [this](TimeMs now) { return environments.sweep(now); });
  sweep.add_look([this](TimeMs now) { return environments.look(now); });
  sweep.add("hooks", [this](TimeMs) { return audit_log.pass(); });
  sweep.add_look([this](TimeMs) { return audit_log.look(); });
  sweep.add("retention", [this](TimeMs now) { return retention.pass(now); });
  sweep.add_look([this](TimeMs now) { return retention.look(now); });
  commands.set_deleted_bell([this] {
    retention.ask();
    sweep.ring();
  });
}

// One at a time: whoever has read an older state of the file must not set it last.
void Service::Parts::load_tokens() {
  Lock lock(tokens_mutex);
  std::vector<web::TokenRow> rows;
  for (const auto& t : store.read([&](db::ReadTx& tx) { return kernel::valid_tokens(tx, store.now()); })) {
    rows.push_back({t.name, t.hash, web::parse_scopes(t.scopes).value_or(0), t.expires_at});
  }
  auth.set_tokens(std::move(rows));
}

void Service::Parts::open_door() {
  const std::string token = web::ensure_admin_token(config.data_dir + "/admin.token", random);
  store.write([&](db::Tx& tx) { kernel::ensure_token(tx, {"admin", sha256(token), "admin", {}}, tx.now()); });
  load_tokens();
  auth.set_sessions(&sessions);
  auth.set_time([this] { return store.now(); }, clock);
  auth.set_group_scopes(web::parse_scopes(config.group_scopes).value_or(web::kNoScope));
  auth.set_attempt_of_process([this](const ProcessKey& process) -> std::optional<web::Auth::OfAttempt> {
    const auto found = attempt_of(process, config.socket);
    if (!found) return std::nullopt;
    return web::Auth::OfAttempt{RunId(attempt_mark(found->agent, found->token).run), found->step};
  });
  auth.set_attempt_token_is_known(
      [this](const web::AttemptToken& given) { return web::attempt_token_is_known(executor, &remotes, store, given); });
  web::Listener socket = web::Listener::unix_socket(config.socket);
  std::optional<web::Listener> tcp;
  if (!config.listen.empty()) tcp.emplace(web::Listener::tcp(config.listen));
  const std::string logs = config.data_dir + "/logs/";
  ports.emplace(web::Ports{commands, clock, random, sessions, kVersion, page_url(tcp),
                           [this, logs](RunId run) {
                             std::string path = logs + std::to_string(run.value) + ".log";
                             secrets.mask_log(run, path);
                             return path;
                           },
                           [this]() -> std::string { return store.clock().held() ? "clock_held" : ""; }, &deliveries,
                           &environments, &holders, &remotes, &remote_tasks, &secrets});
  ports->streams = &streams;
  ports->credentials_changed = [this] {
    load_tokens();
    server->recheck();
  };
  ports->installed = [this] { return files.names(); };
  ports->check = [this](const std::string& name, const std::function<bool()>& gone) {
    return workflow_check.check(name, gone);
  };
  ports->relaxed = config.durability == db::Durability::relaxed;
  const std::string link_key = random.uid() + random.uid();
  store.write([&](db::Tx& tx) {
    kernel::set_page_url(tx, config.page_url.empty() ? ports->page_url : config.page_url);
    kernel::ensure_link_key(tx, link_key);
  });
  router.set_guard([this](web::Request& request) { return web::guard_secrets(secrets, request); });
  web::add_routes(router, *ports);
  server.emplace(router, auth, clock, server_options(config));
  log::info("agent.listening", {{"socket", socket.name()}, {"tcp", tcp ? tcp->name() : "off"}});
  server->listen(std::move(socket));
  if (tcp) server->listen(std::move(*tcp));
  driver.open_door();
}

Service::Service(Config config, flow::Registry registry) : Service(std::move(config), std::move(registry), Trial()) {}
Service::Service(Config config, flow::Registry registry, const Trial& trial)
    : parts_(std::make_unique<Parts>(std::move(config), std::move(registry), trial)) {}
Service::~Service() = default;

void Service::start() {
  parts_->wire();
  parts_->remotes.adopt();               // K4
  parts_->deliverer.make_untried_due();  // O2: if it fails, the door stays shut
  parts_->open_door();
  parts_->tasks.adopt();  // K4: before the first pass, which would take their leases for ended ones
  parts_->sweep.start();  // its first pass takes over what the last process left [K4, W4]
  if (parts_->trial.rehearsal == nullptr) parts_->deliverer.start();
  parts_->environments.start();
  if (!parts_->registry.tasks().empty()) parts_->tasks.start(parts_->config.workers);
  parts_->executor.start();
  parts_->server->start();
  parts_->streams.start([this] { parts_->server->ring_streams(); });
  parts_->hearing.store(&parts_->streams);
  log::info("agent.ready", {{"data", parts_->config.data_dir}, {"version", kVersion}});
}

work::Commands& Service::commands() { return parts_->commands; }

void Service::block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void Service::wait_for_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  int signal = 0;
  ::sigwait(&set, &signal);
  log::info("agent.stopping", {{"signal", signal}});
}

bool Service::stop() {
  const BootMs begin = parts_->clock.boot_ms();
  parts_->sweep.stop();
  parts_->tasks.close();
  parts_->remotes.stop();    // their leases go on under the next agent
  parts_->deliverer.stop();  // rows that are written from here on go out at the next start
  // Programs' verbs speak to us until their steps have ended: the door closes after the executor.
  bool ended = parts_->executor.stop();
  const DurationMs spent = parts_->clock.boot_ms() - begin;
  ended = parts_->tasks.stop(std::max<DurationMs>(1'000, limits::kShutdownGraceMs - spent)) && ended;
  parts_->environments.stop();
  parts_->feed.close();
  parts_->hearing.store(nullptr);
  parts_->streams.stop();
  parts_->server->stop();
  parts_->audit_log.say();
  parts_->store.close();
  log::info("agent.stopped", {{"clean", ended ? 1 : 0}});
  return ended;
}

}  // namespace bide
