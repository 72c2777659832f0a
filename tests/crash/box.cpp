#include "tests/crash/box.h"

#include <sqlite3.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <sstream>

#include "tests/support/eventually.h"

namespace bide::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

CrashBox::CrashBox(std::string executable) : executable_(std::move(executable)) {
  fs::create_directories(dir_ / "out");
  fs::create_directories(dir_ / "flows");
  serve();
}

CrashBox::~CrashBox() {
  try {
    kill_all();
  } catch (const std::exception&) {  // the folder is removed, whatever could not be read
    return;
  }
}

void CrashBox::program(const std::string& name, const std::string& body) {
  // A command of a step is a process of its own: `effect` is a file, not a shell function.
  const auto file = dir_ / ("flows/" + name + "/main.sh");
  const auto effect = dir_ / ("flows/" + name + "/bin/effect");
  write_file(effect, "#!/bin/sh\necho \"$1 $BIDE_RUN $BIDE_IDEMPOTENCY_KEY\" >>'" + folder() + "/ledger'\n");
  write_file(file, "#!/bin/sh\nset -eu\nexport OUT='" + folder() + "'\n" + body);
  for (const auto& made : {file, effect}) fs::permissions(made, fs::perms(0755));
  for (const auto& made : {file.parent_path(), effect.parent_path()}) fs::permissions(made, fs::perms(0755));
}

Command CrashBox::serve_command(const std::string& elsewhere) const {
  Command command{.argv = {executable_, "serve", "--data", data(), "--workflows", dir_.str("flows"), "--socket",
                           socket() + elsewhere, "--listen", "none"},
                  .env = environment()};
  command.argv.insert(command.argv.end(), flags.begin(), flags.end());
  return command;
}

void CrashBox::serve(const std::vector<std::pair<std::string, std::string>>& more) {
  Command command = serve_command();
  command.env.insert(command.env.end(), more.begin(), more.end());
  agent_.emplace(command);
  eventually([&] { return ask("GET", "/readyz").first == 200; },
             [&] { return "the agent is not ready: " + agent_->err(); }, 60s);
}

std::vector<ProcessInfo> CrashBox::attempt_processes() const {
  std::vector<ProcessInfo> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string number = entry.path().filename();
    if (!std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    const int pid = std::stoi(number);
    if (environment_of(pid, "BIDE_AGENT") != socket() || !environment_of(pid, "BIDE_RUN")) continue;
    if (const auto process = read_process(pid)) found.push_back(*process);
  }
  return found;
}

void CrashBox::kill_all() {
  if (agent_) agent_->kill();
  eventually(
      [&] {
        const auto left = attempt_processes();
        for (const ProcessInfo& process : left) signal_process(process.key, SIGKILL);
        return left.empty();
      },
      "processes of attempts are left after SIGKILL");
}

std::vector<std::pair<std::string, std::string>> CrashBox::environment() const {
  return {{"BIDE_AGENT", socket()}, {"HOME", dir_.str()}, {"XDG_CONFIG_HOME", dir_.str("config")}};
}

Finished CrashBox::bide(std::vector<std::string> words) const {
  words.insert(words.begin(), BIDE_EXECUTABLE);
  return run({.argv = std::move(words), .env = environment()});
}

std::pair<int, CrashBox::Json> CrashBox::ask(const std::string& method, const std::string& target,
                                             const Json& body) const {
  try {
    auto client = HttpClient::unix_socket(socket());
    const HttpAnswer answer = client.ask(method, target, body.is_null() ? "" : body.dump());
    return {answer.status, Json::parse(answer.body, nullptr, false)};
  } catch (const std::runtime_error&) {
    return {0, nullptr};
  }
}

CrashBox::Json CrashBox::get(const std::string& target) const {
  auto [status, document] = ask("GET", target);
  INFO("GET " << target << ": " << document);
  REQUIRE(status == 200);
  return std::move(document);
}

std::int64_t CrashBox::start(const std::string& workflow, const Json& input) const {
  const auto [status, document] = ask("POST", "/v1/runs", {{"workflow", workflow}, {"input", input}});
  INFO(document);
  REQUIRE(status == 201);
  return document["id"];
}

void CrashBox::until_status(std::int64_t run, const std::string& wanted, std::chrono::milliseconds deadline) const {
  const std::string path = "/v1/runs/" + std::to_string(run);
  eventually([&] { return status(run) == wanted; },
             [&] {
               return "run is not " + wanted + ": " + show(run).dump() + get(path + "/explain").dump() +
                      get(path + "/journal").dump() + ask("GET", path + "/log").second.dump();
             },
             deadline);
}

std::vector<CrashBox::Json> CrashBox::pending(std::int64_t run, const std::string& kind) const {
  std::vector<Json> found;
  const Json document = get("/v1/waits?status=pending&limit=200");
  for (const Json& wait : document["items"]) {
    if (wait["run"] == run && wait["kind"] == kind) found.push_back(wait);
  }
  return found;
}

std::int64_t CrashBox::wait_of(std::int64_t run, const std::string& kind) const {
  std::vector<Json> waits;
  eventually([&] { return !(waits = pending(run, kind)).empty(); },
             [&] {
               return "no " + kind + " of the run: " + show(run).dump() +
                      get("/v1/runs/" + std::to_string(run) + "/explain").dump();
             },
             60s);
  REQUIRE(waits.size() == 1);
  return waits[0]["id"];
}

void CrashBox::answer(std::int64_t wait, const Json& body) const {
  const auto [status, document] = ask("POST", "/v1/waits/" + std::to_string(wait) + "/resolve", body);
  INFO(document);
  REQUIRE(status == 200);
}

CrashBox::Json CrashBox::step(std::int64_t run, const std::string& name) const {
  const Json document = get("/v1/runs/" + std::to_string(run) + "/journal");
  for (const Json& entry : document["items"]) {
    if (entry["name"] == name) return entry;
  }
  return nullptr;
}

int CrashBox::events(std::int64_t run, const std::string& kind) const {
  return std::stoi(
      sql("SELECT count(*) FROM events WHERE run_id = " + std::to_string(run) + " AND kind = '" + kind + "'"));
}

std::string CrashBox::sql(const std::string& query) const {
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2((data() + "/bide.db").c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> db(raw, &sqlite3_close);
  REQUIRE(opened == SQLITE_OK);
  sqlite3_busy_timeout(raw, 10'000);
  sqlite3_stmt* statement = nullptr;
  const int prepared = sqlite3_prepare_v2(raw, query.c_str(), -1, &statement, nullptr);
  const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> done(statement, &sqlite3_finalize);
  INFO(sqlite3_errmsg(raw));
  REQUIRE(prepared == SQLITE_OK);
  if (sqlite3_step(statement) != SQLITE_ROW) return "";
  const unsigned char* text = sqlite3_column_text(statement, 0);
  return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

std::vector<std::string> CrashBox::ledger() const {
  std::vector<std::string> lines;
  std::istringstream text(read_file(dir_ / "out/ledger"));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

int CrashBox::effects(const std::string& words) const {
  const auto lines = ledger();
  return static_cast<int>(
      std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.rfind(words + " ", 0) == 0; }));
}

void CrashBox::until_effects(const std::string& words, int count) const {
  eventually([&] { return effects(words) >= count; },
             [&] { return std::to_string(effects(words)) + " lines of \"" + words + "\" in the ledger"; }, 60s);
}

}  // namespace bide::test
