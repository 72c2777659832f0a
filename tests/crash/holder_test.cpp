// A step's command lives on while its agent is stopped, killed and started again: its holder sees to that [K2, K5, K7].
#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"
#include "tests/support/http_client.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

const std::string kUntilGo = "until [ -e \"$OUT/go\" ]; do sleep 0.02; done";

struct Held : CrashBox {
  // before, pay, after; `pay` does its effect, and then waits for the file `go`.
  explicit Held(const std::string& how = "",
                const std::string& command = "effect pay; " + kUntilGo + "; echo receipt") {
    program("flow",
            "bide step before --effect pure -- effect before\n"
            "x=$(bide step pay " +
                how + " -- sh -c '" + command +
                "')\n"
                "bide step after --effect pure -- effect after\nbide result got=\"$x\"\n");
    run = start("flow", {{"who", "ada"}});
    name = std::to_string(run);
    until_effects("pay " + name, 1);
    // A riding intent, and its holder's row, are on disk a little later.
    eventually([&] { return !holder_pid().empty(); }, "the holder is recorded");
    const auto found = read_process(std::stoi(holder_pid()));
    REQUIRE(found);
    holder = found->key;
  }
  [[nodiscard]] std::string holder_pid() const {
    return sql("SELECT pid FROM processes WHERE step_id IS NOT NULL AND status = 'running' AND run_id = " + name);
  }
  void stop_agent() {
    agent().signal(SIGTERM);
    const auto exit = agent().wait(60s);
    REQUIRE(exit);
    CHECK(*exit == Exit{0, 0});
  }
  // The processes of its command.
  [[nodiscard]] std::vector<ProcessInfo> commands() const {
    auto all = attempt_processes();
    std::erase_if(
        all, [&](const ProcessInfo& info) { return !environment_of(info.key.pid, "BIDE_STEP") || info.key == holder; });
    return all;
  }
  void until_ended() {
    eventually([&] { return !is_alive(holder) && commands().empty(); }, "the holder and its command are gone", 60s);
  }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(data() + "/outcomes"))
      names.push_back(entry.path().filename());
    return names;
  }
  // One effect, its outcome, and nobody was asked.
  void check_done() {
    until_status(run, "completed");
    CHECK(show(run)["result"] == Json{{"got", "receipt"}});
    CHECK(effects("before " + name) == 1);
    CHECK(effects("pay " + name) == 1);
    CHECK(effects("after " + name) == 1);
    CHECK(step(run, "pay")["executions"] == 1);
    CHECK(sql("SELECT count(*) FROM waits") == "0");
    CHECK(events(run, "step.late_outcome") == 0);
    eventually(
        [&] { return files().empty() && sql("SELECT count(*) FROM processes WHERE status <> 'stopped'") == "0"; },
        [&] { return "files and rows are left: " + sql("SELECT group_concat(status) FROM processes"); });
    until_ended();
  }
  std::int64_t run = 0;
  std::string name;
  ProcessKey holder;
};

TEST_CASE("[N113] a step over three restarts and a SIGKILL of the agent: one effect, its outcome, no question [K7]") {
  const std::string effect = GENERATE("--effect non_idempotent", "--effect idempotent");
  Held box(effect);
  for (int restart = 0; restart < 4; ++restart) {
    const std::string epoch = box.sql("SELECT epoch FROM runs");
    if (restart == 1) {
      box.kill_agent();
    } else {
      box.stop_agent();
    }
    CHECK(is_alive(box.holder));
    box.serve();
    // The program is run again, and its verb waits.
    eventually([&] { return box.sql("SELECT epoch FROM runs") > epoch && box.status(box.run) == "running"; },
               [&] { return box.show(box.run).dump(); }, 60s);
    CHECK(box.effects("pay " + box.name) == 1);
    CHECK(box.step(box.run, "pay")["status"] == "started");
  }
  CHECK(box.holder_pid() == std::to_string(box.holder.pid));
  box.touch("go");
  box.check_done();
}

TEST_CASE("[N113] the holder is killed with its agent: only then somebody is asked [E1]") {
  Held box;
  const bool with_command = GENERATE(true, false);
  box.kill_agent();
  REQUIRE(signal_process(box.holder, SIGKILL));
  if (with_command) {
    for (const auto& process : box.commands()) signal_process(process.key, SIGKILL);
  }
  box.serve();
  const std::int64_t wait = box.wait_of(box.run, "reconcile");
  CHECK(box.commands().empty());  // a command without its holder was ended before anybody was asked [K7]
  box.until_status(box.run, "waiting");
  CHECK(box.effects("pay " + box.name) == 1);
  box.answer(wait, {{"answer", "ran"}, {"result", "receipt\n"}});
  box.until_status(box.run, "completed");
  CHECK(box.effects("pay " + box.name) == 1);
  CHECK(box.effects("after " + box.name) == 1);
}

TEST_CASE("[N113] a holder that is killed while its agent lives: its command is ended, and somebody is asked [K7]") {
  Held box;
  REQUIRE(signal_process(box.holder, SIGKILL));
  (void)box.wait_of(box.run, "reconcile");
  CHECK(box.commands().empty());
  CHECK(box.effects("pay " + box.name) == 1);
  CHECK(box.events(box.run, "run.recovered") == 1);
}

TEST_CASE("[K7] the outcome that a dead holder has left in its file is taken, whoever died first") {
  Held box;
  box.kill_agent();
  box.touch("go");
  eventually([&] { return box.files().size() == 1 && box.files()[0][0] != '.'; }, "the outcome is in its file");
  SECTION("agent killed between file and hand-in, the holder lives") {}
  SECTION("the holder is killed after its file") {
    REQUIRE(signal_process(box.holder, SIGKILL));
    box.until_ended();
    CHECK(box.files().size() == 1);
  }
  box.serve();
  box.check_done();
}

TEST_CASE("[K7] a file that was cut off is no outcome, and one that nobody knows is removed") {
  Held box;
  box.kill_agent();
  box.touch("go");
  eventually([&] { return box.files().size() == 1 && box.files()[0][0] != '.'; }, "the outcome is in its file");
  REQUIRE(signal_process(box.holder, SIGKILL));
  box.until_ended();
  const std::string file = box.data() + "/outcomes/" + box.files()[0];
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 2);
  write_file(box.data() + "/outcomes/stranger", R"({"result":"x"})");
  box.serve();
  (void)box.wait_of(box.run, "reconcile");
  CHECK(box.files().empty());
  CHECK(box.effects("pay " + box.name) == 1);
}

TEST_CASE("[N124] a timeout while the agent is down: the holder keeps it [E5]") {
  const auto [flags, status] =
      GENERATE(table<std::string, std::string>({{"--timeout 2s --effect pure", "failed"},
                                                {"--timeout 2s", "waiting"},
                                                {"--timeout 2s --on-timeout fail", "failed"}}));
  Held box(flags, "effect pay; sleep 300 & sleep 301");
  box.kill_agent();
  eventually([&] { return box.commands().empty(); }, "its holder has ended the command", 60s);
  box.serve();
  box.until_status(box.run, status);
  CHECK(box.effects("pay " + box.name) == 1);
  if (status == "failed") {
    CHECK(box.show(box.run)["error"]["code"] == "Timeout");
    CHECK(box.step(box.run, "pay")["error"]["code"] == "Timeout");
  } else {
    (void)box.wait_of(box.run, "reconcile");
  }
}

TEST_CASE("[N90] cancel of a run whose step was begun by an attempt before: TERM, then KILL after the grace [V2, X1]") {
  const std::string trap = GENERATE("trap \"effect term; exit 0\" TERM", "trap \"\" TERM");
  Held box("", trap + "; effect pay; while :; do sleep 0.05; done");
  box.kill_agent();
  box.serve();
  eventually([&] { return box.sql("SELECT epoch FROM runs WHERE status = 'running'") == "2"; }, "it is driven again");
  CHECK(box.bide({"cancel", box.name}).exit.code == 0);
  box.until_status(box.run, "cancelled");
  CHECK(box.effects("term " + box.name) == (trap.find("effect") == std::string::npos ? 0 : 1));
  box.until_ended();
  CHECK(box.step(box.run, "pay")["status"] == (box.effects("term") == 1 ? "completed" : "needs_reconcile"));
  CHECK(box.effects("after") == 0);
}

TEST_CASE(
    "[N121] a nonce handed in twice, the second time while the next execution runs: acknowledged, nothing changed") {
  CrashBox box;
  box.program("flow",
              "bide step pay --retries 1 --backoff 10ms -- sh -c 'effect pay; [ -e \"$OUT/second\" ] || { touch "
              "\"$OUT/second\"; exit 3; }; " +
                  kUntilGo + "; echo receipt'\n");
  const std::int64_t run = box.start("flow");
  box.until_effects("pay", 2);
  const std::string nonce = box.sql("SELECT nonce FROM processes WHERE step_id IS NOT NULL ORDER BY id LIMIT 1");
  REQUIRE(nonce != box.sql("SELECT nonce FROM steps"));
  const auto hand_in = [&](const std::string& path, const std::string& token, const Json& body) {
    const auto answer =
        HttpClient::unix_socket(box.socket())
            .ask("POST", "/v1/outcomes/" + path, body.dump(), "Authorization: Bearer bst_1_1_1_" + token + "\r\n");
    return std::pair(answer.status, Json::parse(answer.body));
  };
  const std::string events = box.sql("SELECT count(*) FROM events");
  const Json error{{"code", "CommandFailed"}, {"message", "m"}};
  for (const Json& body : {Json{{"error", error}}, Json{{"result", "receipt\n"}}}) {
    const auto [status, said] = hand_in(nonce, nonce, body);
    CHECK(status == 200);
    CHECK(said["state"] == "again");
  }
  CHECK(hand_in("nobodys", "nobodys", {{"result", "x"}}).first == 404);
  CHECK(hand_in(nonce, "another", {{"result", "x"}}).first == 401);
  CHECK(hand_in(nonce, nonce, Json::object()).first == 422);
  CHECK(box.sql("SELECT count(*) FROM events") == events);
  CHECK(box.step(run, "pay")["status"] == "started");
  CHECK(box.step(run, "pay")["executions"] == 2);
  CHECK(box.sql("SELECT failures FROM steps") == "1");
  box.touch("go");
  box.until_status(run, "completed");
  CHECK(box.step(run, "pay")["result"] == "receipt\n");
  CHECK(box.effects("pay") == 2);
}

TEST_CASE("[W7] the holder of a run that ended without its code is ended, with all below it") {
  Held box("", "sleep 300 & setsid sleep 301 & effect pay; " + kUntilGo);
  CHECK(box.bide({"pause", box.name}).exit.code == 0);  // at the next boundary: the step goes on
  box.kill_agent();
  box.serve();
  eventually([&] { return box.status(box.run) == "queued"; }, [&] { return box.show(box.run).dump(); });
  CHECK(is_alive(box.holder));
  CHECK(box.bide({"cancel", box.name}).exit.code == 0);
  box.until_status(box.run, "cancelled");
  box.until_ended();
  CHECK(box.step(box.run, "pay")["status"] == "needs_reconcile");
}

TEST_CASE("[N89] with a holder: install ends by itself while the guard is stopped, no probe, one effect [K7]") {
  Held box("--probe 'effect probe; exit 100'");
  const std::string guard_pid = box.sql("SELECT pid FROM processes WHERE status <> 'stopped' AND step_id IS NULL");
  const auto guard = read_process(std::stoi(guard_pid));
  REQUIRE(guard);
  REQUIRE(signal_process(guard->key, SIGSTOP));
  box.kill_agent();
  box.serve();
  box.touch("go");
  // It is taken though no attempt may begin yet.
  eventually([&] { return box.step(box.run, "pay")["status"] == "completed"; },
             [&] { return box.step(box.run, "pay").dump(); }, 30s);
  CHECK(box.status(box.run) == "queued");
  CHECK(box.sql("SELECT epoch FROM runs") == "1");
  REQUIRE(signal_process(guard->key, SIGCONT));
  box.check_done();
  CHECK(box.effects("probe") == 0);
}

TEST_CASE("[K7] what a step left running ends with the attempt that began it, also when that is over already") {
  Held box("", "(sleep 300 &) ; effect pay; " + kUntilGo + "; echo receipt");
  SECTION("handed in to the next agent") {
    box.kill_agent();
    box.serve();
    eventually([&] { return box.sql("SELECT epoch FROM runs") == "2"; }, "it is driven again", 60s);
  }
  SECTION("handed in to nobody who drives it") {
    box.kill_agent();
    box.touch("go");
    eventually([&] { return box.files().size() == 1; }, "the outcome is in its file");
    box.serve();
  }
  SECTION("in its own attempt") {}
  box.touch("go");
  box.check_done();
}

TEST_CASE("A step's command asks for the input and says how far it is, whichever attempt drives its run [K2]") {
  Held box("", "effect pay; " + kUntilGo + "; bide progress 50 half; bide input who");
  box.kill_agent();
  SECTION("while the agent is away") { box.touch("go"); }
  box.serve();
  box.touch("go");
  box.until_status(box.run, "completed");
  CHECK(box.show(box.run)["result"] == Json{{"got", "ada"}});
  CHECK(box.events(box.run, "run.progress") == 1);
  CHECK(box.effects("pay " + box.name) == 1);
}

}  // namespace
}  // namespace bide::test
