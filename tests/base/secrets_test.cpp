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
