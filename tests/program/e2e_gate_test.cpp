// Who may decide, and what never decides, on a whole agent: a step before its own gate [A7], links that are looked at
// [A6].
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"
#include "tests/support/http_client.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("[N102] e2e: a step that tries to approve its own run's gate is refused and audited [A7]") {
  Box box;
  // One wait and one step beside it that tries what it can: plain, washed, out of its tree, with the command line.
  box.program(
      "greedy",
      "( export BIDE_BRANCH=gate; bide wait approval 'Go?' --name gate; touch $OUT/opened ) &\n"
      "bide step try -- sh -c '\n"
      "  cd \"$1\"; until [ -e id ]; do sleep 0.02; done; id=$(cat id)\n"
      "  ask=\"curl -s -o /dev/null -w %{http_code}\\n --unix-socket $BIDE_AGENT -H Content-Type:application/json\"\n"
      "  ask=\"$ask --data {\\\"decision\\\":\\\"approved\\\"} http://localhost/v1/waits/$id/resolve\"\n"
      "  $ask >> codes\n"
      "  env -i PATH=\"$PATH\" $ask >> codes\n"
      "  setsid env -i PATH=\"$PATH\" $ask >> codes\n"
      "  $ask -H \"Authorization: Bearer $BIDE_STEP\" >> codes\n"
      "  BIDE_AGENT=/x $ask >> codes\n"
      "  python3 connects_and_forks.py $BIDE_AGENT $id >> codes\n"
      "  deep() { if [ $1 -gt 0 ]; then ( deep $(($1 - 1)); : ); else $ask >> codes; fi; }; deep 260\n"
      "  env -u BIDE_STEP bide approve $id >> said 2>&1 || echo refused >> refusals\n"
      "  true' try $OUT || true\n"
      "wait\nbide result done:=true\n");
  // The process that connected is gone when its child asks.
  write_file(
      box.out("connects_and_forks.py"),
      "import os, socket, sys\n"
      "body = '{\"decision\":\"approved\"}'\n"
      "s = socket.socket(socket.AF_UNIX); done = os.pipe()\n"
      "if os.fork() == 0:\n"
      "    s.connect(sys.argv[1])\n"
      "    parent = os.getpid()\n"
      "    if os.fork() != 0: os._exit(0)\n"
      "    while os.path.exists('/proc/%d/cmdline' % parent) and open('/proc/%d/cmdline' % parent).read(): pass\n"
      "    s.sendall(('POST /v1/waits/%s/resolve HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: '\n"
      "        'application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s' % (sys.argv[2], len(body), body)).encode())\n"
      "    os.write(done[1], s.recv(4096)[9:12]); os._exit(0)\n"
      "print(os.read(done[0], 3).decode())\n");
  const std::string run = box.start("greedy");
  const std::string wait = box.wait_of(run);
  write_file(box.out("id"), wait);
  eventually(
      [&] {
        return box.json({"journal", run})["items"].size() == 2 && box.status(run) == "waiting";
      },
      [&] {
        return "the step has ended: " + box.bide({"journal", run}).out + box.text("codes") + box.text("said") +
               box.show(run).dump(1) + box.bide({"log", run}).out;
      });
  CHECK(box.text("codes") == "403\n403\n403\n403\n403\n403\n403\n");
  INFO(box.text("said"));
  CHECK(box.lines("refusals") == 1);
  CHECK_FALSE(std::filesystem::exists(box.out("opened")));
  CHECK(box.show(run)["waiting_on"][0]["id"] == std::stoi(wait));
  const Json audit = box.sql("SELECT verdict, decided_by FROM approvals_audit WHERE wait_id = " + wait);
  CHECK(audit.size() >= 4);
  for (const Json& row : audit) {
    CHECK(row[0] == "refused");
    CHECK(row[1].get<std::string>().find("attempt") != std::string::npos);
  }
  box.decide(run, "approve");
  box.comes_to(run, "completed");
  CHECK(std::filesystem::exists(box.out("opened")));
}

TEST_CASE("[F03] e2e: who looks at a link decides nothing, one POST does, the other gets a conflict [A6]") {
  Box box;
  box.program("gate", "bide wait approval 'Go?'\nbide result done:=true\n");
  const std::string run = box.start("gate");
  const std::string wait = box.wait_of(run);
  box.suspended(run);
  const auto ask = [&](std::string_view method, const std::string& target, std::string_view body = {},
                       std::string_view fields = {}) {
    HttpClient client = HttpClient::unix_socket(box.socket());
    std::string head = std::string(method) + " " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                       std::string(fields);
    if (!body.empty()) {
      head += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
    }
    client.send(head + "\r\n" + std::string(body));
    return client.read(20s, method == "HEAD").value_or(HttpAnswer{});
  };
  const std::string rows =
      "SELECT (SELECT group_concat(id || status) FROM waits), (SELECT count(*) FROM events), (SELECT count(*) FROM "
      "approvals_audit),"
      " (SELECT count(*) FROM steps), (SELECT group_concat(status) FROM runs), (SELECT count(*) FROM idempotency)";
  const Json before = box.sql(rows);
  const std::string page = "/v1/waits/" + wait;
  const std::string link = page + "/resolve";
  for (const std::string& target : {page, link, link + "?decision=approved", std::string("/")}) {
    for (const char* method : {"GET", "HEAD", "OPTIONS"}) {
      for (const char* fields :
           {"", "Sec-Purpose: prefetch\r\n", "Purpose: prefetch\r\nUser-Agent: Slackbot-LinkExpanding 1.0\r\n"}) {
        INFO(method << " " << target << " " << fields);
        CHECK(ask(method, target, {}, fields).status != 0);
      }
    }
  }
  CHECK(ask("GET", page).status == 200);
  CHECK(ask("HEAD", page).status == 200);
  CHECK(ask("GET", link).status == 405);
  CHECK(ask("HEAD", link).status == 405);
  CHECK(box.sql(rows) == before);
  CHECK(box.status(run) == "waiting");

  const HttpAnswer first = ask("POST", link, R"({"decision":"approved","comment":"go"})");
  const HttpAnswer again = ask("POST", link, R"({"decision":"approved","comment":"go"})");
  const HttpAnswer other = ask("POST", link, R"({"decision":"denied"})");
  CHECK(first.status == 200);
  CHECK(again.status == 200);
  CHECK(Json::parse(again.body) == Json::parse(first.body));
  CHECK(other.status == 409);
  INFO(other.body);
  CHECK(Json::parse(other.body).dump().find("T") != std::string::npos);
  box.comes_to(run, "completed");
  CHECK(box.sql("SELECT count(*) FROM events WHERE kind = 'wait.resolved'")[0][0] == 1);
}

}  // namespace bide::test
