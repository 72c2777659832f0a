// Secrets of workflows: they reach the command that needs them, and nothing that is kept, logged or answered [D4].
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"
#include "tests/support/sink.h"

namespace bide::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

struct Vault {
  Box box;
  std::string secret = "canary-" + box.tag();

  explicit Vault(const std::string& program, const std::string& manifest = "secrets = [\"TOKEN\"]\n") {
    keep("TOKEN", secret);
    box.program("w", program);
    write_file(box.flows() + "/w.toml", manifest);
  }
  void keep(const std::string& name, const std::string& value) const {
    write_file(box.data() + "/secrets/" + name, value + "\n");
    fs::permissions(box.data() + "/secrets/" + name, fs::perms(0600));
  }
  // Files of the agent, but for where the operator keeps it, that hold the text.
  [[nodiscard]] std::string files_with(const std::string& text) const {
    return run({.argv = {"grep", "-rlaF", "--exclude-dir=secrets", text, box.data()}}).out;
  }
  void seen_by_nobody(const std::string& run) const {
    for (const auto& words : std::vector<std::vector<std::string>>{{"show", run, "--json"},
                                                                   {"journal", run, "--json"},
                                                                   {"log", run, "--all"},
                                                                   {"explain", run},
                                                                   {"inbox", "--json"}}) {
      INFO(words[0]);
      const Finished said = box.bide(words);
      CHECK(said.out.find("canary-") == std::string::npos);
      CHECK(said.err.find("canary-") == std::string::npos);
    }
    CHECK(box.sql("SELECT count(*) FROM events WHERE payload LIKE '%canary-%'")[0][0] == 0);
    // A run is over a moment before its processes and their folder are.
    eventually([&] { return files_with("canary-").empty(); },
               [&] { return "no file of the agent holds it, but: " + files_with("canary-"); }, 60s);
  }
};

}  // namespace

TEST_CASE("e2e: a secret is a file for the attempt and a variable for the command that names it [D4]") {
  Vault vault(
      "test \"$(stat -c %a \"$BIDE_SECRETS\" \"$BIDE_SECRETS/TOKEN\" | tr '\\n' ' ')\" = '700 600 '\n"
      "echo \"${TOKEN-none}\" >\"$OUT/program\"\n"
      "bide step other --effect pure -- sh -c 'echo \"${TOKEN-none}\" >'$OUT'/other'\n"
      "bide step mine --effect pure --secret TOKEN -- sh -c 'printf %s \"$TOKEN\" >'$OUT'/mine'\n"
      "printf 'x\\ny\\n' >list\n"
      "bide each many --effect pure --secret TOKEN --key-from list -- sh -c 'printf %s \"$TOKEN\" >'$OUT'/{}'\n"
      "cat \"$BIDE_SECRETS/TOKEN\" >\"$OUT/file\"\n"
      "bide wait signal go >/dev/null\n");
  vault.secret += "-\"quoted\\ $x";
  vault.keep("TOKEN", vault.secret);
  const std::string run = vault.box.start("w");
  vault.box.suspended(run);
  CHECK(vault.box.text("program") == "none\n");
  CHECK(vault.box.text("other") == "none\n");
  CHECK(vault.box.text("mine") == vault.secret);
  CHECK(vault.box.text("x") == vault.secret);
  CHECK(vault.box.text("file") == vault.secret);
  // Suspended: no file of it is left.
  eventually([&] { return vault.files_with("canary-").empty(); }, "its folder is gone", 60s);
  // A new value is what the next attempt gets, and no other request: the journal is the same.
  const std::string old = vault.secret;
  vault.keep("TOKEN", "canary-new");
  CHECK(vault.box.bide({"signal", run, "go"}).exit.code == 0);
  vault.box.comes_to(run, "completed");
  CHECK(vault.box.text("mine") == old);
  CHECK(vault.box.text("file") == "canary-new");
  vault.seen_by_nobody(run);
}

TEST_CASE(
    "e2e: eleven ways for a secret to get out are closed: nothing that is kept, logged or answered holds it [D4]") {
  const std::string use = "t=$(cat \"$BIDE_SECRETS/TOKEN\")\n";
  struct Way {
    std::string name;
    std::string program;
    std::string ends;  // how, and the error's code
    std::string code;
  };
  const Way ways[] = {
      {"result of a step", "bide step a --effect pure -- cat \"$BIDE_SECRETS/TOKEN\"", "failed", "SecretInResult"},
      {"result of a step over 1 MiB",
       "bide step a --effect pure -- sh -c 'seq 300000; cat \"$BIDE_SECRETS/TOKEN\"; seq 300000'", "failed",
       "SecretInResult"},
      {"kept output of --try over 1 MiB",
       "bide step a --effect pure --try -- sh -c 'seq 300000; cat \"$BIDE_SECRETS/TOKEN\"; exit 1' >/dev/null || :",
       "completed", ""},
      {"result of the run", use + "bide result token=\"$t\"", "failed", "SecretInResult"},
      {"error's stderr", "bide step a --effect pure --secret TOKEN -- sh -c 'echo \"bad $TOKEN\" >&2; exit 1'",
       "failed", "CommandFailed"},
      {"program's last words", use + "echo \"bad $t\" >&2; exit 3", "failed", "program_failed"},
      {"kept output of --try",
       "bide step a --effect pure --try --secret TOKEN -- sh -c 'echo \"$TOKEN\"; exit 1' >/dev/null || :", "completed",
       ""},
      {"log", use + "echo \"a $t b\"; echo \"c $t d\" >&2", "completed", ""},
      {"argv", use + "bide step a --effect pure -- sh -c 'test -n \"$1\"' a \"$t\"", "completed", ""},
      {"progress and state", use + "bide progress 5 \"with $t\"; bide state set s \"$t\"", "completed", ""},
      {"what is asked",
       use + "bide wait approval \"Use $t?\" --data \"{\\\"t\\\": 1}\" --timeout 1ms --try || :", "completed", ""},
  };
  for (const Way& way : ways) {
    INFO(way.name);
    const Vault vault(way.program);
    const std::string run = vault.box.start("w");
    const Json done = vault.box.comes_to(run, way.ends);
    INFO(done.dump(1));
    if (!way.code.empty()) CHECK(done["error"]["code"] == way.code);
    vault.seen_by_nobody(run);
  }
}

TEST_CASE("e2e: a secret is no input, no signal, no message and no child's input [D4]") {
  Sink receiver;
  Vault vault(
      "case $(bide input how --default none) in\n"
      "  send) bide send " +
          receiver.url() +
          " --data \"\\\"$(cat \"$BIDE_SECRETS/PLAIN\")\\\"\" ;;\n"
          "  call) bide call w --input \"\\\"$(cat \"$BIDE_SECRETS/PLAIN\")\\\"\" ;;\n"
          "  again) bide continue-as-new --input \"\\\"$(cat \"$BIDE_SECRETS/PLAIN\")\\\"\" ;;\n"
          "  *) bide wait signal go >/dev/null ;;\nesac\n",
      "secrets = [\"PLAIN\"]\n");
  vault.keep("PLAIN", "canary-plain");
  const Finished refused = vault.box.bide({"run", "w", "--input", R"({"a": ["canary-plain"]})"});
  CHECK(refused.exit.code == 2);
  CHECK(refused.err.find("bide: secret_in_input: ") == 0);
  CHECK(refused.err.find("canary") == std::string::npos);
  for (const char* how : {"send", "call", "again"}) {
    const std::string run = vault.box.start("w", Json{{"how", how}}.dump());
    vault.box.fails(run, "secret_in_input");
    vault.seen_by_nobody(run);
  }
  const std::string run = vault.box.start("w");
  vault.box.suspended(run);
  CHECK(vault.box.bide({"signal", run, "go", "\"canary-plain\""}).exit.code == 2);
  CHECK(vault.box.bide({"signal", run, "go", "\"else\""}).exit.code == 0);
  vault.box.comes_to(run, "completed");
  CHECK(receiver.count() == 0);
  vault.seen_by_nobody(run);
}

TEST_CASE("e2e: a result that is a secret is not kept, and its step runs again in each attempt [D4]") {
  Vault vault(
      // The script itself is kept, and does not hold the word.
      "t=$(bide step login --effect idempotent --secret-result -- sh -c 'echo x >>'$OUT'/logins; printf can%s "
      "ary-session')\n"
      "test \"$t\" = \"$(printf can%s ary-session)\"\n"
      "bide wait signal go >/dev/null\n"
      "bide step use --effect pure -- sh -c 'echo used >>'$OUT'/used'\n");
  const std::string run = vault.box.start("w");
  vault.box.suspended(run);
  CHECK(vault.box.lines("logins") == 1);
  CHECK(vault.box.bide({"signal", run, "go"}).exit.code == 0);
  vault.box.comes_to(run, "completed");
  CHECK(vault.box.lines("logins") == 2);
  CHECK(vault.box.lines("used") == 1);
  const Json journal = vault.box.json({"journal", run});
  CHECK(journal["items"][0]["result"] == Json{{"secret", true}});
  CHECK(journal["items"][0]["executions"] == 1);
  vault.seen_by_nobody(run);
}

TEST_CASE("e2e: a step whose result is a secret and that fails when it is run again has its run queued [D4]") {
  Vault vault(
      "t=$(bide step login --effect pure --secret-result --retries 1 --backoff 10ms -- "
      "sh -c 'echo x >>'$OUT'/logins; [ ! -e '$OUT'/broken ] && echo value-1')\n"
      "bide wait signal go >/dev/null\n");
  const std::string run = vault.box.start("w");
  vault.box.suspended(run);
  vault.box.touch("broken");
  CHECK(vault.box.bide({"signal", run, "go"}).exit.code == 0);
  eventually([&] { return vault.box.show(run)["reason"] == "secret_step_failed"; }, "it is queued", 60s);
  CHECK(vault.box.status(run) == "queued");
  CHECK(vault.box.lines("logins") == 3);
  vault.box.nothing_left();
  CHECK(vault.box.bide({"cancel", run}).exit.code == 0);
}

TEST_CASE("e2e: a workflow whose secret is not there, or lies open, waits for it, and wrong calls say what to write") {
  Vault vault("bide result done:=true", "secrets = [\"TOKEN\", \"LATER\"]\n");
  const std::string run = vault.box.start("w");
  eventually([&] { return vault.box.show(run)["reason"] == "secret_missing"; }, "it waits for its secret", 60s);
  CHECK(vault.box.agent().err().find("there is no secret LATER") != std::string::npos);
  CHECK(vault.box.bide({"cancel", run}).exit.code == 0);

  vault.box.program("other", "bide step a --secret TOKEN -- true");
  const Json error = vault.box.fails(vault.box.start("other"), "Usage");
  CHECK(error.dump().find("write secrets = [") != std::string::npos);
  vault.box.program("unsure", "bide step a --secret-result -- true");
  CHECK(vault.box.fails(vault.box.start("unsure"), "Usage").dump().find("pure or idempotent") != std::string::npos);
}

TEST_CASE("e2e: secrets of a step that outlives the agent are read to its end, and then removed [D4]") {
  Vault vault("");
  vault.keep("TOKEN", "canary-long");
  vault.box.program(
      "w",
      "bide step slow --secret TOKEN -- sh -c 'echo x >>'$OUT'/begun; until [ -e '$OUT'/go ]; do sleep 0.02; "
      "done; test \"$(cat \"$BIDE_SECRETS/TOKEN\")\" = \"$TOKEN\"; echo \"said $TOKEN\" >&2'\n"
      "bide result done:=true");
  const std::string run = vault.box.start("w");
  eventually([&] { return vault.box.lines("begun") == 1; }, "it has begun", 60s);
  vault.box.kill_agent();
  vault.box.serve();
  vault.box.touch("go");
  vault.box.comes_to(run, "completed");
  CHECK(vault.box.lines("begun") == 1);
  eventually(
      [&] {
        return !fs::exists(vault.box.data() + "/attempt-secrets") ||
               fs::is_empty(vault.box.data() + "/attempt-secrets");
      },
      "no folder of secrets is left", 60s);
  CHECK(vault.box.bide({"log", run}).out.find("said ***********") != std::string::npos);
  vault.seen_by_nobody(run);
}

}  // namespace bide::test
