// What is left of an attempt when its agent is gone and its guard cannot act: the next agent lets it change nothing,
// begins nothing before it has ended, and says whom it waits for.
#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>

#include "tests/crash/box.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

using Json = CrashBox::Json;
using namespace std::chrono_literals;

// A run whose agent was killed while its guard was stopped; another agent is there.
struct Stopped : CrashBox {
  enum class Holder { none, killed };
  explicit Stopped(const std::string& step, Holder how) {
    program("flow", step);
    run = start("flow");
    name = std::to_string(run);
    until_effects("half " + name, 1);
    const std::string pid = sql("SELECT pid FROM processes WHERE step_id IS NULL AND run_id = " + name);
    REQUIRE(!pid.empty());
    const auto found = read_process(std::stoi(pid));
    REQUIRE(found);
    guard = found->key;
    REQUIRE(signal_process(guard, SIGSTOP));
    kill_agent();
    if (how == Holder::killed) {
      const auto holder = read_process(std::stoi(sql("SELECT pid FROM processes WHERE step_id IS NOT NULL")));
      REQUIRE(holder);
      REQUIRE(signal_process(holder->key, SIGKILL));
    }
    serve();
  }
  [[nodiscard]] std::string epoch() const { return sql("SELECT epoch FROM runs WHERE id = " + name); }
  std::int64_t run = 0;
  std::string name;
  ProcessKey guard;
};

TEST_CASE("[K2] a verb of the attempt before hands in to the new agent: refused, kept as evidence, nothing changed") {
  // A program that does its effect itself, over HTTP: no holder has it.
  Stopped box(
      "cat >ask.py <<'PY'\n"
      "import http.client, json, os, socket, time\n"
      "class Agent(http.client.HTTPConnection):\n"
      "    def connect(self):\n"
      "        self.sock = socket.socket(socket.AF_UNIX)\n"
      "        self.sock.connect(os.environ['BIDE_AGENT'])\n"
      "def ask(path, body):\n"
      "    agent = Agent('localhost')\n"
      "    agent.request('POST', '/v1/runs/%s/attempt/%s' % (os.environ['BIDE_RUN'], path), json.dumps(body),\n"
      "                  {'Authorization': 'Bearer ' + os.environ['BIDE_ATTEMPT'], 'Content-Type': "
      "'application/json'})\n"
      "    return json.loads(agent.getresponse().read())\n"
      "step = ask('steps', {'name': 'pay', 'verb': 'one'})\n"
      "if step['state'] == 'execute':\n"
      "    os.system('effect half')\n"
      "    while not os.path.exists(os.environ['OUT'] + '/go'): time.sleep(0.02)\n"
      "    os.system('effect whole')\n"
      "    while True:\n"
      "        try: ask('steps/1/complete', {'nonce': step['nonce'], 'result': 'late\\n'}); break\n"
      "        except OSError: time.sleep(0.02)\n"
      "    time.sleep(300)\n"
      "PY\n"
      "python3 ask.py\nbide step after -- effect after\n",
      Stopped::Holder::none);
  box.touch("go");
  box.until_effects("whole " + box.name, 1);
  eventually([&] { return box.events(box.run, "step.late_outcome") == 1; },
             [&] { return "no late outcome: " + box.step(box.run, "pay").dump() + box.show(box.run).dump(); }, 30s);
  CHECK(box.step(box.run, "pay")["status"] == "started");
  CHECK(box.step(box.run, "pay")["result"].is_null());
  CHECK(box.status(box.run) == "queued");
  CHECK(box.epoch() == "1");
  CHECK(box.effects("after") == 0);
  // Once an execution, and only for whom knows its nonce: the token alone proves nothing after its agent has died.
  const auto token = environment_of(box.guard.pid, "BIDE_ATTEMPT");
  REQUIRE(token);
  for (const std::string& nonce : {std::string("another"), box.sql("SELECT nonce FROM steps WHERE name = 'pay'")}) {
    const HttpAnswer answer =
        HttpClient::unix_socket(box.socket())
            .ask("POST", "/v1/runs/" + box.name + "/attempt/steps/1/complete",
                 Json{{"nonce", nonce}, {"result", "late"}}.dump(), "Authorization: Bearer " + *token + "\r\n");
    INFO(answer.body);
    CHECK(answer.status == 409);
    CHECK(Json::parse(answer.body)["code"] == "lease_lost");
    CHECK(box.events(box.run, "step.late_outcome") == 1);
    CHECK(box.step(box.run, "pay")["status"] == "started");
  }
  // The verb does not return: the program of the old attempt goes no step further.
  CHECK(box.events(box.run, "step.completed") == 0);
  REQUIRE(signal_process(box.guard, SIGCONT));
  const std::int64_t wait = box.wait_of(box.run, "reconcile");
  CHECK(box.effects("whole") == 1);
  box.answer(wait, {{"answer", "ran"}, {"result", "late\n"}});
  box.until_status(box.run, "completed");
  CHECK(box.effects("whole") == 1);
  CHECK(box.effects("after") == 1);
  CHECK(box.events(box.run, "step.late_outcome") == 1);
}

TEST_CASE(
    "[N89] the guard stopped, agent and holder killed: no probe and no attempt before all is gone, and explain says "
    "who") {
  Stopped box(
      "bide step install --probe '"
      "kill -0 \"$(cat \"$OUT/pid\")\" 2>/dev/null && effect alive; effect probe; touch \"$OUT/go\"; exit 100' -- "
      "sh -c 'echo $$ >\"$OUT/pid\"; effect half; until [ -e \"$OUT/go\" ]; do sleep 0.02; done; effect whole'\n",
      Stopped::Holder::killed);
  const std::string explain = "/v1/runs/" + box.name + "/explain";
  eventually(
      [&] {
        return box.get(explain)["reason"] == "previous_attempt_alive" &&
               box.show(box.run)["reason"] == "previous_attempt_alive";
      },
      [&] { return "explain does not say it: " + box.get(explain).dump(); }, 50s);
  const std::string pid = std::to_string(box.guard.pid);
  CHECK(box.get(explain)["text"].get<std::string>().find("pid " + pid) != std::string::npos);
  CHECK(box.bide({"explain", box.name}).out.find(pid) != std::string::npos);
  CHECK(box.epoch() == "1");
  CHECK(box.status(box.run) == "queued");
  CHECK(box.effects("probe") == 0);
  CHECK(box.effects("half") == 1);
  REQUIRE(signal_process(box.guard, SIGCONT));
  box.until_status(box.run, "completed");
  CHECK(box.effects("alive") == 0);
  CHECK(box.effects("probe") == 1);
  CHECK(box.effects("half") == 2);
  CHECK(box.effects("whole") == 1);  // the first one was ended in its middle
  CHECK(box.epoch() == "2");
  CHECK_FALSE(is_alive(box.guard));
}

}  // namespace
}  // namespace bide::test
