// What the tests of verbs share: an agent with a journal in memory, and the ways in which a script is run against it.
#pragma once

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

#include "tests/program/fake_agent.h"
#include "tests/support/eventually.h"

namespace bide::test {

struct World {
  FakeJournal journal;
  FakeAgent agent{[this](const AgentRequest& request) { return journal(request); }};

  World() { journal.folder = agent.dir().str(); }

  Finished run(const std::string& text) { return test::run(agent.script(text), std::chrono::seconds(15)); }
  // Runs a script of which nothing may come after the verb in it: it is over when the agent was told the end.
  nlohmann::json ends_with(const std::string& text, const char* operation = "end") {
    Process process(agent.script(text));
    eventually(
        [&] { return !agent.requests(operation).empty(); },
        [&] { return "a request to " + std::string(operation) + "; out " + process.out() + " err " + process.err(); });
    CHECK_FALSE(process.wait(std::chrono::milliseconds(100)));  // it does not return, whatever stands around it
    CHECK(process.out().empty());
    return agent.requests(operation).back().body;
  }
  [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(agent.dir() / name); }
  [[nodiscard]] std::string file(const std::string& name) const { return read_file(agent.dir() / name); }
};

}  // namespace bide::test
