// What was typed: verbs, flags, mistakes, help, completion; and what a console does with texts of others.
#include "agent/cli/arguments.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "agent/cli/cli.h"
#include "tests/support/golden.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::cli {
namespace {

struct Said {
  int code = 0;
  std::string out;
  std::string err;
};
Said typed(std::vector<std::string> words, const std::string& input = {}) {
  std::ostringstream out;
  std::ostringstream err;
  std::istringstream in(input);
  Console console{out, err, in};
  words.insert(words.begin(), "bide");
  const int code = run(words, console);
  return {code, out.str(), err.str()};
}

Arguments parsed(const std::vector<std::string>& words) {
  Arguments arguments;
  const auto ended = parse(words, arguments);
  INFO((ended ? ended->err : ""));
  REQUIRE_FALSE(ended);
  return arguments;
}

TEST_CASE("arguments: flags before and after the verb") {
  const Arguments before = parsed({"--json", "--agent", "/a", "show", "12"});
  CHECK(before.verb == "show");
  CHECK(before.json);
  CHECK(before.agent == "/a");
  CHECK(before.id == 12);
  const Arguments after = parsed({"show", "12", "--agent=/b", "--json"});
  CHECK(after.agent == "/b");
  CHECK(after.json);
}

TEST_CASE("arguments: --wait takes a length of time if one follows") {
  const Arguments forever = parsed({"run", "--wait", "rollout"});
  CHECK(forever.name == "rollout");
  CHECK(forever.wait);
  CHECK_FALSE(forever.wait_for);
  CHECK(parsed({"run", "rollout", "--wait", "10m"}).wait_for == 600'000);
  CHECK(parsed({"run", "rollout", "--wait=2s", "--key", "k"}).wait_for == 2'000);
  CHECK_FALSE(parsed({"run", "rollout"}).wait);
  Arguments arguments;
  CHECK(parse({"run", "rollout", "--wait=soon"}, arguments)->code == kUsage);
}

TEST_CASE("arguments: flags of serve become the configuration's") {
  const Arguments a = parsed({"serve", "--data", "/d", "--listen", "none", "--config", "/c.toml"});
  CHECK(a.config == "/c.toml");
  CHECK(a.flags == Flags{{"data_dir", "/d"}, {"listen", "none"}});
}

TEST_CASE("arguments: a wrong verb or flag gets the nearest right one, and exit code 2") {
  CHECK(typed({"aprove", "7"}).err == "bide: there is no verb aprove; did you mean bide approve?\nhint: bide --help\n");
  CHECK(typed({"aprove", "7"}).code == kUsage);
  CHECK(typed({"runs", "--jsno"}).err ==
        "bide: runs has no flag --jsno; did you mean --json?\nhint: bide runs --help\n");
  CHECK(typed({"run", "--imput", "{}"}).err ==
        "bide: run has no flag --imput; did you mean --input?\nhint: bide run --help\n");
  CHECK(typed({"runs", "12"}).err == "bide: runs does not take \"12\"\nhint: bide runs --help\n");
  CHECK(typed({"show", "twelve"}).code == kUsage);
  CHECK(typed({"show", "0"}).code == kUsage);
  CHECK(typed({"show"}).code == kUsage);
  CHECK(typed({"request-changes", "7"}).err.find("--comment") != std::string::npos);
  CHECK(typed({"runs", "--status", "done"}).code == kUsage);
  CHECK(typed({}).code == kUsage);
}

TEST_CASE("arguments: help of each verb, with examples") {
  std::string all = typed({"--help"}).out;
  CHECK(typed({"help"}).out == all);
  for (const std::string& verb : verb_names()) {
    const Said said = typed({"help", verb});
    if (said.code != kDone) continue;  // a verb of workflows: the front answers for it
    CHECK(typed({verb, "--help"}).out == said.out);
    CHECK(said.out.find("Examples:\n") != std::string::npos);
    all += "\n$ bide " + verb + " --help\n" + said.out;
  }
  test::check_golden("cli-help.txt", all);
}

TEST_CASE("arguments: the completion of bash knows verbs and flags") {
  const test::TempDir dir;
  const Said said = typed({"completion", "bash"});
  REQUIRE(said.code == kDone);
  test::write_file(dir / "script",
                   said.out + "COMP_WORDS=(bide \"$@\"); COMP_CWORD=$#; _bide; echo \"${COMPREPLY[@]}\"\n");
  const auto complete = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"bash", dir.str("script")});
    return test::run({.argv = words}).out;
  };
  CHECK(complete({"ap"}) == "approve\n");
  CHECK(complete({"ea"}) == "each\n");  // those of workflows too
  CHECK(complete({"cont"}) == "continue-as-new\n");
  CHECK(complete({"sta"}) == "state\n");
  CHECK(complete({"cal"}) == "call\n");
  CHECK(complete({"run", "--wa"}) == "--wait\n");
  CHECK(complete({"serve", "--print"}) == "--print-config\n");
}

TEST_CASE("arguments: input that is no JSON is refused before anybody is asked") {
  const Said bad = typed({"run", "w", "--input", "{\"a\":1,\"a\":2}", "--agent", "/none"});
  CHECK(bad.code == kUsage);
  CHECK(bad.err.find("bide: the input is no JSON: byte ") == 0);
  CHECK(typed({"run", "w", "--input", "-", "--agent", "/none"}, "{").err.find("the input from stdin is no JSON") !=
        std::string::npos);
  CHECK(typed({"run", "w", "--input", "@/none/at/all", "--agent", "/none"}).code == kUsage);
}

TEST_CASE("arguments: no agent is exit code 6 and says how to start one") {
  const test::TempDir dir;
  const Said said = typed({"runs", "--agent", dir.str("bide.sock")});
  CHECK(said.code == kNoAgent);
  CHECK(said.err.find("bide: agent_unreachable: no agent answers at " + dir.str("bide.sock")) == 0);
  CHECK(said.err.find("hint: bide serve") != std::string::npos);
  CHECK(typed({"runs", "--agent", "bide.sock"}).code == kUsage);
  CHECK(typed({"runs", "--agent", "http://127.0.0.1:1/v1"}).code == kUsage);
}

TEST_CASE("console: what others wrote does not steer the terminal") {
  CHECK(printable("a\nb\tc") == "a b c");
  CHECK(printable("\x1b[2Jx\xC2\x9B") == "\xEF\xBF\xBD[2Jx\xEF\xBF\xBD");
  CHECK(printable("\xE2\x80\xAEgpj") == "\xEF\xBF\xBDgpj");
  CHECK(printable("\xFFz") == "\xEF\xBF\xBDz");
  CHECK(shortened("übermäßig", 4) == "übe…");
  CHECK(shortened("abcd", 4) == "abcd");
}

TEST_CASE("console: columns are aligned by characters, colour only if it was asked for") {
  std::ostringstream out;
  std::istringstream in;
  Console console{out, out, in};
  Table table({"A", "STATUS"});
  table.paint_column(1);
  table.add({"ü", "failed"});
  table.add({"abc", "completed"});
  table.print(console);
  CHECK(out.str() == "A    STATUS\nü    failed\nabc  completed\n");
  console.colour = true;
  table.print(console);
  CHECK(out.str().find("\x1b[31mfailed\x1b[0m") != std::string::npos);
}

}  // namespace
}  // namespace bide::cli
