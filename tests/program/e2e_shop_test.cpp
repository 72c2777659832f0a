// The shipped examples, run for real to their end with stand-ins for the world outside; each loses its agent once in
// its middle, and what it did is counted out there.
#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <set>

#include "tests/program/shop.h"
#include "tests/support/sink.h"

namespace bide::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

void must(const std::vector<std::string>& argv) {
  const Finished done = run({.argv = argv});
  INFO(argv[0] << ": " << done.err);
  REQUIRE(done.exit.code == 0);
}

// A certificate authority in a folder, and a certificate of it that is about to expire.
struct Authority {
  TempDir place;
  Shop shop;

  Authority() {
    shop.take("certificate");
    must({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ca", "-days", "30", "-keyout",
          place.str("ca.key"), "-out", place.str("ca.crt")});
    must({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=www", "-days", "3", "-keyout",
          place.str("www.key"), "-out", place.str("www.crt")});
    old = read_file(place / "www.crt");
  }
  std::string sign() const {
    return "openssl x509 -req -in \"$1\" -CA " + place.str("ca.crt") + " -CAkey " + place.str("ca.key") +
           " -set_serial 7 -days 90 2>/dev/null";
  }
  std::string start(const std::string& signs, const std::string& reload) const {
    const Json input = {{"name", "www"},
                        {"certificate", place.str("www.crt")},
                        {"key", place.str("www.key")},
                        {"sign", signs},
                        {"reload", reload}};
    return shop.box.start("certificate", input.dump());
  }
  std::string old;
};

}  // namespace

TEST_CASE("examples: a certificate is signed once though the agent dies meanwhile, and installed with its key") {
  Authority world;
  const Shop& shop = world.shop;
  const std::string run =
      world.start(shop.gated("signed", world.sign()), "echo reloaded >>" + shop.box.out("reloaded"));
  shop.begun("signed");
  world.shop.box.kill_agent();
  CHECK(read_file(world.place / "www.crt") == world.old);
  world.shop.box.serve();
  shop.go();
  const Json result = shop.result(run);
  CHECK(result["renewed"] == true);
  CHECK(shop.box.lines("signed") == 1);
  CHECK(shop.box.lines("reloaded") == 1);
  must({"openssl", "verify", "-CAfile", world.place.str("ca.crt"), world.place.str("www.crt")});
  const Finished of_crt =
      test::run({.argv = {"openssl", "x509", "-in", world.place.str("www.crt"), "-noout", "-pubkey"}});
  const Finished of_key = test::run({.argv = {"openssl", "pkey", "-in", world.place.str("www.key"), "-pubout"}});
  CHECK(of_crt.out == of_key.out);
  shop.each_step_once(run);
  // It is valid for long: nothing is done.
  CHECK(shop.result(world.start("false", "true"))["renewed"] == false);
}

TEST_CASE("examples: a certificate that the server does not take is put back with its key") {
  Authority world;
  const std::string key = read_file(world.place / "www.key");
  const std::string run = world.start(world.sign(), "echo tried >>" + world.shop.box.out("tried") + "; exit 3");
  world.shop.box.fails(run, "CommandFailed");
  CHECK(world.shop.box.lines("tried") == 3);
  CHECK(read_file(world.place / "www.crt") == world.old);
  CHECK(read_file(world.place / "www.key") == key);
}

TEST_CASE("examples: a sensor over its limit asks, acts once, and goes on as a new run") {
  Shop shop;
  shop.take("sensor");
  write_file(shop.box.out("value"), "90\n");
  const Json input = {{"read", "cat " + shop.box.out("value")},
                      {"limit", 80.5},
                      {"act", "echo \"$1\" >>" + shop.box.out("acted")},
                      {"every", "50ms"},
                      {"times", 2},
                      {"rounds", 4}};
  const std::string run = shop.box.start("sensor", input.dump());
  const std::string question = shop.box.wait_of(run, "question");
  shop.box.suspended(run);
  CHECK(shop.box.show(run)["state"]["high"] == "2");
  shop.box.restart();
  write_file(shop.box.out("value"), "70\n");
  CHECK(shop.box.bide({"answer", question, "act"}).exit.code == 0);
  const Json done = shop.box.comes_to(run, "completed");
  CHECK(shop.box.text("acted") == "90\n");
  const std::string next = std::to_string(done["continued_as"].get<int>());
  CHECK(shop.box.show(next)["input"]["high"] == 0);
  shop.each_step_once(run);
  // It may have gone on once more by then: it is over, which it says, and the one after it is cancelled.
  Json shown;
  for (std::string last = next; !last.empty();) {
    const Finished cancel = shop.box.bide({"cancel", last});
    INFO(cancel.err);
    if (cancel.exit.code != 0) {
      CHECK(cancel.exit.code == 4);
      CHECK_FALSE(shop.box.show(last)["finished_at"].is_null());
    }
    eventually([&] { return !(shown = shop.box.show(last))["finished_at"].is_null(); }, "the successor ends", 60s);
    last = shown["continued_as"].is_null() ? "" : std::to_string(shown["continued_as"].get<int>());
  }
  CHECK(shown["status"] == "cancelled");
}

TEST_CASE("examples: a dump is restored elsewhere before it counts, and one that fails the drill is removed") {
  Shop shop;
  shop.take("restore-drill");
  shop.gate("restore-drill", "restore-dump");
  const TempDir place;
  must({"sqlite3", place.str("app.db"), "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO things (name) VALUES ('a''b'), ('c'), (NULL)", "CREATE TABLE empty (x)"});
  fs::create_directory(place / "dumps");
  Json input = {{"database", place.str("app.db")}, {"into", place.str("dumps")}};
  const std::string run = shop.box.start("restore-drill", input.dump());
  shop.begun("restore-dump");
  shop.box.kill_agent();
  must({"sqlite3", place.str("app.db"), "DELETE FROM things"});  // what was dumped is what is compared
  shop.box.serve();
  shop.go();
  const Json result = shop.result(run);
  CHECK(result["rows"] == "empty=0 things=3 ");
  CHECK(shop.box.lines("restore-dump") == 1);
  const std::string query =
      "gzip -dc \"$1\" | sqlite3 :memory: '.read /dev/stdin' 'SELECT name FROM things WHERE id = 1'";
  const Finished rows = test::run({.argv = {"sh", "-c", query, "sh", result["dump"].get<std::string>()}});
  CHECK(rows.out == "a'b\n");
  shop.each_step_once(run);
  fs::remove(result["dump"].get<std::string>());
  input["check"] = "SELECT 1 FROM things WHERE name = 'z'";
  const Json error = shop.box.fails(shop.box.start("restore-drill", input.dump()), "CommandFailed");
  CHECK(error.dump().find("the check found nothing") != std::string::npos);
  CHECK(fs::is_empty(place / "dumps"));
}

TEST_CASE("examples: a command goes to one host, then to the others, and runs once on each") {
  Shop shop;
  shop.take("fleet");
  // A host is a folder; the last two arguments are its name and the command.
  shop.stand_in("fleet", "ssh",
                "while [ $# -gt 2 ]; do shift; done\nmkdir -p OUT/host-$1\ncd OUT/host-$1\nexec sh -c \"$2\"\n");
  const std::string command = "echo ran >>count; until [ -e ../go ]; do sleep 0.02; done; echo fine";
  write_file(shop.box.out("go"), "");
  const std::string run = shop.box.start("fleet", Json{{"hosts", "a b c"}, {"command", command}}.dump());
  shop.box.suspended(run);
  CHECK(shop.box.text("host-a/count") == "ran\n");
  CHECK_FALSE(fs::exists(shop.box.out("host-b/count")));
  fs::remove(shop.box.out("go"));
  shop.box.decide(run, "approve");
  shop.begun("host-b/count");
  shop.begun("host-c/count");
  shop.box.kill_agent();
  shop.box.serve();
  shop.go();
  CHECK(shop.result(run)["first"] == "fine");
  for (const char* host : {"a", "b", "c"}) CHECK(shop.box.text("host-" + std::string(host) + "/count") == "ran\n");
  shop.each_step_once(run);
}

TEST_CASE("examples: a model's tool that changes something waits for a yes, and its key is seen by nobody") {
  Shop shop;
  shop.take("assistant");
  const TempDir place;
  write_file(place / "old/file", "bytes\n");
  const std::string key = "sk-" + shop.box.tag() + "-canary";
  write_file(shop.box.data() + "/secrets/MODEL_KEY", key + "\n");
  fs::permissions(shop.box.data() + "/secrets/MODEL_KEY", fs::perms(0600));
  Sink model([&](const Sink::Request&, int nth) {
    const Json answers[] = {{{"tool", "list"}, {"arguments", {{"path", place.str()}}}},
                            {{"tool", "remove"}, {"arguments", {{"path", place.str("old")}}}},
                            {{"text", "removed old"}}};
    const std::string body = answers[std::min(nth, 3) - 1].dump();
    Sink::Reply reply;
    reply.bytes = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    return reply;
  });
  const Json input = {{"model", model.url("/chat")}, {"task", "free some space"}};
  const std::string run = shop.box.start("assistant", input.dump());
  shop.box.suspended(run);
  CHECK(fs::exists(place / "old"));
  shop.box.restart();
  shop.box.decide(run, "approve");
  CHECK(shop.result(run) == Json{{"text", "removed old"}, {"turns", 3}});
  CHECK_FALSE(fs::exists(place / "old"));
  REQUIRE(model.count() == 3);
  std::set<std::string> keys;
  for (const auto& request : model.requests()) {
    CHECK(request.field("authorization") == "Bearer " + key);
    keys.insert(request.field("idempotency-key"));
  }
  CHECK(keys.size() == 3);
  CHECK(model.requests()[2].body.find("\"role\": \"tool\"") != std::string::npos);
  shop.each_step_once(run);
  const Finished found = test::run({.argv = {"grep", "-rlF", "--exclude-dir=secrets", key, shop.box.data()}});
  CHECK(found.out.empty());
}

namespace {

// A shop that does what it is asked once for each key, and says no to what is named.
struct Counter {
  std::string refuses;
  std::map<std::string, std::set<std::string>> done;  // keys by path
  std::vector<std::string> order;

  Sink::Reply answer(const Sink::Request& request) {
    const std::string path = request.line.substr(5, request.line.find(' ', 5) - 5);
    if (path == refuses) return Sink::status(500);
    if (done[path].insert(request.field("idempotency-key")).second) order.push_back(path + " " + request.body);
    const std::string body = path.substr(1) + "-1";
    Sink::Reply reply;
    reply.bytes = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    if (path == "/send") reply.after = 1500ms;
    return reply;
  }
};

}  // namespace

TEST_CASE("examples: a purchase whose agent dies while it is sent is paid and sent once") {
  Shop shop;
  shop.take("purchase");
  Counter counter;
  Sink provider([&](const Sink::Request& request, int) { return counter.answer(request); });
  const Json input = {{"shop", provider.url("")}, {"article", "lamp"}, {"cents", 12'000}};
  const std::string run = shop.box.start("purchase", input.dump());
  shop.box.suspended(run);
  shop.box.decide(run, "approve");
  eventually([&] { return provider.count() >= 3; }, "it is being sent", 60s);
  shop.held(1);
  shop.box.kill_agent();
  shop.box.serve();
  CHECK(shop.result(run) == Json{{"reserved", "reserve-1"}, {"paid", "charge-1"}, {"sent", "send-1"}});
  CHECK(counter.order ==
        std::vector<std::string>{"/reserve lamp", "/charge reserve-1 12000", "/send reserve-1 charge-1"});
  CHECK(provider.count() == 3);
  shop.each_step_once(run);
}

TEST_CASE("examples: a purchase that cannot be sent gives the money back, and then releases what was reserved") {
  Shop shop;
  shop.take("purchase");
  Counter counter;
  counter.refuses = "/send";
  Sink provider([&](const Sink::Request& request, int) { return counter.answer(request); });
  const Json input = {{"shop", provider.url("")}, {"article", "lamp"}, {"cents", 500}};
  const std::string run = shop.box.start("purchase", input.dump());
  eventually([&] { return provider.count() >= 4; }, "sending was tried twice", 60s);
  shop.box.kill_agent();
  shop.box.serve();
  shop.box.fails(run, "CommandFailed");
  CHECK(counter.order ==
        std::vector<std::string>{"/reserve lamp", "/charge reserve-1 500", "/refund charge-1", "/release reserve-1"});
}

TEST_CASE("examples: photos are imported once each, checked, and the card is emptied after a yes") {
  Shop shop;
  shop.take("photos");
  shop.stand_in("photos", "convert", "cp -- \"$1\" \"$4\"\n");
  shop.gate("photos", "import-photo");
  const TempDir place;
  write_file(place / "card/DCIM/1.JPG", "one");
  write_file(place / "card/DCIM/2.jpg", "two");
  write_file(place / "card/again/3.jpg", "one");
  write_file(place / "card/notes.txt", "no photo");
  const Json input = {{"card", place.str("card")}, {"library", place.str("library")}};
  const std::string run = shop.box.start("photos", input.dump());
  shop.begun("import-photo", 2);
  shop.box.kill_agent();
  shop.box.serve();
  shop.go();
  const std::string question = shop.box.wait_of(run, "question");
  CHECK(fs::exists(place / "card/DCIM/1.JPG"));
  CHECK(shop.box.bide({"answer", question, "yes"}).exit.code == 0);
  CHECK(shop.result(run) == Json{{"photos", 3}, {"files", 2}, {"removed", true}});
  CHECK(shop.box.lines("import-photo") == 3);
  int originals = 0;
  for (const auto& entry : fs::recursive_directory_iterator(place / "library")) {
    if (entry.is_regular_file() && entry.path().string().find(".small.") == std::string::npos) ++originals;
  }
  CHECK(originals == 2);
  CHECK_FALSE(fs::exists(place / "card/DCIM/1.JPG"));
  CHECK(fs::exists(place / "card/notes.txt"));
  shop.each_step_once(run);
}

TEST_CASE("examples: a report is measured side by side once, sent back with a comment, and published") {
  Shop shop;
  shop.take("report");
  const TempDir place;
  const auto count = [&](const std::string& name, int figure) {
    return "echo x >>" + shop.box.out(name) + "; echo " + std::to_string(figure);
  };
  const Json sources = {{"north", count("north", 41)}, {"south", shop.gated("south", "echo 7")}};
  const std::string run =
      shop.box.start("report", Json{{"sources", sources}, {"target", place.str("report.txt")}}.dump());
  shop.begun("south");
  eventually([&] { return shop.box.sql("SELECT count(*) FROM steps WHERE status = 'completed'")[0][0] == 1; },
             "the other branch is measured", 60s);
  shop.box.kill_agent();
  shop.box.serve();
  shop.go();
  const std::string draft = shop.box.wait_of(run, "approval");
  CHECK(shop.box.bide({"request-changes", draft, "--comment", "say since when"}).exit.code == 0);
  std::string second;
  eventually([&] { return (second = shop.box.wait_of(run, "approval")) != draft; }, "it is asked again", 60s);
  CHECK(shop.box.bide({"approve", second}).exit.code == 0);
  CHECK(shop.result(run)["drafts"] == 2);
  const std::string text = read_file(place / "report.txt");
  CHECK(text.find("north                  41") != std::string::npos);
  CHECK(text.find("Note: say since when") != std::string::npos);
  CHECK(shop.box.lines("north") == 1);
  CHECK(shop.box.lines("south") == 1);
  shop.each_step_once(run);
}

TEST_CASE("examples: a newsletter in Node reaches each reader once, and notes the address that is none") {
  Shop shop;
  shop.take("newsletter");
  const std::string send = "cat >>" + shop.box.out("letters") + "; echo \"$1\" >>" + shop.box.out("sent") +
                           "; [ \"$1\" != bad@x ] || exit 65; [ \"$1\" = a@x ] || { " + shop.gated("others", "true") +
                           "; }";
  const Json input = {{"readers", Json::array({"a@x", "b@x", "bad@x", "c@x"})}, {"text", "hello\n"}, {"send", send}};
  const std::string run = shop.box.start("newsletter", input.dump());
  shop.box.suspended(run);
  CHECK(shop.box.text("sent") == "a@x\n");
  shop.box.decide(run, "approve");
  shop.begun("others", 2);
  shop.box.kill_agent();
  shop.box.serve();
  shop.go();
  CHECK(shop.result(run) == Json{{"sent", 3}, {"refused", Json::array({"bad@x"})}});
  CHECK(shop.box.lines("sent") == 4);
  CHECK(shop.box.text("letters") == "hello\nhello\nhello\nhello\n");
  shop.each_step_once(run);
}

TEST_CASE("examples: a meter in C is billed once, with what it read before somebody was asked") {
  Shop shop;
  shop.take("meter");
  must({"sh", shop.box.flows() + "/meter/build.sh"});
  write_file(shop.box.out("meter"), "150\n");
  const Json input = {{"read", "cat " + shop.box.out("meter")},
                      {"last", 100},
                      {"cents", 32},
                      {"most", 10},
                      {"bills", shop.box.out("bills")}};
  const std::string run = shop.box.start("meter", input.dump());
  shop.box.suspended(run);
  write_file(shop.box.out("meter"), "151\n");
  shop.box.restart();
  shop.box.decide(run, "approve");
  CHECK(shop.result(run) == Json{{"meter", 150}, {"units", 50}, {"cents", 1600}});
  CHECK(shop.box.text("bills") == "meter 150 units 50 cents 1600\n");
  shop.each_step_once(run);
}

}  // namespace bide::test
