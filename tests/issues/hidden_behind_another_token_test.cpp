// A step's command was taken for the person who runs the agent when it carried the token of another agent (the search
// for its attempt ended at the first token), when the process that connected had ended and its child asked, when an
// ancestor ended during the search, or when it had very many ancestors: it could approve its own gate. Now the search
// goes to the top and takes our token wherever it stands, and whoever cannot be identified is nobody.
#include <sys/wait.h>
#include <catch2/catch.hpp>

#include <memory>

#include "agent/base/process_tree.h"
#include "agent/work/guard.h"
#include "tests/program/process_support.h"
#include "tests/support/eventually.h"
#include "tests/web/front.h"

using namespace bide;
using namespace bide::test;
using work::GuardedProcess;

namespace {

struct Tree {
  TempDir dir;
  std::string tag = unique_tag();
  work::SystemSpawner spawner;
  std::unique_ptr<GuardedProcess> guard;

  explicit Tree(std::string script) {
    for (auto at = script.find("TAG"); at != std::string::npos; at = script.find("TAG")) script.replace(at, 3, tag);
    guard = std::move(std::get<0>(GuardedProcess::start(spawner, {.guard_executable = BIDE_EXECUTABLE,
                                                                  .argv = {"/bin/sh", "-c", script},
                                                                  .environment = attempt_environment(agent()),
                                                                  .cwd = dir.str(),
                                                                  .log_path = dir.str("log")})));
    guard->go();
    eventually([&] { return !running_with("." + tag).empty(); }, "it sleeps");
  }
  ~Tree() {
    guard->end();
    eventually([&] { return guard->poll_reports().over(); }, "the tree has ended");
  }
  [[nodiscard]] std::string agent() const { return dir.str("sock"); }
  [[nodiscard]] ProcessKey sleeper() const { return read_process(running_with("." + tag).at(0)).value().key; }
};

}  // namespace

TEST_CASE("[A7] issue: our token counts behind that of another agent and behind one that was made up") {
  const std::string masks = GENERATE(std::string("BIDE_AGENT=/x"), std::string("BIDE_AGENT=/x BIDE_ATTEMPT=bat_9_9_x"),
                                     std::string("BIDE_ATTEMPT=bat_9_9_x"), std::string("env -i BIDE_AGENT=/x"),
                                     std::string("env -i BIDE_AGENT=/x BIDE_STEP=bst_9_9_9_x"));
  INFO(masks);
  const Tree tree(masks + " sleep 1000.TAG & wait");
  const auto of = attempt_of(tree.sleeper(), tree.agent());
  REQUIRE(of);
  CHECK(of->token == "bat_7_1_secret");
}

TEST_CASE("[A7] issue: the command of a step is known as that beside its run") {
  const Tree tree("BIDE_STEP=bst_7_1_3_n sh -c 'env -u BIDE_ATTEMPT sleep 1000.TAG & wait' & wait");
  const auto of = attempt_of(tree.sleeper(), tree.agent());
  REQUIRE(of);
  CHECK(of->token == "bat_7_1_secret");
  CHECK(of->step == "bst_7_1_3_n");
}

TEST_CASE("[A7] issue: whose process it is cannot be told when it is gone or another has its number") {
  const auto self = read_process(::getpid()).value().key;
  CHECK_THROWS_AS(attempt_of({self.pid, self.start + 1}, "/x"), CannotTell);
  CHECK_THROWS_AS(attempt_of({self.pid, 0}, "/x"), CannotTell);
  CHECK_THROWS_AS(attempt_of({0x3fffffff, 7}, "/x"), CannotTell);
  CHECK_THROWS_AS(attempt_of({0, 0}, "/x"), CannotTell);
}

TEST_CASE("[A7] issue: whose process it is cannot be told below very many others") {
  const Tree tree("f() { if [ $1 -gt 0 ]; then ( f $(($1 - 1)); : ); else sleep 1000.TAG; fi; }; f 260");
  CHECK_THROWS_AS(attempt_of(tree.sleeper(), tree.agent()), CannotTell);
}

TEST_CASE("[A7] issue: a peer that cannot be identified is nobody") {
  Front front;
  front.auth().set_attempt_of_process(
      [](const ProcessKey&) -> std::optional<web::Auth::OfAttempt> { throw CannotTell("pid 1 is gone"); });
  const HttpAnswer answer = front.unix_socket().ask("POST", "/v1/runs", "{}");
  CHECK(answer.status == 403);
  CHECK(answer.body.find("cannot be told who asks") != std::string::npos);
  CHECK(front.unix_socket().ask("GET", "/v1/waits").status == 403);
  CHECK(front.tcp().ask("GET", "/v1/waits", {}, Front::bearer()).status == 200);
  CHECK(front.runs() == 0);
}
