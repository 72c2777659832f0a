#include "agent/flow/context.h"

#include <atomic>
#include <exception>
#include <set>
#include <stdexcept>
#include <thread>

#include "agent/base/json.h"
#include "agent/flow/attempt.h"
#include "agent/flow/failure_json.h"
#include "agent/kernel/usage.h"

namespace bide::flow {
namespace {

// What the author writes is checked before it becomes an intent: a name or a document that cannot be kept is the
// workflow's error, not a fault of ours that is tried again for ever [D1, D5].
void require_json(std::string_view what, const std::string& text) {
  if (text.size() > limits::kDocumentBytes) throw std::invalid_argument(std::string(what) + " is over 1 MiB");
  if (const auto refused = json::check(text))
    throw std::invalid_argument(std::string(what) + " is not JSON: " + refused->why);
}

void require_ask(const std::string& name, const std::string& request) {
  if (name.empty() || name.size() > limits::kNameBytes) throw std::invalid_argument("a name has 1 to 128 bytes");
  require_json("the request of \"" + name + "\"", request);
}

}  // namespace

StepFailed::StepFailed(std::string error_json)
    : std::runtime_error(json::string_member(error_json, "message").value_or(error_json)),
      error(std::move(error_json)) {}

Context::Context(Attempt& attempt, Random& random, std::string branch)
    : attempt_(attempt), random_(random), branch_(std::move(branch)) {}

const std::string& Context::input() const { return attempt_.run().input; }
RunId Context::run() const { return attempt_.run().id; }

std::string Context::take(Outcome outcome) {
  if (auto* settled = std::get_if<Settled>(&outcome)) return std::move(settled->result);
  if (auto* failed = std::get_if<Failed>(&outcome)) throw StepFailed(std::move(failed->error));
  if (const auto* closed = std::get_if<Closed>(&outcome)) throw AttemptClosed{closed->why};
  throw Bug("context: an outcome that native code cannot take");
}

std::string Context::step(const std::string& name, kernel::Effect effect, const EffectFn& run,
                          const StepOptions& options) {
  StepAsk ask;
  ask.branch = branch_;
  ask.name = name;
  ask.effect = effect;
  ask.request = options.request;
  ask.retries = options.retries.value_or(effect == kernel::Effect::non_idempotent ? 0 : limits::kNativeRetries);
  ask.backoff = options.backoff;
  ask.timeout = options.timeout;
  ask.fail_on_timeout = options.fail_on_timeout;
  ask.assume = options.assume;
  if (options.probe) ask.probe = "native";
  if (!options.compensate.empty()) {
    require_ask(options.compensate, options.compensate_argument);
    ask.compensate = json::Writer()
                         .begin_object()
                         .member("name", options.compensate)
                         .member_raw("argument", options.compensate_argument)
                         .end_object()
                         .take();
  }
  require_ask(name, options.request);
  if (options.assume) require_json("what is assumed of \"" + name + "\"", *options.assume);
  return run_effect(attempt_.begin_step(ask), run, options, effect);
}

std::string Context::run_effect(Outcome outcome, const EffectFn& run, const StepOptions& options,
                                kernel::Effect effect) {
  for (;;) {
    if (const auto* ask = std::get_if<AskProbe>(&outcome)) {
      ProbeAnswer answer;
      try {
        answer = options.probe(EffectInfo{ask->idempotency_key, 1, nullptr});
      } catch (const std::exception&) {
        answer.verdict = ProbeVerdict::cannot_tell;  // a probe that fails cannot tell
      }
      outcome = attempt_.probe_said(ask->step, ask->nonce, answer.verdict, answer.result);
      continue;
    }
    const auto* execute = std::get_if<Execute>(&outcome);
    if (execute == nullptr) return take(std::move(outcome));
    const Execute now = *execute;
    // Only the effect's own exceptions are its failure: a fault while its outcome is recorded is ours [E8].
    kernel::Usage usage;
    std::optional<std::string> result;
    std::string error;
    bool retryable = true;
    try {
      result = run(EffectInfo{now.idempotency_key, now.execution, &usage});
    } catch (const AttemptClosed&) {
      throw;
    } catch (const StorageFault&) {
      throw;
    } catch (const Final& e) {
      error = e.what();
      retryable = false;
    } catch (const std::exception& e) {
      error = e.what();
    }
    const auto spent = usage.empty() ? std::nullopt : std::optional(kernel::to_json(usage));
    outcome = result ? attempt_.complete(now.step, now.nonce, *result, spent)
                     : attempt_.fail(now.step, now.nonce, {error_json("StepError", error), retryable, false, false});
    (void)effect;
  }
}

Alternative Alternative::approval(const std::string& text, const ApprovalOptions& options) {
  WaitAsk ask;
  ask.kind = kernel::WaitKind::approval;
  ask.name = options.name;
  json::Writer w;
  w.begin_object().member("text", text).member("policy", options.policy).member("quorum", options.quorum);
  if (options.data) w.member_raw("data", *options.data);
  ask.request = w.end_object().take();
  ask.timeout = options.timeout;
  if (options.fallback) ask.fallback = json::quote(*options.fallback);
  return {ask};
}

Alternative Alternative::question(const std::string& text, const QuestionOptions& options) {
  WaitAsk ask;
  ask.kind = kernel::WaitKind::question;
  ask.name = options.name;
  json::Writer w;
  w.begin_object().member("text", text);
  if (!options.options.empty()) {
    w.key("options").begin_array();
    for (const auto& option : options.options) w.string(option);
    w.end_array();
  }
  if (options.schema) w.member_raw("schema", *options.schema);
  ask.request = w.end_object().take();
  ask.timeout = options.timeout;
  ask.fallback = options.fallback;
  return {ask};
}

Alternative Alternative::signal(const std::string& name) {
  WaitAsk ask;
  ask.kind = kernel::WaitKind::signal;
  ask.name = name;
  return {ask};
}

Alternative Alternative::timer(DurationMs length, const std::string& name) {
  WaitAsk ask;
  ask.kind = kernel::WaitKind::timer;
  ask.name = name;
  ask.request = json::Writer().begin_object().member("sleep_ms", length).end_object().take();
  return {ask};
}

std::string Context::wait_for(WaitAsk ask) {
  ask.branch = branch_;
  require_ask(ask.name, ask.request);
  if (ask.fallback) require_json("the default of \"" + ask.name + "\"", *ask.fallback);
  return take(attempt_.wait(ask));
}

std::string Context::approval(const std::string& text, const ApprovalOptions& options) {
  return wait_for(Alternative::approval(text, options).ask);
}

std::string Context::question(const std::string& text, const QuestionOptions& options) {
  return wait_for(Alternative::question(text, options).ask);
}

std::string Context::signal(const std::string& name, std::optional<DurationMs> timeout) {
  WaitAsk ask = Alternative::signal(name).ask;
  ask.timeout = timeout;
  return wait_for(ask);
}

void Context::sleep(DurationMs length) { (void)wait_for(Alternative::timer(length).ask); }

std::string Context::first_of(const std::vector<Alternative>& alternatives, const std::string& name) {
  FirstOfAsk ask;
  ask.branch = branch_;
  ask.name = name;
  require_ask(name, "null");
  if (alternatives.empty()) throw std::invalid_argument("first_of of nothing would wait for ever");
  std::set<std::string> names;
  for (const Alternative& one : alternatives) {
    require_ask(one.ask.name, one.ask.request);
    if (!names.insert(one.ask.name).second)
      throw std::invalid_argument("two waits of \"" + name + "\" are called \"" + one.ask.name + "\"");
    ask.alternatives.push_back(one.ask);
  }
  return take(attempt_.first_of(ask));
}

std::string Context::task(const std::string& function, const std::string& request, const TaskOptions& options) {
  StepAsk ask;
  ask.branch = branch_;
  ask.name = function;
  ask.effect = options.effect;
  ask.request = request;
  ask.retries = options.retries.value_or(options.effect == kernel::Effect::non_idempotent ? 0 : limits::kNativeRetries);
  ask.assume = options.assume;
  require_ask(function, request);
  if (options.assume) require_json("what is assumed of \"" + function + "\"", *options.assume);
  return take(attempt_.task(ask));
}

std::string Context::call(const std::string& workflow, const std::string& input, const std::string& name) {
  CallAsk ask;
  ask.branch = branch_;
  ask.name = name.empty() ? workflow : name;
  ask.workflow = workflow;
  ask.input = input;
  require_ask(ask.name, input);
  return take(attempt_.call(ask));
}

std::string Context::value(const std::string& name, const std::function<std::string()>& make) {
  require_ask(name, "null");
  return take(attempt_.value(branch_, name, "", [&] {
    std::string made = make();
    require_json("the value \"" + name + "\"", made);
    return made;
  }));
}

std::string Context::send(const std::string& url, const std::string& data, const std::string& name) {
  SendAsk ask;
  ask.branch = branch_;
  ask.name = name;
  ask.url = url;
  ask.data = data;
  require_ask(name, data);
  return take(attempt_.send(ask));
}

void Context::set_state(const std::string& name, const std::string& value) {
  require_ask(name, value);
  state_[name] = take(attempt_.set_state(branch_, name, value));
}

std::optional<std::string> Context::state(const std::string& name) const {
  const auto found = state_.find(name);
  return found == state_.end() ? std::nullopt : std::optional(found->second);
}

void Context::continue_as_new(const std::string& input) {
  require_json("the input of the next run", input);
  throw AttemptClosed{attempt_.continue_as_new(input).why};
}

TimeMs Context::now() {
  const std::string text = value("now", [this] { return json::quote(format_time(attempt_.now())); });
  return parse_time(json::as_string(text).value_or("")).value_or(0);
}

std::string Context::uuid() {
  const std::string text = value("uuid", [this] { return json::quote(random_.uuid()); });
  return json::as_string(text).value_or("");
}

namespace {

// What code throws is its failure, unless the attempt is over, or the fault is ours.
struct Thrown {
  bool fault = false;
  std::optional<std::string> failure;  // JSON
};

Thrown judge(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const AttemptClosed&) {
    return {};
  } catch (const StepFailed& e) {
    return {false, e.error};
  } catch (const StorageFault&) {
  } catch (const StorageFull&) {
  } catch (const StorageBusy&) {
  } catch (const CorruptData&) {
  } catch (const Bug&) {
  } catch (const std::exception& e) {
    return {false, error_json("WorkflowError", e.what())};
  } catch (...) {
  }
  return {true, std::nullopt};
}

// P1: the end of the run is written, and nothing more begins.
void fail_run(Attempt& attempt, std::exception_ptr& thrown) {
  try {
    if (const auto error = judge(thrown).failure) (void)attempt.end(*error);
  } catch (...) {
    thrown = std::current_exception();
  }
}

// The last one that ends suspends the run, which writes: what that throws must not end the thread.
void end_branch(Attempt& attempt, std::exception_ptr& error) {
  try {
    attempt.branch_ended();
  } catch (...) {
    error = std::current_exception();
  }
}

}  // namespace

std::vector<std::string> Context::branches(const std::vector<std::function<std::string(Context&)>>& functions,
                                           Join join) {
  std::vector<std::string> results(functions.size());
  std::vector<std::exception_ptr> errors(functions.size());
  std::vector<std::map<std::string, std::string>> states(functions.size());
  std::exception_ptr fault;
  const std::string prefix = (branch_.empty() ? "" : branch_ + ".") + std::to_string(++forks_) + "-";
  if (functions.empty()) return results;
  for (std::size_t i = 0; i < functions.size(); ++i) attempt_.branch_began();
  std::atomic<std::size_t> left{functions.size()};
  std::vector<std::function<void()>> branches;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    branches.emplace_back([&, i] {
      try {
        Context context(attempt_, random_, prefix + std::to_string(i + 1));
        context.state_ = state_;
        results[i] = functions[i](context);
        states[i] = std::move(context.state_);
      } catch (...) {
        errors[i] = std::current_exception();
        if (join == Join::all) fail_run(attempt_, errors[i]);
      }
      // The last one's place is the parent's, which goes on now: the others' waits must not suspend it [A3].
      if (left.fetch_sub(1) > 1) end_branch(attempt_, errors[i]);
    });
  }
  end_branch(attempt_, fault);  // the parent only joins
  attempt_.run_branches(branches);
  if (fault) std::rethrow_exception(fault);
  for (const auto& error : errors) {
    if (error && judge(error).fault) std::rethrow_exception(error);
  }
  if (attempt_.closing() != Closing::open) throw AttemptClosed{attempt_.closing()};
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  // In the order of the branches, so that a replay sees the same.
  const auto before = state_;
  for (const auto& joined : states) {
    for (const auto& [name, value] : joined) {
      const auto old = before.find(name);
      if (old == before.end() || old->second != value) state_[name] = value;
    }
  }
  return results;
}

}  // namespace bide::flow
