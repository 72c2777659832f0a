// 50 secrets let out through 12 channels by programs, people and a receiver, and nothing of the agent holds one [D4].
#include <catch2/catch.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "agent/base/text.h"
#include "tests/program/e2e_box.h"
#include "tests/support/http_client.h"
#include "tests/support/sink.h"

namespace bide::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr int kCanaries = 50;

std::string name_of(int i) { return std::string(i < 10 ? "C0" : "C") + std::to_string(i); }

// The program: `how` says by which way it lets each of its secrets out. What it did is counted in $OUT.
constexpr const char* kProgram = R"sh(
how=$(bide input how)
each() { for f in "$BIDE_SECRETS"/*; do v=$(cat "$f"); n=${f##*/}; "$@"; echo "$n" >>"$OUT/$how"; done; }
at_once() {
  for f in "$BIDE_SECRETS"/*; do
    n=${f##*/}
    ( export BIDE_BRANCH="$n"; v=$(cat "$f"); "$@"; echo "$n" >>"$OUT/$how" ) &
  done
  wait
}
all() { cat "$BIDE_SECRETS"/*; }
as_json() { python3 -c 'import json,sys; print(json.dumps({"v": open(sys.argv[1]).read().rstrip("\n")}))' "$f"; }
result_of_step() { bide step out --key "$n" --effect pure --try -- cat "$f" >/dev/null || :; }
stderr_of_step() { bide step err --key "$n" --effect pure -- sh -c 'cat "$1" >&2' sh "$f"; }
error_of_step() { bide step bad --key "$n" --effect pure --try -- sh -c 'cat "$1" >&2; cat "$1"; exit 3' sh "$f" >/dev/null || :; }
argument() { bide step arg --key "$n" --effect pure -- sh -c 'test -n "$1"' sh "$v"; }
asked() { bide wait question "Is it $v?" --name "$n" --option "$v" --option no --timeout 1ms --try >/dev/null || :; }
data() { bide wait approval "Look" --name "d$n" --data "$(as_json)" --timeout 1ms --try >/dev/null || :; }
progress() { bide progress 50 "at $v"; }
state() { bide state set "s$n" "$v"; }
log() { printf '%s\n' "$v"; printf '%s\n' "$v" >&2; }
case $how in
  result_of_step|stderr_of_step|error_of_step|argument|progress|state|log) each "$how" ;;
  asked|data) at_once "$how" ;;
  result_of_run) bide result v="$(all)" ;;
  last_words) all >&2; exit 3 ;;
  message) bide send "$(bide input url)" --data "$(f=/dev/stdin; all | as_json)" ;;
  child) bide call w --input "$(f=/dev/stdin; all | as_json)" ;;
  answered) bide wait question "Which?" --name which >/dev/null; bide wait signal news >/dev/null ;;
esac
)sh";

struct Aviary {
  Box box;
  Sink receiver;
  std::vector<std::string> values;
  std::vector<std::string> runs;

  Aviary() {
    // Of several kinds: what a shell, JSON, an address or a line would change must be found all the same.
    const char* const kinds[] = {
        "plain",      "qu\"ote\\d'",        "with spaces & $signs `x`", "um\xc3\xa4laut\xe2\x82\xac",
        "two\nlines", "per%20cent/a?b=c&d", "<tag attr=\"1\">",         "tab\there"};
    std::string manifest;
    for (int i = 0; i < kCanaries; ++i) {
      values.push_back(core(i) + kinds[static_cast<std::size_t>(i) % std::size(kinds)] + core(i));
      const std::string file = box.data() + "/secrets/" + name_of(i);
      write_file(file, values.back() + "\n");
      fs::permissions(file, fs::perms(0600));
      manifest += (i == 0 ? "\"" : ", \"") + name_of(i) + "\"";
    }
    box.program("w", kProgram);
    write_file(box.flows() + "/w.toml", "secrets = [" + manifest + "]\n");
    std::string all;
    for (const std::string& value : values) all += value + "\n";
    receiver.script([all](const Sink::Request&, int) {
      Sink::Reply reply;
      reply.bytes = "HTTP/1.1 500 " + all.substr(0, all.find('\n')) + "\r\nX-Said: " + all.substr(0, all.find('\n')) +
                    "\r\nContent-Length: " + std::to_string(all.size()) + "\r\n\r\n" + all;
      return reply;
    });
  }
  // Stands at both ends of each value: also a part of one is seen.
  [[nodiscard]] std::string core(int i) const { return "canary" + box.tag() + name_of(i); }
  [[nodiscard]] std::string any() const { return "canary" + box.tag(); }

  std::string run(const std::string& how, const std::string& ends, const std::string& code = {}) {
    runs.push_back(box.start("w", Json{{"how", how}, {"url", receiver.url("/message")}}.dump()));
    const Json done = box.comes_to(runs.back(), ends);
    INFO(how << ": " << done.dump(1));
    if (!code.empty()) CHECK(done["error"]["code"] == code);
    return runs.back();
  }
  // Each secret went that way.
  void each(const std::string& how) {
    run(how, "completed");
    INFO(how);
    // What is between the verbs is run again in each attempt.
    std::istringstream lines(box.text(how));
    CHECK(std::set<std::string>(std::istream_iterator<std::string>(lines), {}).size() == kCanaries);
  }
  // Files of the agent, but for where the operator keeps them.
  [[nodiscard]] std::string files() const {
    return test::run({.argv = {"grep", "-rlaF", "--exclude-dir=secrets", any(), box.data()}}).out;
  }
  void absent(const std::string& where, const std::string& text) const {
    const auto at = text.find(any());
    INFO(where << ": …" << (at == std::string::npos ? "" : text.substr(at < 100 ? 0 : at - 100, 250)));
    CHECK(at == std::string::npos);
  }
};

// A person, an app or a script gives a secret to the agent: refused, each of them, and not repeated in the answer.
void told_from_outside(Aviary& a) {
  a.runs.push_back(a.box.start("w", R"({"how":"answered"})"));
  const std::string run = a.runs.back();
  const std::string wait = a.box.wait_of(run, "question");
  HttpClient client = HttpClient::unix_socket(a.box.socket());
  int refused = 0;
  for (const std::string& value : a.values) {
    const std::pair<std::string, Json> calls[] = {
        {"/v1/waits/" + wait + "/resolve", {{"answer", value}}},
        {"/v1/waits/" + wait + "/resolve", {{"answer", "no"}, {"comment", "it is " + value}}},
        {"/v1/runs/" + run + "/signals/news", {{"payload", {{"deep", {value}}}}}},
        {"/v1/runs/" + run + "/cancel", {{"reason", value}}},
        {"/v1/runs", {{"workflow", "w"}, {"input", {{"how", value}}}}},
        {"/v1/runs", {{"workflow", "w"}, {"mission", value}, {"labels", {{"l", value}}}}}};
    const std::string kept = "/v1/runs/" + run + "/signals/news";
    CHECK(client.ask("POST", kept, "{}", "Idempotency-Key: " + a.core(0) + "plain" + a.core(0) + "\r\n").status == 422);
    client = HttpClient::unix_socket(a.box.socket());
    CHECK(client.ask("POST", "/v1/runs/" + run + "/signals/" + percent_encode(value), "{}").status / 100 == 4);
    client = HttpClient::unix_socket(a.box.socket());
    for (const auto& [path, body] : calls) {
      const HttpAnswer answer = client.ask("POST", path, body.dump());
      INFO(path << " " << body.dump());
      CHECK(answer.status == 422);
      a.absent("the refusal of " + path, answer.body);
      refused += answer.status == 422 ? 1 : 0;
      if (answer.field("connection") != nullptr) client = HttpClient::unix_socket(a.box.socket());
    }
  }
  CHECK(refused == 6 * kCanaries);
  CHECK(client.ask("POST", "/v1/waits/" + wait + "/resolve", R"({"answer":"this"})").status == 200);
  CHECK(client.ask("POST", "/v1/runs/" + run + "/signals/news", R"({"payload":"that"})").status / 100 == 2);
  a.box.comes_to(run, "completed");
}

// Everything that the agent answers about these runs.
void look_at_answers(const Aviary& a) {
  HttpClient client = HttpClient::unix_socket(a.box.socket());
  const auto look = [&](const std::string& path) {
    const HttpAnswer answer = client.ask("GET", path);
    INFO(path);
    CHECK(answer.status == 200);
    CHECK_FALSE(answer.body.empty());
    a.absent(path, answer.body);
  };
  for (const char* path : {"/metrics", "/v1/info", "/v1/doctor", "/v1/audit?limit=200", "/v1/outbox?limit=200",
                           "/v1/webhooks", "/v1/workflows", "/v1/workflows/w", "/v1/runs?limit=200"})
    look(path);
  for (const std::string& run : a.runs) {
    for (const char* rest : {"", "/journal?limit=200", "/events?limit=200", "/explain", "/export"})
      look("/v1/runs/" + run + rest);
    a.absent("log of " + run, a.box.bide({"log", run, "--all"}).out);
  }
  for (const char* list : {"/v1/events?limit=200", "/v1/waits?limit=200"}) {
    for (std::string cursor = "0"; !cursor.empty();) {
      const HttpAnswer page = client.ask("GET", std::string(list) + "&cursor=" + cursor);
      REQUIRE(page.status == 200);
      a.absent(list, page.body);
      const Json parsed = Json::parse(page.body);
      const std::string next = parsed["next"].is_string() ? parsed["next"].get<std::string>() : "";
      cursor = parsed["items"].empty() ? "" : next;
    }
  }
}

// What is there until nothing more comes.
std::string drained(const HttpClient& stream) {
  std::string all(1 << 16, '\0');
  std::size_t size = 0;
  for (;;) {
    if (all.size() - size < 4'096) all.resize(all.size() * 2);
    const ssize_t got = ::recv(stream.fd(), all.data() + size, all.size() - size, MSG_DONTWAIT);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  all.resize(size);
  return all;
}

}  // namespace

TEST_CASE(
    "[D4] e2e: 50 secret canaries through 12 channels, and none in file, logs, metrics, answers or on the way out") {
  Aviary a;
  HttpClient stream = HttpClient::unix_socket(a.box.socket());
  stream.send("GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
  CHECK(a.box
            .bide({"webhook", "add", a.receiver.url(), "--event", "run.*", "--event", "step.*", "--event", "wait.*",
                   "--allow", a.receiver.address()})
            .exit.code == 0);

  for (const char* how :
       {"result_of_step", "stderr_of_step", "error_of_step", "argument", "asked", "data", "progress", "state", "log"})
    a.each(how);
  a.run("result_of_run", "failed", "SecretInResult");
  a.run("last_words", "failed", "program_failed");
  a.run("message", "failed", "secret_in_input");
  a.run("child", "failed", "secret_in_input");
  told_from_outside(a);
  eventually([&] { return a.receiver.count() >= 20; }, "the receiver was told, and said secrets in its answers", 60s);
  CHECK(a.box.sql("SELECT count(*) FROM outbox WHERE tries > 0")[0][0] > 0);

  // They did stand there: a name or stars are in their places.
  const auto count = [&](const std::string& query) { return a.box.sql(query)[0][0].get<int>(); };
  CHECK(count("SELECT count(*) FROM steps WHERE name = 'arg' AND request LIKE '%[secret C%'") == kCanaries);
  CHECK(count("SELECT count(*) FROM steps WHERE name = 'out' AND error LIKE '%SecretInResult%'") == kCanaries);
  CHECK(count("SELECT count(*) FROM steps WHERE name = 'bad' AND error LIKE '%[secret C%'") == kCanaries);
  CHECK(count("SELECT count(*) FROM waits WHERE payload LIKE '%[secret C%'") == 2 * kCanaries);
  CHECK(count("SELECT count(*) FROM steps WHERE name LIKE 'sC%' AND coalesce(request, '') || coalesce(result, '') LIKE "
              "'%[secret C%'") == kCanaries);
  CHECK(a.box.bide({"log", a.runs[8], "--all"}).out.find("*****") != std::string::npos);

  look_at_answers(a);
  const std::string heard = drained(stream);
  CHECK(std::count(heard.begin(), heard.end(), '\n') > 500);
  a.absent("the stream of events", heard);
  for (const Sink::Request& request : a.receiver.requests()) a.absent("a delivery", request.line + request.body);
  CHECK(test::run({.argv = {"sqlite3", a.box.data() + "/bide.db", "VACUUM INTO '" + a.box.out("backup.db") + "'"}})
            .exit.code == 0);
  CHECK(fs::file_size(a.box.out("backup.db")) > 100'000);
  a.absent("a copy of the file", a.box.text("backup.db"));
  // A run is over a moment before its processes and their folder are.
  eventually([&] { return a.files().empty(); }, [&] { return "no file holds one, but: " + a.files(); }, 60s);
  a.box.stop_agent();
  a.absent("the agent's own log", a.box.agent().err() + a.box.agent().out());
  CHECK(a.box.agent().err().size() > 1'000);
  CHECK(a.files().empty());
}

}  // namespace bide::test
