// What finds the values of secrets in texts [D4].
#include "agent/base/secrets.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "agent/base/json.h"
#include "tests/support/temp_dir.h"

namespace bide {
namespace {

TEST_CASE("Secrets are found as they are and as JSON writes them, and shorter ones are not looked for") {
  SecretValues values;
  values.add("PLAIN", "hunter2hunter2");
  values.add("QUOTED", "a\"b\\c\nd");
  values.add("SHORT", "12345");
  CHECK(values.find("x hunter2hunter2 y") == "PLAIN");
  CHECK(values.find("a\"b\\c\nd") == "QUOTED");
  CHECK(values.find("{\"k\":" + json::quote("a\"b\\c\nd") + "}") == "QUOTED");
  CHECK_FALSE(values.find("12345"));
  CHECK_FALSE(values.find("hunter2hunter"));
  CHECK(values.scrubbed("a hunter2hunter2, hunter2hunter2") == "a [secret PLAIN], [secret PLAIN]");
  CHECK(values.longest() == 14);
}

TEST_CASE("A secret is found in JSON however its characters are escaped, also in JSON within JSON") {
  SecretValues values;
  values.add("S", "pa/ss-\xc3\xa4\xf0\x9f\x94\x91-word");
  for (const char* written : {R"("pa/ss-\u00e4\ud83d\udd11-word")", R"("pa\/ss-\u00E4\uD83D\uDD11-word")",
                              R"("\u0070a/ss-ä\ud83d\udd11-w\u006Frd")"}) {
    INFO(written);
    const std::string document = "{\"a\":\"b\\n\",\"k\":[" + std::string(written) + ",\"c\\n\"]}";
    CHECK(values.find(document) == "S");
    CHECK(values.scrubbed(document) == R"({"a":"b\n","k":["[secret S]","c\n"]})");
    CHECK(values.find(json::quote(document)) == "S");
    CHECK(values.scrubbed(json::quote(document)) == json::quote(R"({"a":"b\n","k":["[secret S]","c\n"]})"));
    CHECK(values.find("not JSON \" at all " + document) == "S");
  }
  const std::string other = R"({"k":"pa\/ss-\u00e4\ud83d\udd12-word\n","l":"\\"})";
  CHECK_FALSE(values.find(other));
  CHECK(values.scrubbed(other) == other);
  std::string line = R"({"k": "pa/ss-\u00e4\ud83d\udd11-word"})";  // as a log has it
  CHECK(values.mask(line));
  CHECK(line.find("word") == std::string::npos);
}

TEST_CASE("A text that is cut keeps no part of a secret that the cut went through") {
  SecretValues values;
  values.add("A", "0123456789");
  values.add("B", "5550666");
  const std::string text = "xx0123456789yy55506660123456789zz";
  for (std::size_t most = 0; most <= text.size(); ++most) {
    const std::string_view first = values.first(text, most);
    const std::string_view last = values.last(text, most);
    INFO(most << ": " << first << " | " << last);
    CHECK(first.size() <= most);
    CHECK(last.size() <= most);
    CHECK(text.starts_with(first));
    CHECK(text.ends_with(last));
    for (const std::string_view left : {first, last})  // whole ones, and what stands between them
      CHECK(values.scrubbed(std::string(left)).find_first_of("0123456789") == std::string::npos);
  }
  CHECK(values.first(text, 7) == "xx");
  CHECK(values.first(text, 13) == "xx0123456789y");
  CHECK(values.last(text, 14) == "0123456789zz");
  CHECK(values.last(text, 9) == "zz");
}

TEST_CASE("A secret that is part of another one does not hide its rest") {
  SecretValues values;
  values.add("INNER", "abcdef");
  values.add("OUTER", "abcdefghij");
  CHECK(values.scrubbed("abcdefghij abcdef") == "[secret OUTER] [secret INNER]");
}

TEST_CASE("Masking keeps the length of what others append to") {
  SecretValues values;
  values.add("S", "secret-value");
  std::string bytes = "one secret-value two\n";
  CHECK(values.mask(bytes));
  CHECK(bytes == "one ************ two\n");
  CHECK_FALSE(values.mask(bytes));
}

TEST_CASE("A secret's file is its value but for one line end") {
  const test::TempDir dir;
  test::write_file(dir / "A", "first-value\n\n");
  test::write_file(dir / "NUL", std::string("with\0nul", 8));
  test::write_file(dir / ".hidden", "hidden-value");
  std::filesystem::create_directory(dir / "folder");
  CHECK(read_secret(dir.str("A")) == "first-value\n");
  CHECK_FALSE(read_secret(dir.str("NUL")));
  CHECK_FALSE(read_secret(dir.str("none")));
  CHECK_FALSE(read_secret(dir.str("folder")));
  const SecretValues values = secrets_in(dir.str());
  CHECK(values.find("first-value\n") == "A");
  CHECK_FALSE(values.find("hidden-value"));
  CHECK(secrets_in(dir.str("none")).empty());
}

}  // namespace
}  // namespace bide
