// A program that is killed closes its pipes, and a verb that read one saw the end of the file as if all had been
// written: `bide step --stdin` recorded, and ran, half of what it was to be given, and the next attempt, that asked
// with the whole, met NonDeterminism. A verb says when it has read, and one whose program is ending begins nothing.
#include <catch2/catch.hpp>

#include <csignal>
#include <sstream>
#include <vector>

#include "agent/base/json.h"
#include "agent/base/process_tree.h"
#include "tests/program/e2e_box.h"
#include "tests/web/program_front.h"

using namespace bide;
using namespace bide::test;

namespace {

struct Reading {
  std::string kind;
  std::string verb;  // of Python: what follows `bide`
  std::string written;
  std::string whole;
};

const std::string kAppend = "'sh', '-c', 'cat >> $0 && echo >> $0', OUT + '/effect'";
const std::string kStep = "'step', 'keep', '--stdin', '--', " + kAppend;
// Where the half is JSON too, nothing but its program says that it is one.
const std::vector<Reading> kReadings = {
    {"nothing", kStep, "", "hello"},
    {"half", kStep, "hel", "hello"},
    {"send", "'send', 'http://127.0.0.1:9/', '--data', '-'", "12", "1234"},
    {"call", "'call', 'child', '--input', '-'", "12", "1234"},
    {"each", "'each', '--key-from', '-', '--', 'sh', '-c', 'echo $1 >> $0', OUT + '/effect', '{}'", "one\ntw",
     "one\ntwo\n"},
    {"continue", "'continue-as-new', '--input', '-'", "12", "1234"},
    {"result", "'result', '-'", R"({"a)", R"({"a": 1})"},
};

// The first attempt writes a part, says who it is, and waits to be killed.
std::string program_of(const Reading& reading) {
  const auto bytes = [](const std::string& text) { return "b'''" + text + "'''"; };
  return "import json, os, signal, subprocess\n"
         "if json.load(open(os.environ['BIDE_INPUT'])) == 1234:\n"
         "    raise SystemExit(0)\n"
         "verb = subprocess.Popen(['bide', " +
         reading.verb +
         "], stdin=subprocess.PIPE)\n"
         "if not os.path.exists(OUT + '/killed'):\n"
         "    verb.stdin.write(" +
         bytes(reading.written) +
         ")\n"
         "    verb.stdin.flush()\n"
         "    with open(OUT + '/who.new', 'w') as out:\n"
         "        print(os.getppid(), os.getpid(), file=out)\n"
         "    os.rename(OUT + '/who.new', OUT + '/who')\n"
         "    while True:\n"
         "        signal.pause()\n"
         "verb.communicate(" +
         bytes(reading.whole) +
         ")\n"
         "raise SystemExit(verb.returncode)\n";
}

// Stopped, it does not say yet that its program has ended.
struct Guarded {
  int guard = 0;
  int program = 0;

  explicit Guarded(const std::string& who) {
    std::istringstream(who) >> guard >> program;
    REQUIRE(guard > 1);
    REQUIRE(program > 1);
    REQUIRE(::kill(guard, SIGSTOP) == 0);
    eventually([this] { return read_process(guard)->stopped(); }, "the guard stands still");
  }
  ~Guarded() { ::kill(guard, SIGCONT); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
};

bool was_refused(Box& box) { return box.agent().err().find("attempt.reader_too_late") != std::string::npos; }

std::int64_t number(const Box& box, const std::string& query) { return box.sql(query)[0][0].get<std::int64_t>(); }

// Refused, or what else there is to see of a verb that was not.
void has_asked(Box& box, const std::string& run) {
  eventually(
      [&] { return was_refused(box) || box.status(run) != "running" || number(box, "SELECT count(*) FROM steps") > 0; },
      "the verb has asked");
}

}  // namespace

TEST_CASE("[K6] [V1] issue: what a verb read from a program that was killed is not taken for the whole") {
  const Reading reading = GENERATE(from_range(kReadings));
  INFO(reading.kind);
  Box box;
  box.python("reads", program_of(reading));
  box.program("child", "bide input > $OUT/child\nbide result done:=true\n");
  const std::string run = box.start("reads");
  eventually([&] { return !box.text("who").empty(); }, "the verb reads");
  {
    const Guarded guarded(box.text("who"));
    box.touch("killed");
    REQUIRE(::kill(guarded.program, SIGKILL) == 0);
    has_asked(box, run);
    CHECK(was_refused(box));
    CHECK(number(box, "SELECT count(*) FROM steps") == 0);
    CHECK(box.text("effect").empty());
  }
  const Json done = box.comes_to(run, "completed");
  if (reading.kind == "nothing" || reading.kind == "half") CHECK(box.text("effect") == "hello\n");
  if (reading.kind == "each") CHECK(box.text("effect") == "one\ntwo\n");
  if (reading.kind == "result") CHECK(done["result"] == Json{{"a", 1}});
  if (reading.kind == "call") CHECK(box.text("child") == "1234\n");
  if (reading.kind == "call") CHECK(number(box, "SELECT count(*) FROM runs") == 2);
  if (reading.kind == "send")
    CHECK(box.sql("SELECT request FROM steps")[0][0].get<std::string>().find("1234") != std::string::npos);
  if (reading.kind == "continue") {
    CHECK(number(box, "SELECT count(*) FROM runs") == 2);
    CHECK(box.sql("SELECT input FROM runs WHERE id <> " + run)[0][0] == "1234");
  }
}

TEST_CASE("[V1] issue: a verb that had read and not asked when its program exited was open, and begins nothing") {
  Box box;
  box.program("hasty",
              "( until [ -e $OUT/written ]; do sleep 0.02; done; echo whole ) | "
              "bide step late --stdin -- sh -c 'cat >> $0' $OUT/effect &\n"
              "echo $PPID $$ > $OUT/who.new; mv $OUT/who.new $OUT/who\n"
              "until [ -e $OUT/leave ]; do sleep 0.02; done\n");
  const std::string run = box.start("hasty");
  eventually([&] { return !box.text("who").empty(); }, "the verb reads");
  {
    const Guarded guarded(box.text("who"));
    box.touch("leave");
    eventually([&] { return !read_process(guarded.program); }, "the program has exited");
    box.touch("written");
    has_asked(box, run);
  }
  box.fails(run, "UnfinishedBranch");
  CHECK(box.text("effect").empty());
  CHECK(number(box, "SELECT count(*) FROM steps") == 0);
}

TEST_CASE("[V1] issue: whatever a verb asks with what it has read is refused while its program ends") {
  Program program;
  const std::shared_ptr<flow::Attempt> attempt = program.front.rig.executor->attempt(program.run, 1);
  REQUIRE(attempt);
  const auto ask = [&](const std::string& operation, const std::string& body, bool has_read = true) {
    return program.front.ask("POST", program.at(operation), body,
                             program.token() + (has_read ? "Bide-Read: true\r\n" : ""));
  };
  const std::pair<std::string, std::string> all[] = {
      {"steps", R"({"name":"a","verb":"1"})"},
      {"steps/settled", R"({"name":"a","items":[]})"},
      {"messages", R"({"name":"m","url":"http://a.example/","verb":"2"})"},
      {"calls", R"({"name":"c","workflow":"echo","verb":"3"})"},
      {"waits", R"({"kind":"question","name":"q","request":{"text":"?"},"verb":"4"})"},
      {"state", R"({"name":"s","value":1,"verb":"5"})"},
      {"result", R"({"result":1})"},
      {"continue", R"({"input":1})"},
      {"end", R"({"code":"Usage","message":"stdin is no JSON"})"},
  };
  const auto all_are = [&](int status, const std::string& code) {
    for (const auto& [operation, body] : all) {
      INFO(operation);
      const HttpAnswer answer = ask(operation, body);
      CHECK(answer.status == status);
      CHECK(json::string_member(answer.body, "code") == code);
    }
  };
  all_are(503, "busy");  // the guard has not said yet who the program is: the verb asks again
  Process process({.argv = {"sleep", "1000"}});
  const ProcessKey lives = read_process(process.pid()).value().key;
  attempt->set_program(lives);
  CHECK(ask("steps", R"({"name":"lives","verb":"6"})").status == 200);
  CHECK_FALSE(attempt->reader_came_too_late());
  attempt->set_program({lives.pid, lives.start - 1});  // another process has its number by now
  all_are(409, "lease_lost");
  attempt->set_program(lives);
  process.kill();
  all_are(409, "lease_lost");
  CHECK(attempt->reader_came_too_late());
  CHECK(attempt->closing() == flow::Closing::open);
  CHECK(ask("steps", R"({"name":"given","verb":"7"})", false).status == 200);  // it has read nothing
}
