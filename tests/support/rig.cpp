#include "tests/support/rig.h"

#include <sqlite3.h>

#include <stdexcept>

namespace bide::test {

Rig::Rig(Mode mode, work::ExecutorOptions options) : mode_(mode), options_(std::move(options)) {}

Rig::~Rig() { close(); }

work::ExecutorOptions Rig::default_options() {
  work::ExecutorOptions options;
  options.workers = 8;
  options.settle_after = 0;
  options.pass_unknown = true;  // Died
  return options;
}

void Rig::open() {
  db::StoreOptions store_options;
  store_options.directory = dir.str("data");
  store_options.threaded = mode_ == Mode::threaded;
  feed = std::make_unique<work::Feed>();
  store_options.after_batch = [this] {
    feed->notify();
    if (after_commit) after_commit();
  };
  fresh = std::make_unique<work::FreshRows>();
  if (deliveries) store_options.announced = [this](std::int64_t id) { fresh->push(id); };
  store_options.vfs = vfs;
  store_options.on_fatal = on_fatal;
  store = std::make_unique<db::Store>(std::move(store_options), clock);
  registry = flow::Registry();
  for (const auto& workflow : workflows_) registry.add(workflow);
  work::ExecutorOptions options = options_;
  options.owner = "local:test-" + std::to_string(++generation_);
  executor = std::make_unique<work::Executor>(*store, random, registry, options);
  executor->register_workflows();
  for (const auto& [name, function] : task_functions_) registry.add_task(name, function);
  sweep = std::make_unique<work::Sweep>(*store, *executor);
  if (deliveries) {
    deliverer = std::make_unique<work::Deliverer>(*store, random, transport, *fresh, *deliveries);
    deliverer->make_untried_due();
    sweep->add("outbox", [this](TimeMs now) { return deliverer->sweep(now); });
  }
  if (!task_functions_.empty()) {
    tasks = std::make_unique<work::TaskPool>(*store, random, registry, *executor);
    tasks->adopt();
    executor->set_task_bell([this](StepId task) { tasks->offer(task); });
    sweep->add("tasks", [this](TimeMs now) { return tasks->sweep_leases(now); });
    sweep->add("undispatched", [this](TimeMs now) { return tasks->sweep_undispatched(now); });
  }
  if (keep) {
    work::RetentionOptions keeping = *keep;
    keeping.needed = [this](const kernel::VersionRow& version) { return executor->registered(version.id); };
    retention = std::make_unique<work::Retention>(*store, std::move(keeping));
    sweep->add("retention", [this](TimeMs now) { return retention->pass(now); });
    sweep->add_look([this](TimeMs now) { return retention->look(now); });
  }
  const work::FindWorkflow find = [this](const std::string& name) -> std::variant<work::Startable, Problem> {
    for (auto it = workflows_.rbegin(); it != workflows_.rend(); ++it) {
      if (it->name != name) continue;
      return store->write([&](db::Tx& tx) {
        const WorkflowId id = kernel::ensure_workflow(tx, name);
        return work::Startable{
            id, kernel::ensure_version(tx, id, it->version, kernel::WorkflowKind::native, "{}", tx.now()),
            it->run_deadline};
      });
    }
    if (find_more) {
      if (const auto found = find_more(name)) return *found;
    }
    return problem("workflow_unknown", "no workflow " + name);
  };
  executor->set_find_workflow(find);
  commands = std::make_unique<work::Commands>(*store, random, *executor, *sweep, *feed, find);
  if (retention) commands->set_deleted_bell([this] { retention->ask(); });
}

void Rig::close() {
  if (sweep) sweep->stop();
  if (executor && executor->started()) executor->stop();
  // An answer comes before the bells of its commit: none rings for what is destroyed here.
  if (store && mode_ == Mode::threaded) store->close();
  commands.reset();
  sweep.reset();
  retention.reset();
  deliverer.reset();
  tasks.reset();
  executor.reset();
  store.reset();
}

void Rig::restart() {
  close();
  open();
}

void Rig::add(flow::NativeWorkflow workflow) {
  workflows_.push_back(std::move(workflow));
  if (store) throw std::logic_error("Rig::add after the first start: use replace() and restart()");
}

void Rig::add(const std::string& name, std::function<std::string(flow::Context&)> code, const std::string& version) {
  flow::NativeWorkflow workflow;
  workflow.name = name;
  workflow.version = version;
  workflow.run = std::move(code);
  add(std::move(workflow));
}

void Rig::replace(const std::string& name, std::function<std::string(flow::Context&)> code,
                  const std::string& version) {
  flow::NativeWorkflow workflow;
  workflow.name = name;
  workflow.version = version;
  workflow.run = std::move(code);
  replace(std::move(workflow));
}

void Rig::replace(flow::NativeWorkflow workflow) {
  remove(workflow.name);
  workflows_.push_back(std::move(workflow));
}

void Rig::add_task(const std::string& name, flow::TaskFn function) { task_functions_[name] = std::move(function); }

void Rig::remove(const std::string& name) {
  std::erase_if(workflows_, [&](const auto& w) { return w.name == name; });
}

RunId Rig::start(const std::string& workflow, const std::string& input) {
  if (!store) open();
  RunId run;
  work::StartRequest request;
  request.workflow = workflow;
  request.input = input;
  const auto answer =
      commands->start_run(request, person("starter"), std::nullopt, [&](const kernel::StartOutcome& outcome) {
        run = std::get<kernel::RunStarted>(outcome).run;
        return work::Answer{};
      });
  if (const auto* refused = std::get_if<Problem>(&answer))
    throw std::runtime_error(refused->code + ": " + refused->detail);
  return run;
}

int Rig::drive(int most) {
  int driven = 0;
  while (driven < most && executor->run_one()) ++driven;
  return driven;
}

int Rig::deliver() {
  int done = 0;
  while (deliverer->run_one()) ++done;
  return done;
}

void Rig::advance(DurationMs length) { clock.advance(length); }

kernel::RunRow Rig::run(RunId id) {
  return store->read([&](db::ReadTx& tx) { return kernel::read_run(tx, id).value(); });
}

std::vector<kernel::StepRow> Rig::journal(RunId id) {
  return store->read([&](db::ReadTx& tx) { return kernel::load_journal(tx, id); });
}

std::vector<kernel::WaitRow> Rig::waits(RunId id) {
  return store->read([&](db::ReadTx& tx) {
    kernel::WaitFilter filter;
    filter.run = id;
    filter.limit = 1000;
    return kernel::list_waits(tx, filter);
  });
}

int Rig::count_events(RunId id, const std::string& kind) {
  return store->read([&](db::ReadTx& tx) {
    db::Query q(tx, "SELECT count(*) FROM events WHERE run_id = ? AND kind = ?");
    return static_cast<int>(q.bind(id, kind).one().integer(0));
  });
}

// A shell in the same process: SQLite keeps its own books of the locks, so this is safe as long as only SQLite opens
// the file [C5].
std::int64_t Rig::number(const std::string& sql) {
  sqlite3* file = nullptr;
  const std::string uri = "file:" + dir.str("data") + "/bide.db?mode=ro";
  if (sqlite3_open_v2(uri.c_str(), &file, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr) != SQLITE_OK)
    throw std::runtime_error("open");
  sqlite3_stmt* statement = nullptr;
  std::int64_t value = 0;
  sqlite3_busy_timeout(file, 10'000);
  const int prepared = sqlite3_prepare_v2(file, sql.c_str(), -1, &statement, nullptr);
  const std::string error = sqlite3_errmsg(file);
  if (prepared == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(file);
  if (prepared != SQLITE_OK) throw std::runtime_error(error);
  return value;
}

void Rig::exec(const std::string& sql) {
  sqlite3* file = nullptr;
  if (sqlite3_open((dir.str("data") + "/bide.db").c_str(), &file) != SQLITE_OK) throw std::runtime_error("open");
  char* message = nullptr;
  sqlite3_busy_timeout(file, 10'000);  // as `.timeout` of a shell: the agent may be in a COMMIT
  const int done = sqlite3_exec(file, sql.c_str(), nullptr, nullptr, &message);
  const std::string error = message == nullptr ? "" : message;
  sqlite3_free(message);
  sqlite3_close(file);
  if (done != SQLITE_OK) throw std::runtime_error(error);
}

kernel::Principal Rig::person(const std::string& name) {
  return kernel::Principal{name, kernel::scopes_from("admin"), RunId()};
}

kernel::ResolveOutcome Rig::resolve(WaitId wait, const std::string& body, const kernel::Principal& by) {
  const auto decision = kernel::parse_decision(body);
  if (const auto* bad = std::get_if<Problem>(&decision)) return *bad;
  std::optional<kernel::ResolveOutcome> result;
  (void)commands->resolve(wait, std::get<kernel::Decision>(decision), by, std::nullopt,
                          [&](const kernel::ResolveOutcome& outcome) {
                            result = outcome;
                            return work::Answer{};
                          });
  return *result;
}

kernel::SignalOutcome Rig::signal(RunId run, const std::string& name, const std::string& payload) {
  std::optional<kernel::SignalOutcome> result;
  (void)commands->signal(run, name, payload, std::nullopt, person(), std::nullopt,
                         [&](const kernel::SignalOutcome& outcome) {
                           result = outcome;
                           return work::Answer{};
                         });
  return *result;
}

kernel::CancelOutcome Rig::cancel(RunId run, bool without_compensation) {
  std::optional<kernel::CancelOutcome> result;
  (void)commands->cancel(run, {"ada", "test", without_compensation}, std::nullopt,
                         [&](const kernel::CancelOutcome& outcome) {
                           result = outcome;
                           return work::Answer{};
                         });
  return *result;
}

}  // namespace bide::test
