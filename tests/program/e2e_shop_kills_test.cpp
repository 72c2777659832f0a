// The examples, while agent, program and holder are killed in any order: every run comes to its end, and what must not
// happen twice happens once. A person is asked only about what a holder took with it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "agent/base/process_tree.h"
#include "agent/base/random.h"
#include "tests/program/shop.h"
#include "tests/support/sink.h"

namespace bide::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Market {
 public:
  explicit Market(std::uint64_t seed) : chance_(seed) {
    for (const char* name : {"report", "newsletter", "photos", "restore-drill", "fleet", "purchase"}) shop_.take(name);
    shop_.stand_in("photos", "convert", "cp -- \"$1\" \"$4\"\n");
    shop_.stand_in("fleet", "ssh",
                   "while [ $# -gt 2 ]; do shift; done\nmkdir -p OUT/host-$1\ncd OUT/host-$1\nexec sh -c \"$2\"\n");
    provider_.script([this](const Sink::Request& request, int) {
      const std::string path = request.line.substr(5, request.line.find(' ', 5) - 5);
      done_[path + " " + request.body].insert(request.field("idempotency-key"));
      const std::string body = path.substr(1) + "-" + request.body.substr(0, request.body.find(' '));
      Sink::Reply reply;
      reply.bytes = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
      reply.after = 50ms;
      return reply;
    });
    const Finished made =
        run({.argv = {"sqlite3", place_.str("app.db"), "CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2)"}});
    REQUIRE(made.exit.code == 0);
  }

  // One more run, of the next example.
  void start() {
    const int n = static_cast<int>(runs_.size());
    const std::string tag = std::to_string(n);
    const std::string slow = "sleep 0." + std::to_string(chance_() % 3) + "; ";
    std::string name;
    Json input;
    switch (n % 6) {
      case 0:
        name = "newsletter";
        input = {{"readers", Json::array({"a@x", "b@x", "c@x"})},
                 {"text", "hello"},
                 {"send", slow + "echo \"$1\" >>" + shop_.box.out("sent-" + tag) + "; " + slow}};
        break;
      case 1:
        name = "fleet";
        input = {{"hosts", "h1 h2 h3"}, {"command", slow + "echo ran >>count-" + tag + "; " + slow + "echo fine"}};
        break;
      case 2:
        name = "report";
        input = {{"sources", {{"north", slow + "echo 1"}, {"south", slow + "echo 2"}}},
                 {"target", place_.str("report-" + tag)}};
        break;
      case 3:
        name = "photos";
        for (const char* photo : {"1", "2", "3"})
          write_file(place_ / ("card-" + tag) / (std::string(photo) + ".jpg"), photo + tag);
        input = {{"card", place_.str("card-" + tag)}, {"library", place_.str("library-" + tag)}};
        break;
      case 4:
        name = "restore-drill";
        fs::create_directories(place_ / ("dumps-" + tag));
        input = {{"database", place_.str("app.db")}, {"into", place_.str("dumps-" + tag)}};
        break;
      default: name = "purchase"; input = {{"shop", provider_.url("")}, {"article", "lamp" + tag}, {"cents", 20'000}};
    }
    runs_.push_back({shop_.box.start(name, input.dump()), name, tag});
  }

  // Answers what is asked, in doubt by what happened out there.
  void answer_all() {
    const Finished asked = shop_.box.bide({"inbox", "--json"});
    if (asked.exit.code != 0) return;
    const Json inbox = Json::parse(asked.out);
    for (const Json& wait : inbox["items"]) {
      const std::string id = std::to_string(wait["id"].get<int>());
      const std::string run = std::to_string(wait["run"].get<int>());
      if (wait["kind"] == "approval") (void)shop_.box.bide({"approve", id});
      if (wait["kind"] == "question") (void)shop_.box.bide({"answer", id, "yes"});
      if (wait["kind"] != "reconcile") continue;
      const std::string key = key_in_doubt(run, wait);
      if (key.empty()) continue;
      if (happened(run, key)) {
        (void)shop_.box.bide({"answer", id, "ran", "--result", "\"fine\\n\""});
      } else {
        (void)shop_.box.bide({"answer", id, "run"});
      }
    }
  }

  enum class Victim { agent, program, holder };
  // False: there was none of it.
  bool kill(Victim victim) {
    if (victim == Victim::agent) {
      shop_.box.kill_agent();
      shop_.box.serve();
      return true;
    }
    std::vector<int> found;
    for (const std::string& pid : shop_.box.left()) {
      const auto process = read_process(std::stoi(pid));
      if (!process) continue;
      const std::string own = read_file("/proc/" + pid + "/cmdline");
      const std::string above = read_file("/proc/" + std::to_string(process->parent) + "/cmdline");
      if (victim == Victim::holder && own.find(std::string("--holder") + '\0') != std::string::npos)
        found.push_back(std::stoi(pid));
      if (victim == Victim::program && above.find(std::string("--guard") + '\0') != std::string::npos)
        found.push_back(std::stoi(pid));
    }
    if (found.empty()) return false;
    return ::kill(found[chance_() % found.size()], SIGKILL) == 0;
  }

  [[nodiscard]] int live() const {
    return shop_.box.sql("SELECT count(*) FROM runs WHERE finished_at IS NULL")[0][0].get<int>();
  }
  [[nodiscard]] Json sql(const std::string& query) const { return shop_.box.sql(query); }
  std::uint64_t chance() { return chance_(); }

  void check() const {
    for (const Run& one : runs_) {
      INFO("run " << one.id << " " << one.name << " " << one.tag);
      const Json shown = shop_.box.show(one.id);
      INFO(shown.dump(1) << shop_.box.bide({"journal", one.id}).out);
      CHECK(shown["status"] == "completed");
      if (one.name == "newsletter") {
        std::multiset<std::string> sent;
        std::istringstream lines(shop_.box.text("sent-" + one.tag));
        for (std::string line; std::getline(lines, line);) sent.insert(line);
        CHECK(sent == std::multiset<std::string>{"a@x", "b@x", "c@x"});
      } else if (one.name == "fleet") {
        for (const char* host : {"h1", "h2", "h3"})
          CHECK(shop_.box.text("host-" + std::string(host) + "/count-" + one.tag) == "ran\n");
      } else if (one.name == "photos") {
        CHECK(shown["result"] == Json{{"photos", 3}, {"files", 3}, {"removed", true}});
      } else if (one.name == "restore-drill") {
        CHECK(fs::exists(shown["result"]["dump"].get<std::string>()));
      } else if (one.name == "report") {
        CHECK(read_file(place_ / ("report-" + one.tag)).find("north") != std::string::npos);
      }
    }
    for (const auto& [request, keys] : done_) {
      INFO(request);
      CHECK(keys.size() == 1);
    }
  }

 private:
  struct Run {
    std::string id;
    std::string name;
    std::string tag;
  };
  [[nodiscard]] std::string key_in_doubt(const std::string& run, const Json& wait) const {
    const Json rows = sql("SELECT s.position FROM waits w JOIN steps s ON s.id = w.step_id WHERE w.run_id = " + run +
                          " AND w.id = " + std::to_string(wait["id"].get<int>()));
    if (rows.empty()) return "";
    // branch/kind/name/key/n
    std::vector<std::string> parts{""};
    for (const char c : rows[0][0].get<std::string>()) {
      if (c == '/')
        parts.emplace_back();
      else
        parts.back() += c;
    }
    return parts.size() > 3 ? parts[3] : "";
  }
  [[nodiscard]] bool happened(const std::string& run, std::string key) const {
    const auto one = std::find_if(runs_.begin(), runs_.end(), [&](const Run& r) { return r.id == run; });
    if (const auto at = key.find("%40"); at != std::string::npos) key.replace(at, 3, "@");
    if (one->name == "fleet") return shop_.box.lines("host-" + key + "/count-" + one->tag) > 0;
    return ("\n" + shop_.box.text("sent-" + one->tag)).find("\n" + key + "\n") != std::string::npos;
  }

  TempDir place_;
  std::map<std::string, std::set<std::string>> done_;  // keys by request; the sink asks one at a time
  Sink provider_;
  Shop shop_;
  std::vector<Run> runs_;
  std::mt19937_64 chance_;
};

void kill_them(int kills) {
  const char* given = std::getenv("BIDE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : SystemRandom().next();
  WARN("BIDE_TEST_SEED=" << seed);
  Market market(seed);
  constexpr Market::Victim kVictims[] = {Market::Victim::agent, Market::Victim::program, Market::Victim::holder};
  int killed[3] = {};
  for (int kill = 0; kill < kills; ++kill) {
    market.start();
    if (kill % 2 == 0) market.answer_all();
    const int which = kill % 3;
    const auto moment = std::chrono::milliseconds(market.chance() % 300);
    (void)holds_within(moment, [] { return false; });  // chance, and no condition, says when
    // One of its kind may have to come first, of another run if these have no step left.
    if (holds_within(20s * kSlower, [&] {
          market.answer_all();
          if (market.kill(kVictims[which])) return true;
          if (market.live() == 0) market.start();
          return false;
        }))
      ++killed[which];
  }
  eventually(
      [&] {
        market.answer_all();
        return market.live() == 0;
      },
      [&] {
        return market
            .sql(
                "SELECT f.name, r.id, r.status, r.reason FROM runs r JOIN workflows f ON f.id = r.workflow_id "
                "WHERE r.finished_at IS NULL")
            .dump();
      },
      400s);
  market.check();
  const int asked = market.sql("SELECT count(*) FROM waits WHERE kind = 'reconcile'")[0][0].get<int>();
  WARN("killed agents " << killed[0] << ", programs " << killed[1] << ", holders " << killed[2] << "; asked about "
                        << asked << " steps");
  // What a living holder or its file could tell is asked nobody.
  CHECK(asked <= killed[2]);
  // The floor: each kind died.
  for (const int count : killed) CHECK(count >= kills / 6);
}

TEST_CASE("examples: twelve kills of agent, program and holder, and each effect as often as it may happen [I2]") {
  kill_them(12);
}

TEST_CASE("examples: 200 kills of agent, program and holder, and each effect as often as it may happen [I2]",
          "[.long]") {
  kill_them(200);
}

}  // namespace
}  // namespace bide::test
