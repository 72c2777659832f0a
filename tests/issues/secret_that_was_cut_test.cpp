// Of too much stderr the end is kept, of too much stdout the beginning. The cut was made first and the secrets were
// looked for afterwards: one that the cut went through was not found, and its half stood in the journal, in events and
// in the answers. And what Python writes as "\u00e4" was another text than the secret's.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {

namespace {

std::string everything(const Box& box, const std::string& run) {
  return box.sql("SELECT * FROM steps").dump() + box.sql("SELECT * FROM events").dump() +
         box.sql("SELECT * FROM waits").dump() + box.bide({"journal", run, "--json"}).out;
}

}  // namespace

TEST_CASE("[D4] issue: no half of a secret is kept of an output that was cut, and no other way to write one") {
  Box box;
  const std::string first = "FIRSTHALF" + std::string(50, 'a');
  const std::string second = std::string(50, 'b') + "SECONDHALF";
  const std::string value = first + "\xc3\xa4" + second;
  write_file(box.data() + "/secrets/TOKEN", value);
  std::filesystem::permissions(box.data() + "/secrets/TOKEN", std::filesystem::perms(0600));
  write_file(box.flows() + "/w.toml", "secrets = [\"TOKEN\"]\n");
  box.program(
      "w",
      // Behind it so much that the last 4096 bytes begin within the secret.
      "bide step end --effect pure --try --secret TOKEN -- sh -c 'printf %s \"$TOKEN\" >&2; head -c 4040 /dev/zero | "
      "tr "
      "\"\\0\" . >&2; exit 3' || :\n"
      // Before it so much that the first 4096 end within the secret; and more than a journal takes.
      "bide step begin --effect pure --try --secret TOKEN -- sh -c 'head -c 4040 /dev/zero | tr \"\\0\" .; printf %s "
      "\"$TOKEN\"; head -c 1100000 /dev/zero | tr \"\\0\" .; exit 3' >/dev/null || :\n"
      "data=$(python3 -c 'import json,os; print(json.dumps({\"t\": open(os.environ[\"BIDE_SECRETS\"] + "
      "\"/TOKEN\").read()}))')\n"
      "bide wait approval Look --data \"$data\" --timeout 1ms --try >/dev/null || :\n"
      "echo \"$data\"\n");
  const std::string run = box.start("w");
  box.comes_to(run, "completed");
  const std::string all = everything(box, run);
  CHECK(box.sql("SELECT count(*) FROM steps WHERE status = 'failed'")[0][0] == 2);
  CHECK(all.find("....") != std::string::npos);
  CHECK(all.find("[secret TOKEN]") != std::string::npos);
  for (const std::string& half : {std::string("FIRSTHALF"), std::string("SECONDHALF")}) {
    INFO(half);
    CHECK(all.find(half) == std::string::npos);
    CHECK(box.bide({"log", run, "--all"}).out.find(half) == std::string::npos);
  }
}

}  // namespace bide::test
