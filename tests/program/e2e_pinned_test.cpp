// A run keeps the files that it began with [programs.md], on a whole agent.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {

namespace {

void put(const Box& box, const std::string& path, const std::string& content, bool executable) {
  const std::filesystem::path whole = box.flows() + "/" + path;
  std::filesystem::create_directories(whole.parent_path());
  write_file(whole, content);
  if (executable) std::filesystem::permissions(whole, std::filesystem::perms(0755));
}

// Everything beside the script says `word`.
void put_tree(const Box& box, const std::string& word) {
  put(box, "tree/lib.sh", "said() { echo lib-" + word + "; }\n", false);
  put(box, "tree/bin/helper", "#!/bin/sh\necho helper-" + word + "\n", true);
  put(box, "tree/main.sh",
      "#!/bin/sh\nset -eu\n. \"$(dirname \"$0\")/lib.sh\"\n"
      "bide wait approval 'Go?'\n"
      "bide result zero=\"$(basename \"$0\")\" lib=\"$(said)\" helper=\"$(helper)\" "
      "beside=\"$($BIDE_HOME/bin/helper)\" "
      "stepped=\"$(bide step helper -- helper)\"\n",
      true);
  put(box, "snake/helper.py", "def said():\n    return 'import-" + word + "'\n", false);
  put(box, "snake/main.py",
      "#!/usr/bin/env python3\nimport subprocess, helper\n"
      "subprocess.run(['bide', 'wait', 'approval', 'Go?'], check=True)\n"
      "subprocess.run(['bide', 'result', 'said=' + helper.said()], check=True)\n",
      true);
}

}  // namespace

TEST_CASE("[N118] e2e: helpers edited while the run waits, $0, an import beside the script: the pinned tree is used") {
  Box box;
  put_tree(box, "old");
  const std::string shell = box.start("tree");
  const std::string python = box.start("snake");
  box.suspended(shell);
  box.suspended(python);
  put_tree(box, "new");
  const std::string later = box.start("tree");
  const std::string later_python = box.start("snake");
  box.suspended(later);
  box.restart();
  for (const std::string& run : {shell, python, later, later_python}) box.decide(run, "approve");
  const auto said = [](const std::string& word) {
    const std::string helper = "helper-" + word;
    return Json{
        {"zero", "main.sh"}, {"lib", "lib-" + word}, {"helper", helper}, {"beside", helper}, {"stepped", helper}};
  };
  CHECK(box.comes_to(shell, "completed")["result"] == said("old"));
  CHECK(box.comes_to(later, "completed")["result"] == said("new"));
  CHECK(box.comes_to(python, "completed")["result"] == Json{{"said", "import-old"}});
  CHECK(box.comes_to(later_python, "completed")["result"] == Json{{"said", "import-new"}});
}

TEST_CASE("[N75] e2e: the program changed while the run waited: it goes on with the old one, a new run has the new") {
  Box box;
  const std::string rest = "bide wait approval 'Go?'\nbide result said=";
  box.program("edited", "bide step first -- true\n" + rest + "old\n");
  const std::string before = box.start("edited");
  box.suspended(before);
  box.program("edited", "bide step other -- true\n" + rest + "new\n");  // would not replay what is recorded
  const std::string after = box.start("edited");
  box.suspended(after);
  box.restart();
  box.decide(before, "approve");
  box.decide(after, "approve");
  CHECK(box.comes_to(before, "completed")["result"] == Json{{"said", "old"}});
  CHECK(box.comes_to(after, "completed")["result"] == Json{{"said", "new"}});
}

}  // namespace bide::test
