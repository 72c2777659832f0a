// What bide check finds by reading: each pattern once as it is wrong and once as it is right, and the traps of a
// tokenizer: quotes, comments, here documents, continuation lines.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "agent/work/script_check.h"
#include "agent/work/shell_script.h"

using namespace bide::work;

namespace {

const std::string kHead = "#!/bin/sh\nset -eu\nbide step first -- true\n";  // three lines, nothing to find

// "code:line …" of what follows the head.
std::string codes(const std::string& text, const std::string& file = "main.sh") {
  std::string all;
  for (const auto& finding : check_script(file, kHead + text)) {
    all += (all.empty() ? "" : " ") + finding.code + ":" + std::to_string(finding.line);
    CHECK_FALSE(finding.what.empty());
    CHECK_FALSE(finding.instead.empty());
  }
  return all;
}

struct Row {
  const char* text;
  const char* found;
};

}  // namespace

TEST_CASE("[N117] check finds what does not bear to be run again, and not its right form") {
  const std::vector<Row> rows = {
      {"mkdir out\n", "mkdir:4"},
      {"bide step a -- cd /tmp\n", "builtin:4"},
      {"bide step a -- sh -c 'cd /tmp && ls'\n", ""},
      {"bide step a -- 'echo hi | wc'\n", "command-line:4"},
      {"bide step a -- \"$tool\" 'hi | wc'\n", ""},
      {"id=7\nbide step pay --probe 'paid \"$id\"' -- pay $id\n", "probe-variable:5"},
      {"id=7\nbide step pay --probe \"paid $id\" -- pay $id\n", ""},
      {"id=7; export id\nbide step pay --probe 'paid \"$id\"' -- pay $id\n", ""},
      {"export id=7\nbide step pay --probe 'paid \"${id}\"' -- pay $id\n", ""},
      {"bide step pay --probe 'x=1; paid $x $BIDE_IDEMPOTENCY_KEY' -- pay\n", ""},
      {"mkdir -p out\n", ""},
      {"mkdir -pv out; mkdir --parents a/b\n", ""},
      {"[ -d out ] || mkdir out\n", ""},
      {"if mkdir lock; then echo mine; fi\n", ""},
      {"bide step make -- mkdir out\n", ""},
      {"echo mkdir out\n", ""},
      {"# mkdir out\n", ""},
      {"ln -s a b\n", "link:4"},
      {"ln -sfn a b\n", ""},
      {"echo x >> log\n", "append:4"},
      {"echo x >>log 2>&1\n", "append:4"},
      {"bide step list -- ls >> log\n", "append:4"},
      {"echo x | tee -a log\n", "append:4"},
      {"echo x >> /dev/stderr; echo x >&2\n", ""},
      {": > log\necho x >> log\n", ""},
      {"echo 'x >> y'\n", ""},
      {"bide step log -- sh -c 'echo x >> log'\n", ""},
      {"trap 'rm -f x' EXIT\n", "trap-exit:4"},
      {"trap cleanup INT\n", ""},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(codes(row.text) == row.found);
  }
}

TEST_CASE("[N117] check finds what is another at every attempt in what a verb is asked for") {
  const std::vector<Row> rows = {
      {"bide wait approval \"Go on $(date)?\"\n", "changing-argument:4"},
      {"bide wait approval \"Go on `date +%F`?\"\n", "changing-argument:4"},
      {"bide step x -- cp a \"$(mktemp)\"\n", "changing-argument:4"},
      {"bide step x --key $$ -- true\n", "changing-argument:4"},
      {"bide step x --key \"$RANDOM\" -- true\n", "changing-argument:4"},
      {"port=$((20000 + RANDOM))\nbide step x -- echo \"$port\"\n", "changing-argument:5"},
      {"port=$((20000 + RANDOM_PORT))\nbide step x -- echo \"$port\"\n", ""},
      {"f=$(mktemp)\nbide step x -- cp a \"$f\"\n", "changing-argument:5"},
      {"f=$(mktemp)\ng=${f%/*}\nbide step x -- cp a \"${g}/b\"\n", "changing-argument:6"},
      {"now=$(date +%s)\necho \"$now\" >&2\n", ""},
      {"now=$(bide value now)\nbide step x -- echo \"$now\"\n", ""},
      {"day=$(bide step day --effect pure -- date +%F)\nbide step x -- echo \"$day\"\n", ""},
      {"bide step x -- sh -c 'echo $$ $RANDOM $(date)'\n", ""},
      {"bide step x -- echo \"\\$$\"\n", ""},
      {"bide result at=\"$(date)\"\n", ""},
      {"bide step x \\\n  --key a \\\n  -- echo \"$(date)\"\n", "changing-argument:4"},
      {"cat <<END\nbide step x -- echo $(date)\nmkdir out\nEND\n", ""},
      {"update=$(bide step update -- true)\nbide step x -- echo \"$update\"\n", ""},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(codes(row.text) == row.found);
  }
}

TEST_CASE("[N117] check finds what stands around a verb and does not do what it looks like") {
  const std::vector<Row> rows = {
      {"if bide wait approval A --name a; then echo yes; else echo no; fi\n", "condition:4"},
      {"if bide wait approval A --name a --try; then echo yes; else echo no; fi\n", ""},
      {"if ! bide step x -- false; then echo no; fi\n", "condition:4"},
      {"! bide step x -- false\n", "condition:4"},
      {"bide step x -- false || echo no\n", "condition:4"},
      {"bide step x -- false &&\n  echo yes\n", "condition:4"},
      {"while bide wait approval A --name a; do echo again; done\n", "condition:4"},
      {"until bide step x --try -- false; do sleep 1; done\n", ""},
      {"cd out && bide step x -- true\n", ""},
      {"if true; then bide step x -- true; fi\n", ""},
      {"f() { local x=$(bide step x -- true); }\n", "lost-code:4"},
      {"f() {\n  local x\n  x=$(bide step x -- true)\n}\n", ""},
      {"echo list | bide step x -- cat\n", "stdin:4"},
      {"echo list | bide step x --stdin -- cat\n", ""},
      {"bide step x -- cat < list\n", "stdin:4"},
      {"bide step x -- cat < /dev/null\n", ""},
      {"seq 3 | xargs -I{} bide step x --key {} -- echo {}\n", ""},
      {"while read -r f; do\n  bide step x --key \"$f\" -- echo \"$f\"\ndone < list\n", "stdin:5"},
      {"while IFS= read -r f; do\n  y=$(bide step x --key \"$f\" -- echo)\ndone < list\n", "stdin:5"},
      {"while read -r f; do\n  bide step x --key \"$f\" --no-stdin -- echo \"$f\"\ndone < list\n", ""},
      {"for f in a b; do\n  bide step x --key \"$f\" -- echo \"$f\"\ndone\n", ""},
      {"bide wait approval A\nbide wait approval B\n", "unnamed-wait:5"},
      {"bide wait approval A\nbide wait question B\nbide wait signal s\nbide wait signal s\n", ""},
      {"bide wait approval A --name a\nbide wait approval B --name b\n", ""},
      {"for i in 1 2; do bide wait approval \"$i\"; done\n", "unnamed-wait:4"},
      {"for i in 1 2; do bide wait approval \"$i\" --key $i; done\n", ""},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(codes(row.text) == row.found);
  }
}

TEST_CASE("[N117] check: set -e, scripts without verbs, files that are no scripts") {
  CHECK(check_script("a.sh", "#!/bin/sh\nbide step x -- true\n").size() == 1);
  CHECK(check_script("a.sh", "#!/bin/sh\nbide step x -- true\n").at(0).code == "no-errexit");
  CHECK(check_script("a.sh", "#!/bin/sh -eu\nbide step x -- true\n").empty());
  CHECK(check_script("a", "#!/usr/bin/env bash\nset -o errexit\nbide step x -- true\n").empty());
  CHECK(check_script("a.sh", "#!/bin/sh\nmkdir out\n").empty());
  CHECK(check_script("a.txt", "bide step x -- true\nmkdir out\n").empty());
  CHECK(check_script("a",
                     "\x7f"
                     "ELF bide step")
            .empty());
  CHECK(check_script("a.sh", "").empty());
  // Cut off in the middle of anything: no more than nothing is found.
  for (const char* text : {"bide step \"", "x=$(bide step '", "cat <<END\n", "case x in a) bide step x -- true",
                           "f() {", "while read x; do bide", "`", "${", "$((1", "a && ", "bide step x -- \\"})
    (void)check_script("a.sh", kHead + text);
}

TEST_CASE("[N117] check reads Python by the same patterns") {
  const std::string head = "#!/usr/bin/env python3\nimport subprocess\n";
  const std::vector<Row> rows = {
      {"os.mkdir('out')\nbide('step')\n", "mkdir:3"},
      {"os.makedirs('out', exist_ok=True)\nbide('step')\n", ""},
      {"Path('out').mkdir()\nbide('step')\n", "mkdir:3"},
      {"with open('log', 'a') as log:\n  bide('step')\n", "append:3"},
      {"with open('log', 'w') as log:\n  bide('step')\n", ""},
      {"subprocess.run(['bide', 'wait', 'approval', f'Go {datetime.now()}?'])\n", "changing-argument:3"},
      {"subprocess.run(['bide', 'result', str(time.time())])\n", ""},
      {"atexit.register(clean)\nbide('step')\n", "trap-exit:3"},
      {"# os.mkdir('out') bide\n", ""},
      {"'''\nos.mkdir('out')\n'''\nbide('step')\n", ""},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    std::string all;
    for (const auto& finding : check_script("main.py", head + row.text))
      all += finding.code + ":" + std::to_string(finding.line);
    CHECK(all == row.found);
  }
}

TEST_CASE("[N117] the calls of bide in a script, as far as reading tells their words") {
  const auto words = [](const std::string& text) {
    std::string all;
    for (const auto& call : verb_calls("main.sh", kHead + text)) {
      if (call.line < 4) continue;
      for (const auto& word : call.argv) all += "[" + word + "]";
    }
    return all;
  };
  const std::string unknown(kUnknownWord);
  CHECK(words("bide step a --effect pure -- echo 'b c'\n") == "[bide][step][a][--effect][pure][--][echo][b c]");
  CHECK(words("/usr/bin/bide sleep '5s' # later\n") == "[bide][sleep][5s]");
  CHECK(words("x=$(bide step \"i$i\" --key=\"$k\" -- true)\n") ==
        "[bide][step][i" + unknown + "][--key=" + unknown + "][--][true]");
  CHECK(words("bide wait approval \"at $(date)\"\n") == "[bide][wait][approval][at " + unknown + "]");
  // How many words these are nobody can tell.
  CHECK(words("bide step a $flags -- true\nbide step a \"$@\"\nbide step a -- $(cat list)\nbide $verb\n").empty());
  // Modes of its own, which do something when they are entered.
  CHECK(words("bide --guard 3 sh -c true\nbide --holder '{}' true\nbide --undo\nbide --version\n").empty());
  CHECK(words("echo bide step\n# bide step\nxargs bide step a\nbide\n").empty());
  CHECK(verb_calls("main.py", "bide step a\n").empty());
}
