// bide rehearse on scripts as people write them: each fault between verbs is found and named, and nothing in a clean
// one [N117]. The scripts lie in tests/program/rehearse/; what is said of the unsafe ones in tests/golden/unsafe/.
#include <catch2/catch.hpp>

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/scripts.h"
#include "tests/support/golden.h"

namespace bide::test {

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// What chance and the day have given, as N: digits in a row of four and more, names of mktemp.
std::string steady(std::string text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 4, "tmp.") == 0) {
      out += "tmp.N";
      for (i += 4; i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;) ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end - i >= 3) {
      out += "N";
      i = end;
      if (text.compare(i, 1, "-") == 0 && text.size() > i + 6 && text[i + 3] == '-') {
        out += "-N-N";  // a day
        i += 6;
      }
      continue;
    }
    out += text[i++];
  }
  return out;
}

}  // namespace

TEST_CASE("[N117] e2e: rehearse finds the fault of each of ten unsafe scripts, and says where and what to write") {
  const Scripts scripts("unsafe");
  REQUIRE(scripts.names().size() == 10);
  for (const std::string& name : scripts.names()) {
    const Finished done = scripts.bide("rehearse", name);
    INFO(name << "\n" << done.out << done.err);
    CHECK(done.exit == Exit{1, 0});
    CHECK(done.err.empty());
    check_golden("unsafe/" + name + ".rehearse", steady(done.out));
  }
  CHECK(fs::is_empty(scripts.scratch()));
}

TEST_CASE("[N117] e2e: rehearse finds nothing in ten clean scripts") {
  const Scripts scripts("clean");
  REQUIRE(scripts.names().size() == 11);  // one is the child of another
  for (const std::string& name : scripts.names()) {
    std::vector<std::string> answers;
    if (name == "alarm.sh") answers = {"--answer", "price=40"};
    if (name == "adder.sh") answers = {"--input", R"({"a": 1, "b": 2})"};
    const Finished done = scripts.bide("rehearse", name, answers);
    INFO(name << "\n" << done.out << done.err);
    CHECK(done.exit == Exit{0, 0});
    CHECK(done.err.empty());
  }
  CHECK(fs::is_empty(scripts.scratch()));
}

TEST_CASE("[N117] e2e: a rehearsal runs each step once a run, stubs none, and lets no real time pass") {
  const Scripts scripts("job.sh",
                        "x=$(bide step work -- sh -c 'echo done >> \"$1\"; echo worked' work $OUT/effects)\n"
                        "bide sleep 300d\n"
                        "bide send http://127.0.0.1:9/nobody --data '{\"a\":1}'\n"
                        "bide wait approval 'Two of us?' --quorum 2 --not-initiator --name two\n"
                        "bide result x=\"$x\"\n");
  Finished done = scripts.bide("rehearse", "job.sh", {"--json"});
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{0, 0});
  CHECK(scripts.lines("effects") == 2);  // a straight run, and one that was killed
  const Json report = Json::parse(done.out);
  CHECK(report["ok"] == true);
  CHECK(report["straight"]["result"] == Json{{"x", "worked"}});
  CHECK(report["straight"]["verbs"] == 4);
  CHECK(report["straight"]["attempts"] == 1);
  CHECK(report["killed"]["attempts"] == 6);  // ended by four verbs, at the end, and the last
  CHECK(report["differences"].empty());

  done = scripts.bide("rehearse", "job.sh", {"--json", "--stub-steps", "--answer", "work=stubbed"});
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{0, 0});
  CHECK(scripts.lines("effects") == 2);
  CHECK(Json::parse(done.out)["killed"]["result"] == Json{{"x", "stubbed"}});
}

TEST_CASE("[N117] e2e: what a rehearsal cannot know it asks for, and a denial is an end like any other") {
  const Scripts scripts("asks.sh",
                        "bide wait approval 'Go?'\n"
                        "name=$(bide wait question 'Who?' --name who)\n"
                        "bide result name=\"$name\"\n");
  Finished done = scripts.bide("rehearse", "asks.sh");
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{2, 0});
  CHECK(done.err.find("--answer who=VALUE") != std::string::npos);
  CHECK(fs::is_empty(scripts.scratch()));

  done = scripts.bide("rehearse", "asks.sh", {"--answer", "who=ada", "--answer", "nobody=1"});
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{0, 0});
  CHECK(done.err.find("nobody") != std::string::npos);

  done = scripts.bide("rehearse", "asks.sh", {"--answer", "approval=denied", "--json"});
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{0, 0});
  CHECK(Json::parse(done.out)["killed"]["error"]["code"] == "Denied");
}

TEST_CASE("[N117] e2e: a script that fails by itself is told so, and --keep leaves what there is") {
  const Scripts scripts("fails.sh", "bide step one -- true\necho no such luck >&2\nexit 3\n");
  const Finished done = scripts.bide("rehearse", "fails.sh", {"--keep", scripts.out("kept")});
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{1, 0});
  CHECK(done.out.find("fails already: program_failed") != std::string::npos);
  CHECK(done.out.find("no such luck") != std::string::npos);
  CHECK(read_file(scripts.out("kept/data/logs/1.log")).find("no such luck") != std::string::npos);
  const Finished unknown = scripts.bide("rehearse", "no-such.sh");
  CHECK(unknown.exit == Exit{2, 0});
}

TEST_CASE("[N117] e2e: a script whose second run fails for what the first has left is no clean one") {
  const Scripts scripts("leaves.sh", "mkdir $OUT/made\nbide wait approval 'Go?'\nbide result ok=yes\n");
  Finished done = scripts.bide("rehearse", "leaves.sh");
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{1, 0});
  CHECK(done.out.find("cannot be rehearsed: a second straight run fails") != std::string::npos);
  CHECK(done.out.find("File exists") != std::string::npos);
  CHECK(done.out.find("no difference") == std::string::npos);
  fs::remove_all(scripts.out("made"));
  done = scripts.bide("rehearse", "leaves.sh", {"--json"});
  INFO(done.out << done.err);
  CHECK(done.exit == Exit{1, 0});
  const Json report = Json::parse(done.out);
  CHECK(report["ok"] == false);
  CHECK(report["straight"]["status"] == "completed");
  CHECK(report["again"]["status"] == "failed");
}

}  // namespace bide::test
