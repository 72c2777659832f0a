// bide check, by reading and by replaying the open runs against an edited version [N117, issue 4].
#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <set>

#include "tests/program/e2e_box.h"
#include "tests/program/scripts.h"
#include "tests/support/golden.h"
#include "tests/support/http_client.h"

namespace bide::test {

TEST_CASE("[N117] e2e: check finds by reading what reading can find in the ten unsafe scripts, nothing in the clean") {
  const Scripts unsafe("unsafe");
  const std::set<std::string> only_by_trying = {"counter.sh", "move.sh", "glob.sh"};
  for (const std::string& name : unsafe.names()) {
    const Finished done = unsafe.bide("check", name);
    INFO(name << "\n" << done.out << done.err);
    CHECK(done.exit == Exit{only_by_trying.contains(name) ? 0 : 1, 0});
    check_golden("unsafe/" + name + ".check", done.out);
  }
  const Scripts clean("clean");
  for (const std::string& name : clean.names()) {
    const Finished done = clean.bide("check", name, {"--json"});
    INFO(name << "\n" << done.out << done.err);
    CHECK(done.exit == Exit{0, 0});
    const Json report = Json::parse(done.out);
    CHECK(report["findings"].empty());
    CHECK(report["runs"].is_null());  // no agent answers
  }
}

TEST_CASE("[N117] e2e: check finds each verb that is called as it cannot be, before a run ends with it") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"bide step hello echo hi", "write the command after --"},
      {"bide step a --efect pure -- echo", "did you mean --effect?"},
      {"bide step b --effect idempotant -- echo", "it is one of pure, idempotent, non_idempotent"},
      {"bide step c --retries three -- echo", "is no number"},
      {"bide step d --export n -- echo", "--export names variables for --compensate"},
      {"bide stpe e -- echo", "did you mean bide step?"},
      {"bide wait aproval go", "it is bide wait approval TEXT"},
      {"bide wait approval --name f", "takes one text and has 0"},
      {"bide sleep 5", "write the length as"},
      {"bide result ok", "is no field"},
      {"bide result n:=one", "is no JSON"},
      {"bide each x --key-from list -- echo", "the command has no {}"},
      {"bide approve 3", "is for people"},
      {"timeout 5 bide value sometimes", ""},  // not looked at: what stands before it may change its words
  };
  // What only the run knows is no fault: a variable, a file, a secret.
  std::string script =
      "n=$(bide input n)\nn_list=$(bide input list)\n"
      "bide step ok --retries \"$n\" --timeout \"${n}s\" --secret TOKEN -- echo \"$n\"\n"
      "bide wait question 'When?' --name when --schema form.json\n"
      "bide wait approval 'Go?' --name go --data \"{\\\"n\\\":$n}\"\n"
      "bide each all --key-from list -- echo {}\n"
      "bide call other --input @in.json\n"
      "bide step many $n_list -- true\n"
      "bide state set phase \"$n\"; bide show 1 >/dev/null\n"
      "bide result n:=\"$n\" list:=@list\n";
  const Scripts right("right.sh", script);
  const Finished fine = right.bide("check", "right.sh");
  INFO(fine.out << fine.err);
  CHECK(fine.exit == Exit{0, 0});
  for (const auto& [call, said] : wrong) script += call + "\n";
  const Scripts scripts("wrong.sh", script);
  const Finished done = scripts.bide("check", "wrong.sh", {"--json"});
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{1, 0});
  std::map<std::string, std::string> found;
  const Json report = Json::parse(done.out);
  for (const Json& one : report["findings"])
    if (one["code"] == "usage") found[one["text"]] = one["what"];
  for (const auto& [call, said] : wrong) {
    INFO(call << ": " << found[call]);
    CHECK(found[call].empty() == said.empty());
    CHECK(found[call].find(said) != std::string::npos);
  }
}

TEST_CASE("[N117] e2e: check replays the open runs against an edited version, and touches nothing") {
  Box box;
  const std::string begin = "bide step fetch -- sh -c 'echo fetched >> \"$1\"; echo 7 > size' fetch $OUT/fetched\n";
  const std::string body = begin + "size=$(cat size)\nbide wait approval \"Install $size?\" --name go\n";
  const std::string end =
      "bide step install --key \"$(pwd)\" -- sh -c 'echo done >> \"$1\"' install $OUT/installed\n"
      "bide wait approval 'And now?' --name now\nbide result size:=$size\n";
  box.program("flow", body + end);
  const std::string first = box.start("flow");
  const std::string second = box.start("flow");
  box.suspended(first);
  box.decide(second, "approve");
  box.comes_to(second, "waiting");
  box.wait_of(second);
  box.suspended(second);
  REQUIRE(box.lines("fetched") == 2);
  REQUIRE(box.lines("installed") == 1);
  const auto rows = [&] { return box.sql("SELECT * FROM runs").dump() + box.sql("SELECT * FROM steps").dump(); };
  const std::string before = rows();
  const auto check = [&](int code) {
    const Finished done = box.bide({"check", "flow", "--workflows", box.flows(), "--json"});
    INFO(done.out << done.err);
    CHECK(done.exit == Exit{code, 0});
    CHECK(rows() == before);
    CHECK(box.lines("fetched") == 2);
    CHECK(box.lines("installed") == 1);
    return Json::parse(done.out)["runs"];
  };

  Json runs = check(0);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0] == Json{{"run", std::stoi(first)}, {"status", "waiting"}, {"says", "goes_on"}, {"at", "approval go"}});
  CHECK(runs[1]["at"] == "approval now");

  // More behind what is recorded: they go on there.
  box.program("flow", body + "bide step note -- echo noted\n" + end);
  runs = check(0);
  CHECK(runs[0]["at"] == "approval go");
  CHECK(runs[1]["at"] == "step note");

  // Another question: whoever was asked the old one is not asked.
  box.program("flow", begin + "size=$(cat size)\nbide wait approval \"Really install $size?\" --name go\n" + end);
  runs = check(1);
  for (const Json& run : runs) {
    INFO(run.dump());
    CHECK(run["says"] == "fails");
    CHECK(run["error"]["code"] == "NonDeterminism");
    const std::string message = run["error"]["message"];
    CHECK(message.find("the text of go was Install 7? and is Really install 7?") != std::string::npos);
  }

  // The second one has come by the place that was taken out, the first one goes on with what is there.
  box.program("flow", begin + "size=$(cat size)\nbide result size:=$size\n");
  runs = check(0);
  CHECK(runs[0]["says"] == "completes");

  // Over HTTP it is the same, and an operator's.
  HttpClient operators = HttpClient::unix_socket(box.socket());
  HttpAnswer answer = operators.ask("POST", "/v1/workflows/flow/check", "{}");
  CHECK(answer.status == 200);
  Json report = Json::parse(answer.body);
  CHECK(report["ok"] == true);
  CHECK(report["findings"].empty());
  CHECK(report["runs"] == runs);
  box.program("flow", begin + "size=$(cat size)\nbide wait approval \"Really install $size?\" --name go\n" + end +
                          "date >> \"$OUT/log\"\n");
  answer = operators.ask("POST", "/v1/workflows/flow/check", "{}");
  report = Json::parse(answer.body);
  CHECK(report["ok"] == false);
  CHECK(report["findings"].size() == 1);
  CHECK(report["runs"][0]["error"]["code"] == "NonDeterminism");
  CHECK(report["runs"][1]["says"] == "fails");
  CHECK(operators.ask("POST", "/v1/workflows/flwo/check", "{}").body.find("is flow meant?") != std::string::npos);
  box.program("broken", "bide result '");
  write_file(box.flows() + "/broken.toml", "odd = 1\n");
  answer = operators.ask("POST", "/v1/workflows/broken/check", "{}");
  CHECK(answer.status == 409);
  CHECK(Json::parse(answer.body)["code"] == "check_failed");
  CHECK(Json::parse(answer.body)["detail"].get<std::string>().find("odd") != std::string::npos);
  CHECK(rows() == before);
  CHECK(box.lines("fetched") == 2);
  CHECK(box.lines("installed") == 1);
  for (const char* left : {"/check.toml", "/check.out", "/check.err"}) {
    CHECK_FALSE(std::filesystem::exists(box.data() + left));
  }
  box.program("flow", begin + "size=$(cat size)\nbide result size:=$size\n");

  box.decide(first, "approve");
  box.comes_to(first, "waiting");
  box.decide(second, "approve");
  CHECK(box.comes_to(second, "completed")["result"] == Json{{"size", 7}});
}

}  // namespace bide::test
