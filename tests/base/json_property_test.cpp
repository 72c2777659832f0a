// [N128] Canonical form over generated JSON. A failure prints the seed; JsonGenerator(seed) makes it again.
#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "tests/support/json_generator.h"

namespace bide::json {
namespace {

using test::JsonGenerator;
using test::JsonTree;

constexpr std::uint64_t kSeeds = 4000;

JsonTree with_object_on_top(JsonGenerator& generator) {
  JsonTree tree = generator.tree();
  while (tree.kind != JsonTree::Kind::object) tree = generator.tree();
  return tree;
}

TEST_CASE("[N128] all texts of a value have one canonical form, and it is the expected one") {
  std::size_t texts = 0;
  std::size_t rewritten = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    JsonGenerator generator(seed);
    const JsonTree tree = generator.tree();
    const std::string expected = test::expected_canonical(tree);
    for (int i = 0; i < 4; ++i) {
      const std::string text = generator.space() + generator.text(tree) + generator.space();
      CAPTURE(seed, text);
      REQUIRE(!check(text));
      REQUIRE(canonical(text) == expected);
      ++texts;
      rewritten += text == expected ? 0 : 1;
    }
    REQUIRE(!check(expected));
    REQUIRE(canonical(expected) == expected);
  }
  CHECK(texts == kSeeds * 4);
  CHECK(rewritten > texts / 2);  // else the generator has gone dull
}

TEST_CASE("[N128] another value has another canonical form, also one that is equal as a number") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    JsonGenerator generator(seed);
    const std::string number = generator.number();
    const bool whole = number.find_first_of(".eE") == std::string::npos;
    CAPTURE(seed, number);
    CHECK(canonical("[" + number + "]") == "[" + number + "]");
    CHECK(canonical(number + (whole ? ".0" : "")) == number + (whole ? ".0" : ""));

    const JsonTree one = generator.tree();
    const JsonTree other = generator.tree();
    if (test::expected_canonical(one) == test::expected_canonical(other)) continue;
    CHECK(canonical(generator.text(one)) != canonical(generator.text(other)));
    ++compared;
  }
  CHECK(canonical("1") != canonical("1.0"));
  CHECK(canonical("100") != canonical("1e2"));
  CHECK(canonical("\"1\"") != canonical("1"));
  CHECK(compared > kSeeds / 2);
}

TEST_CASE("[N128] generated refusals: the offset is the byte that was put in") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    JsonGenerator generator(seed);
    const std::string inner = generator.text(with_object_on_top(generator));
    const std::string before = "[" + inner + ",";
    std::string text;
    std::size_t offset = before.size();
    std::string why;
    switch (generator.below(6)) {
      case 0: {
        const std::string key = generator.string();
        const std::string first = "{" + generator.literal(key) + ":" + inner + ",";
        text = before + first + generator.literal(key) + ":1}]";
        offset += first.size();
        why = "duplicate key";
        break;
      }
      case 1: {
        const std::string start = "\"" + generator.literal(generator.string()).substr(1);
        const std::string open = start.substr(0, start.size() - 1);
        text = before + open + (generator.below(2) == 0 ? "\\uD9aB\"]" : "\\udc12\\u0041\"]");
        offset += open.size();
        why = "lone surrogate";
        break;
      }
      case 2: {
        const std::string start = generator.literal(generator.string());
        const std::string open = start.substr(0, start.size() - 1);
        static const std::string kBad[] = {"\xFF", "\x80", "\xC0\x80", "\xF8\x88\x80\x80\x80", "\xE2\x28\xA1"};
        text = before + open + kBad[generator.below(5)] + "\"]";
        offset += open.size();
        why = "invalid UTF-8";
        break;
      }
      case 3:
        text = before + std::string(200, '[') + "1" + std::string(200, ']') + "]";
        offset += 199;  // the outer array is the first of 200
        why = "nesting over 200";
        break;
      case 4:
        text = inner + generator.space();
        offset = text.size();
        text += generator.text(generator.tree());
        why = "trailing bytes";
        break;
      case 5:
        text = before + "\"" + static_cast<char>(generator.below(0x20)) + "\"]";
        offset += 1;
        why = "control character";
        break;
    }
    CAPTURE(seed, text);
    const auto refused = check(text);
    REQUIRE(refused);
    CHECK(refused->offset == offset);
    CHECK_THAT(refused->why, Catch::Contains(why));
    CHECK_THROWS_AS(canonical(text), CorruptData);
    seen.insert(why);
  }
  CHECK(seen.size() == 6);
}

TEST_CASE("[N128] every strict prefix of an object is refused at its end or before") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    JsonGenerator generator(seed);
    const std::string text = generator.text(with_object_on_top(generator));
    for (std::size_t size = 0; size < text.size(); ++size) {
      const auto refused = check(std::string_view(text).substr(0, size));
      CAPTURE(seed, text, size);
      REQUIRE(refused);
      REQUIRE(refused->offset <= size);
    }
  }
}

TEST_CASE("json: members of generated objects are found as written") {
  std::size_t found = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    JsonGenerator generator(seed);
    const JsonTree tree = with_object_on_top(generator);
    const std::string text = generator.text(tree);
    CAPTURE(seed, text);
    for (const auto& [key, value] : tree.members) {
      const auto raw = member(text, key);
      REQUIRE(raw);
      REQUIRE(text.find(*raw) != std::string::npos);
      REQUIRE(canonical(*raw) == test::expected_canonical(value));
      if (value.kind == JsonTree::Kind::string) REQUIRE(string_member(text, key) == value.text);
      ++found;
    }
  }
  CHECK(found > kSeeds);
}

}  // namespace
}  // namespace bide::json
