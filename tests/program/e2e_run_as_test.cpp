// run_as: a program, its steps and probes are another user's, who reaches what is made for its runs and nothing else of
// the agent [A7]. As root, with the user nobody; without root, that it is refused.
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr uid_t kNobody = 65'534;

bool is_root() {
  if (::geteuid() == 0) return true;
  WARN("run_as needs root: only its refusal is tested");
  return false;
}

// Executables in a folder that everybody may pass: the build's own may lie below one that is closed.
class Tools {
 public:
  Tools() {
    fs::permissions(dir_.path(), fs::perms(0755));
    for (const char* name : {"bide", "bide-agent"}) {
      fs::copy_file(name == std::string("bide") ? BIDE_EXECUTABLE : kAgentExecutable, dir_ / name);
      fs::permissions(dir_ / name, fs::perms(0755));
    }
  }
  [[nodiscard]] std::string bide() const { return dir_.str("bide"); }

 private:
  TempDir dir_;
};

// What lies above the agent's folder lets everybody pass, and effects may be written by everybody.
struct Walled {
  Tools tools;
  Box box{tools.bide()};
  Walled() {
    fs::permissions(fs::path(box.data()).parent_path(), fs::perms(0711));
    fs::permissions(box.out("").substr(0, box.out("").size() - 1), fs::perms(0777));
  }
  void program(const std::string& name, const std::string& body, const std::string& more = "") {
    box.program(name, body);
    write_file(box.flows() + "/" + name + ".toml", "run_as = \"nobody\"\n" + more);
  }
};

unsigned mode_of(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 0777U : 0;
}

}  // namespace

TEST_CASE("[A7] e2e: run_as: program and steps are that user's, and all verbs work as they do for others") {
  if (!is_root()) return;
  Walled w;
  write_file(w.box.data() + "/secrets/API_TOKEN", "a-secret-of-24-characters");
  fs::permissions(w.box.data() + "/secrets/API_TOKEN", fs::perms(0600));
  w.program(
      "walled",
      "echo x >> $OUT/attempts; n=$(wc -l < $OUT/attempts)\n"
      "echo said > /dev/stderr\n"
      "echo \"$(id -u) $(id -G) $HOME $USER\" >> $OUT/program\n"
      "bide step who -- sh -c 'id -u >> \"$1\"/ids; echo own > made; cat made \"$TMPDIR\"/../made' who $OUT > here\n"
      "bide step big -- seq 1 300000 > $OUT/big.$n\n"
      "bide step secret --secret API_TOKEN -- sh -c 'printf %s \"$API_TOKEN\" | wc -c' > $OUT/length\n"
      "t=$(bide value tmpdir); echo kept > $t/file\n"
      "bide wait approval 'Go?'\n"
      "bide step undone --compensate 'id -u >> '$OUT/undone -- true\n"
      "bide wait approval 'Keep it?'\n"
      "bide result url=\"$(bide input url)\" here=\"$(cat here)\" kept=\"$(cat $t/file)\"\n",
      "secrets = [\"API_TOKEN\"]\n");
  const std::string run = w.box.start("walled", R"({"url":"http://x"})");
  w.box.suspended(run);
  w.box.restart();
  w.box.decide(run, "approve");
  w.box.suspended(run);
  CHECK(w.box.text("ids") == "65534\n");
  CHECK(w.box.text("program").starts_with("65534 65534 /nonexistent nobody\n"));
  CHECK(w.box.text("length") == "25\n");
  CHECK(w.box.text("big.1").size() > 1'000'000);
  CHECK(w.box.text("big.1") == w.box.text("big.2"));
  CHECK(w.box.bide({"log", run, "--all"}).out.find("said") != std::string::npos);
  const std::string other = w.box.start("walled", R"({"url":"http://y"})");
  w.box.suspended(other);
  w.box.decide(other, "approve");
  w.box.comes_to(other, "waiting");
  w.box.decide(run, "approve");
  CHECK(w.box.comes_to(run, "completed")["result"] ==
        Json{{"url", "http://x"}, {"here", "own\nown"}, {"kept", "kept"}});
  CHECK_FALSE(fs::exists(w.box.out("undone")));
  w.box.decide(other, "deny");
  w.box.comes_to(other, "failed");
  CHECK(w.box.text("undone") == "65534\n");
  CHECK(w.box.bide({"rm", run}).exit.code == 0);
  eventually([&] { return !fs::exists(w.box.data() + "/workspaces/" + run); }, "its workspace is removed");
}

TEST_CASE("[A7] e2e: run_as: the agent's file, other runs and the run's own gate are closed to it") {
  if (!is_root()) return;
  Walled w;
  w.box.program("plain", "echo mine > private\nbide wait approval 'Go?' --not-initiator\n");
  const std::string plain = w.box.start("plain");
  w.box.suspended(plain);
  const std::string ours = w.box.data() + "/workspaces/" + plain;
  fs::permissions(ours, fs::perms(0755));  // as those of an older agent
  w.program(
      "pries",
      "D=" + w.box.data() +
          "; export D\n"
          "bide step pry -- sh -c '\n"
          "  for f in bide.db bide.db-wal bide.db-shm bide.lock admin.token workspaces/" +
          plain +
          ".input.json "
          "workspaces/" +
          plain + "/private logs/" + plain +
          ".log; do\n"
          "    cat \"$D/$f\" > /dev/null 2>&1 && echo \"read $f\" >> \"$1\"/leaks; (echo x >> \"$D/$f\") 2>/dev/null "
          "&& "
          "echo \"wrote $f\" >> \"$1\"/leaks; done\n"
          "  for d in . workspaces logs outcomes workspaces/" +
          plain +
          "; do\n"
          "    ls \"$D/$d\" > /dev/null 2>&1 && echo \"listed $d\" >> \"$1\"/leaks; done\n"
          "  echo done >> \"$1\"/pried' pry $OUT\n"
          "( export BIDE_BRANCH=gate; bide wait approval 'Go?' --name gate --not-initiator; touch $OUT/opened ) &\n"
          "bide step greedy -- sh -c '\n"
          "  until [ -e \"$1\"/id ]; do sleep 0.02; done; id=$(cat \"$1\"/id)\n"
          "  ask=\"curl -s -o /dev/null -w %{http_code}\\n --unix-socket $BIDE_AGENT -H "
          "Content-Type:application/json\"\n"
          "  ask=\"$ask --data {\\\"decision\\\":\\\"approved\\\"} http://localhost/v1/waits/$id/resolve\"\n"
          "  $ask >> \"$1\"/codes; setsid env -i PATH=\"$PATH\" $ask >> \"$1\"/codes\n"
          "  $ask -H \"Authorization: Bearer $BIDE_STEP\" >> \"$1\"/codes\n"
          "  env -i PATH=\"$PATH\" bide approve $id --agent \"$BIDE_AGENT\" >> \"$1\"/said 2>&1 || echo no >> "
          "\"$1\"/refused' greedy $OUT || true\n"
          "wait\nbide result done:=true\n");
  const std::string run = w.box.start("pries");
  const std::string wait = w.box.wait_of(run);
  write_file(w.box.out("id"), wait);
  eventually([&] { return w.box.lines("codes") == 3 && fs::exists(w.box.out("refused")); },
             [&] {
               return "it has tried: " + w.box.text("codes") + w.box.text("said") + w.box.bide({"log", run}).out;
             });
  CHECK(w.box.lines("pried") == 1);
  CHECK(w.box.text("leaks").empty());
  CHECK(w.box.text("codes") == "403\n403\n403\n");
  CHECK(w.box.text("said").find("forbidden") != std::string::npos);
  CHECK(mode_of(w.box.data() + "/bide.db") == 0600);
  CHECK(mode_of(ours) == 0700);
  w.box.comes_to(run, "waiting");
  CHECK_FALSE(fs::exists(w.box.out("opened")));
  // The doctor names the gate that has no such wall, and not this one.
  const Finished doctor = w.box.bide({"doctor", "--json"});
  int walls = 0;
  const Json said = Json::parse(doctor.out);
  for (const Json& one : said["findings"]) {
    if (one["code"] != "gate_without_wall") continue;
    ++walls;
    CHECK(one["text"].get<std::string>().starts_with("plain asks"));
  }
  CHECK(walls == 1);
  CHECK(doctor.exit.code == 1);
}

TEST_CASE("[A7] e2e: run_as: a step's holder outlives the agent, and its probe is asked as that user") {
  if (!is_root()) return;
  Walled w;
  w.program(
      "long",
      "bide step slow -- sh -c 'echo x >> \"$1\"/slow; until [ -e \"$1\"/go ]; do sleep 0.02; done; echo told' slow "
      "$OUT > $OUT/told\n"
      "r=$(bide step pay --probe 'id -u >> '$OUT'/probed; echo known' -- sh -c 'echo x >> \"$1\"/paid; until [ -e "
      "\"$1\"/never ]; do sleep 0.02; done' pay $OUT)\n"
      "bide result got=\"$r\"\n");
  const std::string run = w.box.start("long");
  eventually([&] { return w.box.lines("slow") == 1; }, "the step runs");
  w.box.kill_agent();
  w.box.touch("go");  // it ends while there is no agent: its file is the outcome
  eventually([&] { return !fs::is_empty(w.box.data() + "/outcomes"); }, "the outcome is kept");
  w.box.serve();
  eventually([&] { return w.box.lines("paid") == 1; }, [&] { return "it goes on: " + w.box.bide({"log", run}).out; });
  CHECK(w.box.lines("slow") == 1);
  CHECK(w.box.text("told") == "told\n");
  w.box.kill_all();
  w.box.serve();
  CHECK(w.box.comes_to(run, "completed")["result"] == Json{{"got", "known"}});
  CHECK(w.box.text("probed") == "65534\n");
  CHECK(w.box.lines("paid") == 1);
}

TEST_CASE("[A7] e2e: run_as is refused with a sentence: no root, no such user, root itself, a shared environment") {
  Box box;
  const auto refused = [&](const std::string& toml) {
    box.program("w", "true");
    write_file(box.flows() + "/w.toml", toml);
    const Finished done = box.bide({"run", "w"});
    CHECK(done.exit.code != 0);
    return done.err;
  };
  CHECK(refused("run_as = \"nobody\"\nenvironment = \"e\"\n").find("do not go together") != std::string::npos);
  CHECK(refused("run_as = \"no body\"\n").find("is the name of a user") != std::string::npos);
  if (!is_root()) {
    CHECK(refused("run_as = \"nobody\"\n").find("needs an agent that runs as root") != std::string::npos);
    return;
  }
  CHECK(refused("run_as = \"no-such-user\"\n").find("there is no such user on this machine") != std::string::npos);
  CHECK(refused("run_as = \"root\"\n").find("no wall") != std::string::npos);

  // An agent of nobody's own.
  const Tools tools;
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  write_file(dir / "flows/w.sh", "#!/bin/sh\ntrue\n");
  write_file(dir / "flows/w.toml", "run_as = \"nobody\"\n");
  fs::permissions(dir / "flows/w.sh", fs::perms(0755));
  fs::create_directories(dir / "own");
  for (const char* path : {"flows", "flows/w.sh", "flows/w.toml", "own"}) {
    REQUIRE(::chown(dir.str(path).c_str(), kNobody, kNobody) == 0);
  }
  const std::vector<std::pair<std::string, std::string>> environment = {{"BIDE_AGENT", dir.str("own/s")},
                                                                        {"HOME", dir.str("own")}};
  Process agent(
      {.argv = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", tools.bide(), "serve", "--data",
                dir.str("own/data"), "--workflows", dir.str("flows"), "--socket", dir.str("own/s"), "--listen", "none"},
       .env = environment});
  Finished done;
  const bool answered = holds_within(60s, [&] {
    done = run({.argv = {tools.bide(), "run", "w"}, .env = environment});
    return done.err.find("workflow_refused") != std::string::npos;
  });
  INFO(done.err << agent.err());
  CHECK(answered);
  CHECK(done.err.find("needs an agent that runs as root, and this one runs as uid 65534") != std::string::npos);
}

}  // namespace bide::test
