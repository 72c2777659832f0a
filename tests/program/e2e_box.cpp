#include "tests/program/e2e_box.h"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "agent/base/process_tree.h"
#include "tests/program/process_support.h"

namespace bide::test {

using namespace std::chrono_literals;

namespace {

constexpr auto kLong = 60s;  // a loaded machine; nothing waits this long when it works

bool is_number(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Box::Box(std::string executable, std::string workflows)
    : executable_(std::move(executable)), workflows_(std::move(workflows)), tag_(unique_tag()) {
  std::filesystem::create_directories(flows());
  std::filesystem::create_directories(dir_ / "out");
  serve();
}

Box::~Box() {
  agent_.reset();
  // Guards end what is theirs when the agent is gone; holders do not, and a test that failed may have left more.
  (void)holds_within(10s, [&] {
    const auto found = left();
    for (const std::string& pid : found) ::kill(std::stoi(pid), SIGKILL);
    return found.empty();
  });
}

void Box::executable_file(const std::string& path, const std::string& content) const {
  std::string whole = content;
  for (auto at = whole.find("TAG"); at != std::string::npos; at = whole.find("TAG")) whole.replace(at, 3, tag_);
  write_file(path, whole);
  std::filesystem::permissions(path, std::filesystem::perms(0755));
}

void Box::program(const std::string& name, const std::string& body, const std::string& flags) {
  executable_file(flows() + "/" + name + ".sh", "#!/bin/sh\n" + flags + "\nOUT=" + dir_.str("out") + "\n" + body);
}

void Box::python(const std::string& name, const std::string& body) {
  executable_file(flows() + "/" + name + ".py", "#!/usr/bin/env python3\nOUT = '" + dir_.str("out") + "'\n" + body);
}

std::vector<std::pair<std::string, std::string>> Box::environment() const {
  return {{"BIDE_AGENT", socket()}, {"HOME", dir_.str()}, {"XDG_CONFIG_HOME", dir_.str("config")}};
}

void Box::serve() {
  agent_.emplace(Command{.argv = {executable_, "serve", "--data", data(), "--workflows",
                                  workflows_.empty() ? flows() : workflows_, "--socket", socket(), "--listen", "none"},
                         .env = environment()});
  const bool answers = holds_within(kLong, [&] { return bide({"runs"}).exit.code == 0; });
  INFO(agent_->err());
  REQUIRE(answers);
}

void Box::kill_agent() { agent_->kill(); }

void Box::kill_all() {
  kill_agent();
  eventually(
      [&] {
        for (const std::string& pid : left()) ::kill(std::stoi(pid), SIGKILL);
        return left().empty();
      },
      "nothing of an attempt is left after SIGKILL");
}

void Box::stop_agent() {
  agent_->signal(SIGTERM);
  const auto exit = agent_->wait(kLong);
  INFO(agent_->err());
  REQUIRE(exit);
  CHECK(*exit == Exit{0, 0});
}

Finished Box::bide(std::vector<std::string> words, const std::string& input) const {
  words.insert(words.begin(), executable_);
  return run({.argv = std::move(words), .env = environment(), .input = input});
}

Json Box::json(std::vector<std::string> words) const {
  words.push_back("--json");
  const Finished done = bide(std::move(words));
  INFO(done.out << done.err);
  REQUIRE(done.exit == Exit{0, 0});
  return Json::parse(done.out);
}

std::string Box::start(const std::string& workflow, const std::string& input) const {
  const Finished done = bide({"run", workflow, "--input", input});
  INFO(done.err);
  REQUIRE(done.exit.code == 0);
  return done.out.substr(0, done.out.size() - 1);
}

Json Box::comes_to(const std::string& run, const std::string& status) const {
  Json seen;
  const bool there = holds_within(kLong, [&] {
    seen = show(run);
    return seen["status"] == status;
  });
  INFO("wanted " << status << "; " << seen.dump(1) << "\nexplain: " << bide({"explain", run}).out
                 << "\nlog: " << bide({"log", run}).out << "\njournal: " << bide({"journal", run}).out);
  REQUIRE(there);
  return seen;
}

void Box::suspended(const std::string& run) const {
  comes_to(run, "waiting");
  nothing_left();
}

Json Box::fails(const std::string& run, const std::string& code) const {
  Json error = comes_to(run, "failed")["error"];
  INFO(error.dump());
  CHECK(error["code"] == code);
  return error;
}

std::string Box::wait_of(const std::string& run, const std::string& kind) const {
  std::string id;
  const bool open = holds_within(kLong, [&] {
    const Json inbox = json({"inbox"});
    for (const Json& wait : inbox["items"]) {
      if (wait["run"] == std::stoi(run) && (kind.empty() || wait["kind"] == kind)) {
        id = std::to_string(wait["id"].get<int>());
      }
    }
    return !id.empty();
  });
  INFO(bide({"show", run}).out << bide({"log", run}).out);
  REQUIRE(open);
  return id;
}

void Box::decide(const std::string& run, const std::string& decision) const {
  const Finished done = bide({decision, wait_of(run)});
  INFO(done.err);
  REQUIRE(done.exit.code == 0);
}

Json Box::sql(const std::string& query) const {
  const Finished done = bide({"sql", "--json", "--data", data(), query});
  INFO(done.err);
  REQUIRE(done.exit.code == 0);
  return Json::parse(done.out)[0]["rows"];
}

int Box::lines(const std::string& name) const {
  const std::string whole = text(name);
  return static_cast<int>(std::count(whole.begin(), whole.end(), '\n'));
}

std::vector<std::string> Box::left() const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string number = entry.path().filename();
    if (!is_number(number) || !read_process(std::stoi(number))) continue;
    const std::string ours = std::string("BIDE_AGENT=") + socket() + '\0';
    const std::string environment = read_file(entry.path() / "environ");
    const std::string typed = read_file(entry.path() / "cmdline");
    const bool attempt =
        environment.find(ours) != std::string::npos &&
        (environment.find("BIDE_ATTEMPT=") != std::string::npos || environment.find("BIDE_STEP=") != std::string::npos);
    if (attempt || typed.find(tag_) != std::string::npos) found.push_back(number);
  }
  return found;
}

void Box::nothing_left() const {
  eventually([&] { return left().empty(); },
             [&] {
               std::string who;
               for (const std::string& pid : left()) who += pid + " " + read_file("/proc/" + pid + "/cmdline") + "\n";
               return "nothing of an attempt is left, but: " + who;
             });
}

}  // namespace bide::test
