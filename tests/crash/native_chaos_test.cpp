// A saga, a fan-out and a loop with approvals, in C++, under an agent that is killed again and again.
#include <catch2/catch.hpp>

#include <array>
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

std::string native_agent() {
  return (std::filesystem::path(BIDE_EXECUTABLE).parent_path() / "tests/bide-native-agent").string();
}

// Lines and keys by run and effect, as the receiver saw them.
struct Ledger {
  std::map<std::string, int> lines;
  std::map<std::string, std::set<std::string>> keys;
  explicit Ledger(const CrashBox& box) {
    for (const std::string& line : box.ledger()) {
      std::istringstream words(line);
      std::string what, run, key;
      words >> what >> run >> key;
      ++lines[run + " " + what];
      keys[run + " " + what].insert(key);
    }
  }
  int count(const std::string& of) const { return lines.contains(of) ? lines.at(of) : 0; }
};

struct Started {
  std::int64_t run;
  std::string flow;  // saga, broken, fan_out, loop
};

// A person says yes, and about steps in doubt what the ledger says. Counts what was answered.
struct Answered {
  int approvals = 0, ran = 0, run = 0;
};
void answer_all(const CrashBox& box, Answered& answered) {
  const auto [status, waits] = box.ask("GET", "/v1/waits?status=pending&limit=200");
  if (status != 200) return;
  for (const Json& wait : waits["items"]) {
    const std::string path = "/v1/waits/" + std::to_string(wait["id"].get<std::int64_t>()) + "/resolve";
    if (wait["kind"] == "approval") {
      if (box.ask("POST", path, {{"decision", "approved"}}).first == 200) ++answered.approvals;
      continue;
    }
    const std::string name = wait.value("name", "");
    const bool happened = box.effects(name + " " + std::to_string(wait["run"].get<std::int64_t>())) > 0;
    const Json answer = happened ? Json{{"answer", "ran"}, {"result", true}} : Json{{"answer", "run"}};
    if (box.ask("POST", path, answer).first == 200) ++(happened ? answered.ran : answered.run);
  }
}

void check(const CrashBox& box, const std::vector<Started>& all) {
  const Ledger ledger(box);
  const auto once_applied = [&](const std::string& of, int want) {  // by key: what the receiver applied
    INFO(of);
    CHECK((ledger.keys.contains(of) ? ledger.keys.at(of).size() : 0) == static_cast<std::size_t>(want));
  };
  for (const Started& one : all) {
    const std::string run = std::to_string(one.run);
    INFO(one.flow << " " << run);
    CHECK(box.sql("SELECT status FROM runs WHERE id = " + run) == (one.flow == "broken" ? "failed" : "completed"));
    if (one.flow == "saga" || one.flow == "broken") {
      const int undone = one.flow == "broken" ? 1 : 0;
      once_applied(run + " flight", 1);
      once_applied(run + " hotel", 1);
      once_applied(run + " undo_flight", undone);
      once_applied(run + " undo_hotel", undone);
      CHECK(ledger.count(run + " pay") == 1);
    }
    for (int i = 1; one.flow == "fan_out" && i <= 5; ++i) once_applied(run + " part" + std::to_string(i), 1);
    for (int i = 1; one.flow == "loop" && i <= 3; ++i) CHECK(ledger.count(run + " ring" + std::to_string(i)) == 1);
  }
  // I9, and: journal and events agree.
  CHECK(box.sql("PRAGMA integrity_check") == "ok");
  CHECK(box.sql("SELECT count(*) FROM pragma_foreign_key_check") == "0");
  CHECK(box.sql("SELECT count(*) FROM steps s WHERE s.status = 'completed' AND s.kind = 'step' AND 1 <> "
                "(SELECT count(*) FROM events e WHERE e.step_id = s.id AND e.kind = 'step.completed')") == "0");
  CHECK(box.sql("SELECT count(*) FROM runs r WHERE 1 <> (SELECT count(*) FROM events e WHERE e.run_id = r.id AND "
                "e.kind IN ('run.completed', 'run.failed', 'run.cancelled'))") == "0");
}

void kill_at_random(int kills, int batch) {
  const char* given = std::getenv("BIDE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : SystemRandom().next();
  WARN("BIDE_TEST_SEED=" << seed);
  std::mt19937_64 chance(seed);
  CrashBox box(native_agent());
  const std::string live = "SELECT count(*) FROM runs WHERE finished_at IS NULL";
  const std::string ledger = box.folder() + "/ledger";
  std::vector<Started> all;
  Answered answered;
  int met = 0;
  for (int kill = 0; kill < kills; ++kill) {
    for (int i = 0; i < batch; ++i) {
      const std::string flow = std::array{"saga", "broken", "fan_out", "loop"}[chance() % 4];
      const Json input = {{"ledger", ledger}, {"fail", flow == "broken"}};
      all.push_back({box.start(flow == "broken" ? "saga" : flow, input), flow});
    }
    // Every second kill comes as soon as the last run is started: on a fast machine all may have ended in the others.
    const auto length = kill % 2 == 0 ? 0 : chance() % 60;
    (void)holds_within(std::chrono::milliseconds(length), [&] {
      answer_all(box, answered);
      return false;
    });
    if (box.sql(live) != "0") ++met;
    box.kill_agent();
    box.serve();
  }
  eventually(
      [&] {
        answer_all(box, answered);
        return box.sql(live) == "0";
      },
      [&] { return box.sql(live) + " runs have not ended; " + box.get("/v1/runs?limit=3").dump(); },
      std::chrono::seconds(120));
  check(box, all);
  // The floor: kills met live runs and steps under way, and people were asked.
  const int recovered = std::stoi(box.sql("SELECT count(*) FROM events WHERE kind = 'run.recovered'"));
  const int again = std::stoi(box.sql("SELECT count(*) FROM steps WHERE executions > 1"));
  WARN("kills that met live runs " << met << ", recovered " << recovered << ", run again " << again << ", answered ran "
                                   << answered.ran << ", run " << answered.run);
  CHECK(met >= kills / 2);
  CHECK(recovered >= kills / 4);
  CHECK(answered.approvals >= kills / 4);
  CHECK(answered.ran + answered.run + again >= kills / 20);
}

}  // namespace

TEST_CASE("[N83] 40 kills over a saga, a fan-out and a loop with approvals: every effect as often as it may be") {
  kill_at_random(40, 4);
}
TEST_CASE("[N83] 200 kills over a saga, a fan-out and a loop with approvals: every effect as often as it may be",
          "[.long]") {
  kill_at_random(200, 6);
}

TEST_CASE(
    "[W10] hooks of native code run in each pass of the sweep, and one that throws is told of and holds up none") {
  CrashBox box(native_agent());
  box.serve({{"HOOK_LEDGER", box.folder() + "/ledger"}});
  const auto pass = [&] { return box.ask("POST", "/v1/sweep", Json::object()).second; };
  const int before = box.effects("hook");
  CHECK(pass().value("first_error", Json()).is_null());
  CHECK(box.effects("hook") > before);
  box.touch("ledger.fails");
  const int between = box.effects("hook");
  CHECK(pass()["first_error"] == "hooks: the hook was told to fail");
  CHECK(box.effects("hook") > between);
  CHECK(box.ask("GET", "/readyz").second["reason"] == "hooks: the hook was told to fail");
  const std::int64_t run = box.start("saga", {{"ledger", box.folder() + "/ledger"}});  // it works all the same
  box.until_status(run, "completed");
}

}  // namespace bide::test
