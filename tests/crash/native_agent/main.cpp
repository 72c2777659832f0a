// An agent with native workflows whose effects are lines of a ledger: what the kill tests kill. The input of each names
// the ledger; a line is "WHAT RUN KEY", appended by one write.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "agent/bide.h"

namespace {

using Json = nlohmann::json;
using bide::flow::Context;
using bide::flow::EffectInfo;
using bide::kernel::Effect;

void effect(const std::string& ledger, const std::string& what, std::int64_t run, const std::string& key) {
  const std::string line = what + " " + std::to_string(run) + " " + key + "\n";
  const int fd = ::open(ledger.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool written = fd >= 0 && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (fd >= 0) ::fsync(fd);  // the outcome is late: a kill may come between
  if (fd >= 0) ::close(fd);
  if (!written) throw std::runtime_error("cannot write " + ledger);
}

std::string act(Context& c, const std::string& ledger, const std::string& what, Effect kind,
                const bide::flow::StepOptions& options = {}) {
  return c.step(
      what, kind,
      [&](const EffectInfo& info) {
        effect(ledger, what, c.run().value, info.idempotency_key);
        return std::string("true");
      },
      options);
}

// Books two things that can be taken back, pays, and fails when told to.
std::string saga(Context& c) {
  const Json input = Json::parse(c.input());
  const std::string ledger = input.at("ledger");
  for (const std::string what : {"flight", "hotel"}) {
    bide::flow::StepOptions options;
    options.compensate = "undo";
    options.compensate_argument = Json{{"ledger", ledger}, {"what", what}, {"run", c.run().value}}.dump();
    act(c, ledger, what, Effect::idempotent, options);
  }
  act(c, ledger, "pay", Effect::non_idempotent);
  if (input.value("fail", false)) throw std::runtime_error("told to fail");
  return "true";
}

std::string undo(const bide::flow::UndoInfo& info) {
  const Json argument = Json::parse(info.argument);
  effect(argument.at("ledger"), "undo_" + argument.at("what").get<std::string>(), argument.at("run"),
         info.effect.idempotency_key);
  return "true";
}

// Five branches of two steps each.
std::string fan_out(Context& c) {
  const std::string ledger = Json::parse(c.input()).at("ledger");
  std::vector<std::function<std::string(Context&)>> branches;
  for (int i = 1; i <= 5; ++i) {
    branches.emplace_back([&ledger, i](Context& b) {
      b.step("look", Effect::pure, [](const EffectInfo&) { return std::string("1"); });
      return act(b, ledger, "part" + std::to_string(i), Effect::idempotent);
    });
  }
  return Json(c.branches(branches).size()).dump();
}

// Three rounds: a person says yes, then something happens that cannot be repeated.
std::string loop(Context& c) {
  const std::string ledger = Json::parse(c.input()).at("ledger");
  for (int i = 1; i <= 3; ++i) {
    (void)c.approval("Round " + std::to_string(i) + "?", {.name = "round"});
    act(c, ledger, "ring" + std::to_string(i), Effect::non_idempotent);
  }
  return "3";
}

}  // namespace

int main(int argc, char** argv) {
  bide::flow::Registry registry;
  registry.add({.name = "saga", .version = "1", .compensations = {{"undo", {undo}}}, .run = saga});
  registry.add({.name = "fan_out", .version = "1", .run = fan_out});
  registry.add({.name = "loop", .version = "1", .run = loop});
  if (const char* ledger = std::getenv("HOOK_LEDGER")) {
    registry.add_hook([file = std::string(ledger)](bide::TimeMs) -> std::int64_t {
      if (::access((file + ".fails").c_str(), F_OK) == 0) throw std::runtime_error("the hook was told to fail");
      return 0;
    });
    registry.add_hook([file = std::string(ledger)](bide::TimeMs) -> std::int64_t {
      effect(file, "hook", 0, "-");
      return 1;
    });
  }
  return bide::run_agent(argc, argv, std::move(registry));
}
