// Two hundred runs, and an agent that is killed twenty times at moments that nobody chose.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "agent/base/random.h"
#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

constexpr int kKills = 20;
constexpr int kRunsAKill = 10;
constexpr int kHeld = 2;  // payments that an aimed kill meets

// Answers what is asked, by what the ledger says, and never guesses. Returns how many questions about steps in doubt
// were answered "ran" and "run". An agent that goes away meanwhile, or a wait that does, is met again.
struct Answers {
  int ran = 0;
  int run = 0;
  int approved = 0;
};
void answer_all(const CrashBox& box, Answers& answers) {
  const auto [status, waits] = box.ask("GET", "/v1/waits?status=pending&limit=200");
  if (status != 200) return;
  for (const Json& wait : waits["items"]) {
    const std::string path = "/v1/waits/" + std::to_string(wait["id"].get<std::int64_t>()) + "/resolve";
    if (wait["kind"] == "approval") {
      if (box.ask("POST", path, {{"decision", "approved"}}).first == 200) ++answers.approved;
    } else if (wait["kind"] == "reconcile") {
      const bool paid = box.effects("pay " + std::to_string(wait["run"].get<std::int64_t>())) > 0;
      const Json answer = paid ? Json{{"answer", "ran"}, {"result", "paid\n"}} : Json{{"answer", "run"}};
      if (box.ask("POST", path, answer).first == 200) ++(paid ? answers.ran : answers.run);
    }
  }
}

// I2, for every run: one key for the idempotent step, one line for the other, however often the agent died.
void check_ledger(const CrashBox& box, int runs) {
  std::map<std::string, std::set<std::string>> stage_keys;
  std::map<std::string, int> payments;
  for (const std::string& line : box.ledger()) {
    std::istringstream words(line);
    std::string what, run, key;
    words >> what >> run >> key;
    if (what == "stage") stage_keys[run].insert(key);
    if (what == "pay") ++payments[run];
  }
  CHECK(stage_keys.size() == static_cast<std::size_t>(runs));
  CHECK(payments.size() == static_cast<std::size_t>(runs));
  std::set<std::string> all;
  for (const auto& [run, keys] : stage_keys) {
    INFO("run " << run);
    CHECK(keys.size() == 1);
    all.insert(keys.begin(), keys.end());
  }
  CHECK(all.size() == static_cast<std::size_t>(runs));
  for (const auto& [run, count] : payments) {
    INFO("run " << run);
    CHECK(count == 1);
  }
}

// How each agent dies. Every second kill is aimed: payments are held after their effect and before their outcome, until
// some have met the kill, however slow the machine is; the others come when they come. Of both kinds every second one
// ends all processes at once, so that nobody has the time to end anything in order: what was held is in doubt then.
struct Kill {
  bool aimed = false;
  bool everything = false;
};
Kill nth_kill(int n) { return {n % 2 == 1, n % 4 == 1 || n % 4 == 2}; }

TEST_CASE("200 runs and 20 kills at random: every run ends, each effect as often as it may happen [I2]") {
  const char* given = std::getenv("BIDE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : SystemRandom().next();
  WARN("BIDE_TEST_SEED=" << seed);
  std::mt19937_64 chance(seed);
  CrashBox box;
  box.program(
      "flow",
      "bide step look --effect pure -- true\n"
      "bide step stage --effect idempotent -- effect stage\n"
      "bide step pay -- sh -c 'sleep 0.05; effect pay; sleep 0.15; while [ -e \"$OUT/hold\" ]; do sleep 0.2; done; "
      "echo paid'\n"
      "bide wait approval 'Ship it?' >/dev/null\n"
      "bide result done:=true\n");
  const std::string live = "SELECT count(*) FROM runs WHERE finished_at IS NULL";
  Answers answers;
  int met = 0;  // kills while a run was live
  for (int n = 0; n < kKills; ++n) {
    const Kill kill = nth_kill(n);
    if (kill.aimed) box.touch("hold");
    const int paid = box.effects("pay");  // whatever pays from here on is held
    for (int i = 0; i < kRunsAKill; ++i) (void)box.start("flow");
    const bool held = holds_within(kill.aimed ? 60s * kSlower : std::chrono::milliseconds(100 + chance() % 1'000), [&] {
      answer_all(box, answers);
      return kill.aimed && box.effects("pay") >= paid + kHeld;
    });
    CHECK(held == kill.aimed);
    if (box.sql(live) != "0") ++met;
    if (kill.everything) {
      box.kill_all();
    } else {
      box.kill_agent();
    }
    std::filesystem::remove(box.folder() + "/hold");
    box.serve();
  }
  eventually(
      [&] {
        answer_all(box, answers);
        return box.sql(live) == "0";
      },
      [&] { return box.sql(live) + " runs have not ended; " + box.get("/v1/runs?limit=3").dump(); }, 200s);

  const int runs = kKills * kRunsAKill;
  CHECK(box.sql("SELECT group_concat(DISTINCT status) FROM runs") == "completed");
  CHECK(box.sql("SELECT count(*) FROM runs") == std::to_string(runs));
  check_ledger(box, runs);
  CHECK(box.sql("SELECT count(*) FROM steps WHERE status <> 'completed'") == "0");
  CHECK(box.sql("PRAGMA integrity_check") == "ok");
  // The floor is what the aimed kills alone come to: they met runs, and those that ended everything met payments.
  const int recovered = std::stoi(box.sql("SELECT count(*) FROM events WHERE kind = 'run.recovered'"));
  WARN("kills that met live runs " << met << ", recovered " << recovered << ", answered ran " << answers.ran << ", run "
                                   << answers.run);
  CHECK(met >= kKills / 2);
  CHECK(recovered >= kKills);
  CHECK(answers.ran >= kKills / 4 * kHeld);
  CHECK(answers.approved >= runs / 2);
}

}  // namespace
}  // namespace bide::test
