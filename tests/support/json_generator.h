// Generated JSON: a tree from a seed, and texts of it that mean the same and are written differently.
#pragma once

#include <string>
#include <vector>

#include "agent/base/random.h"

namespace bide::test {

struct JsonMember;

// A JSON value. Numbers are kept as they are written, strings as their UTF-8 value.
struct JsonTree {
  enum class Kind { literal, number, string, array, object };
  Kind kind = Kind::literal;
  std::string text = "null";        // literal, number, string
  std::vector<JsonMember> members;  // object (keys differ), array (no keys)
};
struct JsonMember {
  std::string key;
  JsonTree value;
};

class JsonGenerator {
 public:
  explicit JsonGenerator(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_.next() % bound); }
  [[nodiscard]] JsonTree tree(std::size_t depth = 4);
  [[nodiscard]] std::string string();
  [[nodiscard]] std::string number();
  // One of the many texts of the tree: any order of keys, any white space, any escapes.
  [[nodiscard]] std::string text(const JsonTree& tree);
  // A string literal of the value, with escapes where none are needed.
  [[nodiscard]] std::string literal(const std::string& value);
  [[nodiscard]] std::string space();

 private:
  SeededRandom random_;
};

// The canonical form by rule D1, written down independently of json.cpp.
[[nodiscard]] std::string expected_canonical(const JsonTree& tree);

}  // namespace bide::test
