// NonDeterminism of a program names what changed and what to write instead [J4, V3], on a whole agent.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

TEST_CASE("[J4] e2e: NonDeterminism names the argument, the text and the key that changed, nothing runs") {
  Box box;
  const std::string end = "bide wait approval 'Go?' --name go\necho after >> $OUT/after\n";
  const std::string count = "echo x >> $OUT/attempts; n=$(wc -l < $OUT/attempts)\n";
  const auto effect = [](const std::string& arguments) {
    return "sh -c 'echo x >> \"$1\"/effects' work $OUT " + arguments + "\n";
  };
  box.program("argument", "f=$(mktemp)\nbide step work -- " + effect("\"$f\"") + end);
  box.program("text",
              count + "bide step work -- " + effect("") + "bide wait approval \"Attempt $n of many?\" --name first\n");
  box.program("key", count + "bide step work --key \"number $n\" -- " + effect("") + end);
  struct Row {
    const char* name;
    std::string begins;
    std::string has;
  };
  const std::vector<Row> rows = {
      {"argument", "argument 5 of work was /", ": use a file in the workspace, or `bide value tmpdir`."},
      {"text", "the text of first was Attempt 1 of many? and is Attempt 2 of many?: ", ""},
      {"key", "The same request was done under another position", "the key of work was number 1 and is number 2: "},
  };
  int effects = 0;
  for (const Row& row : rows) {
    INFO(row.name);
    write_file(box.out("attempts"), "");
    const std::string run = box.start(row.name);
    box.suspended(run);
    CHECK(box.lines("effects") == ++effects);
    box.decide(run, "approve");
    const Json error = box.fails(run, "NonDeterminism");
    const std::string message = error["message"];
    INFO(message);
    CHECK(message.starts_with(row.begins));
    CHECK(message.find(row.has) != std::string::npos);
    CHECK(box.lines("effects") == effects);
    CHECK(error["hint"].get<std::string>().find("bide retry " + run) != std::string::npos);
  }
  CHECK(box.lines("after") == 0);
}

}  // namespace bide::test
