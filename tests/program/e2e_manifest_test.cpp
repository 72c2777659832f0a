// What a manifest says, in a whole agent: the schema of the input, variables, retries, a bound for what works on.
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("e2e: an input that does not fit the manifest's schema is refused with pointers, of a child and a loop too") {
  Box box;
  box.program("copy", "bide result got=\"$(bide input url)\"");
  write_file(box.flows() + "/copy.toml",
             "[input]\ntype = \"object\"\nrequired = [\"url\"]\nadditionalProperties = false\n"
             "properties.url = { type = \"string\", minLength = 3 }\nproperties.n = { type = \"integer\" }\n");
  const Finished wrong = box.bide({"run", "copy", "--input", R"({"url": "ab", "n": 1.5})"});
  CHECK(wrong.exit.code == 2);
  CHECK(wrong.err.find("bide: input_invalid: ") == 0);
  CHECK(wrong.err.find("at \"/url\"") != std::string::npos);
  CHECK(wrong.err.find("at \"/n\"") != std::string::npos);
  CHECK(box.json({"runs"})["items"].empty());
  CHECK(box.comes_to(box.start("copy", R"({"url": "abc", "n": 1})"), "completed")["result"]["got"] == "abc");

  box.program("parent", "bide call copy --input '{\"url\": 7}'");
  const Json error = box.fails(box.start("parent"), "input_invalid");
  CHECK(error.dump().find("/url") != std::string::npos);
  box.program("loop", "bide continue-as-new --input '{\"n\": \"x\"}'");
  write_file(box.flows() + "/loop.toml", "input = '{\"properties\": {\"n\": {\"type\": \"integer\"}}}'\n");
  CHECK(box.fails(box.start("loop"), "input_invalid").dump().find("/n") != std::string::npos);
}

TEST_CASE("e2e: a manifest with an unknown key refuses the start with its place and the nearest key") {
  Box box;
  box.program("w", "true");
  write_file(box.flows() + "/w.toml", "description = \"x\"\n  secret = [\"A\"]\n");
  const Finished refused = box.bide({"run", "w"});
  CHECK(refused.exit.code == 2);
  CHECK(refused.err.find("w.toml, line 2, column 3: unknown key secret: did you mean secrets?") != std::string::npos);
}

TEST_CASE("e2e: the manifest's variables are in its attempts, pinned with the version") {
  Box box;
  box.program("w", "bide wait signal go >/dev/null\nbide result colour=\"$COLOUR\" lang=\"$LANG\" path=\"$PATH\"");
  write_file(box.flows() + "/w.toml", "[env]\nCOLOUR = \"green\"\nLANG = \"C\"\nPATH = \"/usr/bin:/bin\"\n");
  const std::string run = box.start("w");
  box.suspended(run);
  write_file(box.flows() + "/w.toml", "[env]\nCOLOUR = \"red\"\n");
  CHECK(box.bide({"signal", run, "go"}).exit.code == 0);
  const Json result = box.comes_to(run, "completed")["result"];
  CHECK(result["colour"] == "green");
  CHECK(result["lang"] == "C");
  const std::string path = result["path"];
  CHECK(path.find(box.data() + "/versions/") == 0);
  CHECK(path.ends_with(":/usr/bin:/bin"));
}

TEST_CASE("e2e: the manifest's retries are those of steps that may be repeated and name none") {
  Box box;
  box.program("w",
              "bide step own --effect pure --retries 0 --try -- sh -c 'echo x >>'$OUT'/own; exit 1' || :\n"
              "bide step once --try -- sh -c 'echo x >>'$OUT'/once; exit 1' || :\n"
              "bide step again --effect pure --try -- sh -c 'echo x >>'$OUT'/again; exit 1' || :\n");
  write_file(box.flows() + "/w.toml", "retries = 2\nbackoff = \"10ms\"\n");
  box.comes_to(box.start("w"), "completed");
  CHECK(box.lines("own") == 1);
  CHECK(box.lines("once") == 1);
  CHECK(box.lines("again") == 3);
}

TEST_CASE("e2e: what works on beside a waiting verb holds the attempt, and no longer than suspend_after_busy") {
  Box box;
  const std::string busy =
      "sh -c 'while :; do :; done # TAG' &\nbide wait signal go >/dev/null\nbide result done:=true";
  box.program("held", busy);
  box.program("bounded", busy);
  write_file(box.flows() + "/bounded.toml", "suspend_after_busy = \"1s\"\n");
  const std::string bounded = box.start("bounded");
  box.suspended(bounded);
  const std::string held = box.start("held");
  eventually([&] { return !box.json({"explain", held})["held_by"].empty(); }, "somebody holds it", 60s);
  CHECK_FALSE(holds_within(2s, [&] { return box.status(held) != "running"; }));
  CHECK(box.bide({"cancel", held}).exit.code == 0);
  CHECK(box.bide({"cancel", bounded}).exit.code == 0);
  box.comes_to(held, "cancelled");
  box.nothing_left();
}

}  // namespace bide::test
