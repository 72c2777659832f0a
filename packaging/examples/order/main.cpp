// An agent with a workflow in C++: an order is reserved, priced and approved side by side; when it is denied, or cannot
// be shipped, what was reserved is given back.
//
//   cmake -B build && cmake --build build         # bide is installed, or CMAKE_PREFIX_PATH names where it is
//   build/order serve --data /tmp/order &
//   build/order run order --input '{"item": "lamp", "amount": 2, "ledger": "/tmp/ledger"}'
//   build/order inbox                             # kill -9 the agent, start it again: nothing happens twice
//
// What it does to the world is a line in the file `ledger` of the input. A real one calls a shop with the key.
#include <bide.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

using Json = nlohmann::json;
using bide::flow::Context;
using bide::flow::EffectInfo;
using bide::flow::UndoInfo;
using bide::kernel::Effect;

namespace {

void write_line(const std::string& ledger, const std::string& line) {
  std::ofstream out(ledger, std::ios::app);
  if (!(out << line << std::endl)) throw std::runtime_error("cannot write " + ledger);  // a failure: it is tried again
}

std::string order(Context& context) {
  const Json input = Json::parse(context.input());
  const std::string item = input.at("item");
  const std::string ledger = input.at("ledger");
  const int amount = input.at("amount");

  // Three branches: the approval may take days, the others are done by then.
  const auto results = context.branches({
      [&](Context& branch) {
        return branch.step("reserve", Effect::idempotent,
                           [&](const EffectInfo& effect) {
                             write_line(ledger, "reserved " + item + " " + effect.idempotency_key);
                             return Json{{"reserved", amount}}.dump();
                           },
                           {.request = Json{{"item", item}, {"amount", amount}}.dump(),
                            .compensate = "release",
                            .compensate_argument = Json{{"ledger", ledger}, {"item", item}}.dump()});
      },
      [&](Context& branch) {
        return branch.step("price", Effect::pure, [&](const EffectInfo&) { return Json(amount * 20).dump(); });
      },
      [&](Context& branch) { return branch.approval("Sell " + std::to_string(amount) + " × " + item + "?"); },
  });
  if (Json::parse(results[2]).value("decision", "") != "approved") throw std::runtime_error("the order was denied");

  // Changes the world and cannot be repeated: after a crash in it, a person is asked what happened.
  context.step("ship", Effect::non_idempotent, [&](const EffectInfo&) {
    if (input.value("broken", false)) throw bide::flow::Final("the shelf is empty");
    write_line(ledger, "shipped " + item);
    return std::string("null");
  });
  return Json{{"shipped", item}, {"price", Json::parse(results[1])}}.dump();
}

std::string release(const UndoInfo& undo) {
  const Json argument = Json::parse(undo.argument);
  write_line(argument.at("ledger"), "released " + argument.at("item").get<std::string>());
  return "null";
}

}  // namespace

int main(int argc, char** argv) {
  bide::flow::Registry registry;
  registry.add({.name = "order", .version = "1", .compensations = {{"release", {release}}}, .run = order});
  return bide::run_agent(argc, argv, std::move(registry));
}
