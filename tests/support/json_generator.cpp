#include "tests/support/json_generator.h"

#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

namespace bide::test {
namespace {

std::string utf8(std::uint32_t code) {
  std::string out;
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 + code / 64);
    put(0x80 + code % 64);
  } else if (code < 0x10000) {
    put(0xE0 + code / 4096);
    put(0x80 + code / 64 % 64);
    put(0x80 + code % 64);
  } else {
    put(0xF0 + code / 262144);
    put(0x80 + code / 4096 % 64);
    put(0x80 + code / 64 % 64);
    put(0x80 + code % 64);
  }
  return out;
}

// The code points of a text that is known to be UTF-8.
std::vector<std::uint32_t> code_points(const std::string& text) {
  std::vector<std::uint32_t> out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out.push_back(byte);
    } else if (byte >= 0xC0) {
      out.push_back(byte >= 0xF0 ? byte % 8 : byte >= 0xE0 ? byte % 16 : byte % 32);
    } else {
      out.back() = out.back() * 64 + byte % 64;
    }
  }
  return out;
}

std::string unit_escape(std::uint32_t unit, bool upper) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), upper ? "\\u%04X" : "\\u%04x", unit);
  return text.data();
}

const std::map<std::uint32_t, std::string>& short_escapes() {
  static const std::map<std::uint32_t, std::string> table = {{'"', "\\\""}, {'\\', "\\\\"}, {8, "\\b"}, {12, "\\f"},
                                                             {10, "\\n"},   {13, "\\r"},    {9, "\\t"}};
  return table;
}

}  // namespace

std::string JsonGenerator::space() {
  static constexpr std::array<char, 4> kSpaces{' ', '\t', '\n', '\r'};
  std::string out;
  for (std::size_t i = below(3); i > 0; --i) out.push_back(kSpaces.at(below(4)));
  return out;
}

std::string JsonGenerator::string() {
  std::string out;
  for (std::size_t i = below(8); i > 0; --i) {
    switch (below(6)) {
      case 0: out += utf8(static_cast<std::uint32_t>(below(0x20))); break;
      case 1: out += utf8(static_cast<std::uint32_t>(0x80 + below(0xD800 - 0x80))); break;
      case 2: out += utf8(static_cast<std::uint32_t>(0xE000 + below(0x2000))); break;
      case 3: out += utf8(static_cast<std::uint32_t>(0x10000 + below(0x100000))); break;
      case 4: out.push_back("\"\\/ab"[below(5)]); break;
      case 5: out.push_back(static_cast<char>(0x20 + below(0x60))); break;
    }
  }
  return out;
}

std::string JsonGenerator::number() {
  std::string out = below(3) == 0 ? "-" : "";
  if (below(5) == 0) {
    out += "0";
  } else {
    out.push_back(static_cast<char>('1' + below(9)));
    for (std::size_t i = below(24); i > 0; --i) out.push_back(static_cast<char>('0' + below(10)));
  }
  if (below(3) == 0) {
    out.push_back('.');
    for (std::size_t i = 1 + below(20); i > 0; --i) out.push_back(static_cast<char>('0' + below(10)));
  }
  if (below(3) == 0) {
    out.push_back("eE"[below(2)]);
    out += std::array<const char*, 3>{"", "+", "-"}.at(below(3));
    for (std::size_t i = 1 + below(4); i > 0; --i) out.push_back(static_cast<char>('0' + below(10)));
  }
  return out;
}

JsonTree JsonGenerator::tree(std::size_t depth) {
  JsonTree out;
  switch (below(depth > 0 ? 7 : 4)) {
    case 0: out.text = std::array<const char*, 3>{"null", "true", "false"}.at(below(3)); break;
    case 1:
    case 2:
      out.kind = JsonTree::Kind::number;
      out.text = number();
      break;
    case 3:
      out.kind = JsonTree::Kind::string;
      out.text = string();
      break;
    case 4:
      out.kind = JsonTree::Kind::array;
      for (std::size_t i = below(5); i > 0; --i) out.members.push_back({"", tree(depth - 1)});
      break;
    default: {
      out.kind = JsonTree::Kind::object;
      std::set<std::string> keys;
      for (std::size_t i = below(7); i > 0; --i) keys.insert(string());
      for (const std::string& key : keys) out.members.push_back({key, tree(depth - 1)});
    }
  }
  return out;
}

std::string JsonGenerator::literal(const std::string& value) {
  std::string out = "\"";
  for (const std::uint32_t code : code_points(value)) {
    const auto known = short_escapes().find(code);
    const bool must = code < 0x20 || code == '"' || code == '\\';
    if (!must && below(3) > 0) {
      out += utf8(code);
    } else if (known != short_escapes().end() && below(2) == 0) {
      out += known->second;
    } else if (code == '/' && below(2) == 0) {
      out += "\\/";
    } else if (code < 0x10000) {
      out += unit_escape(code, below(2) == 0);
    } else {
      out += unit_escape(0xD800 + (code - 0x10000) / 1024, below(2) == 0);
      out += unit_escape(0xDC00 + (code - 0x10000) % 1024, below(2) == 0);
    }
  }
  return out + "\"";
}

std::string JsonGenerator::text(const JsonTree& tree) {
  if (tree.kind == JsonTree::Kind::string) return literal(tree.text);
  if (tree.kind == JsonTree::Kind::literal || tree.kind == JsonTree::Kind::number) return tree.text;
  const bool object = tree.kind == JsonTree::Kind::object;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tree.members.size(); ++i) order.push_back(i);
  for (std::size_t i = order.size(); object && i > 1; --i) std::swap(order[i - 1], order[below(i)]);
  std::string out = object ? "{" : "[";
  out += space();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [key, value] = tree.members[order[i]];
    if (i > 0) out += "," + space();
    if (object) out += literal(key) + space() + ":" + space();
    out += text(value) + space();
  }
  return out + (object ? "}" : "]");
}

std::string expected_canonical(const JsonTree& tree) {
  const auto quoted = [](const std::string& value) {
    std::string out = "\"";
    for (const std::uint32_t code : code_points(value)) {
      const auto known = short_escapes().find(code);
      out += known != short_escapes().end() ? known->second : code < 0x20 ? unit_escape(code, false) : utf8(code);
    }
    return out + "\"";
  };
  std::string out;
  switch (tree.kind) {
    case JsonTree::Kind::literal:
    case JsonTree::Kind::number: return tree.text;
    case JsonTree::Kind::string: return quoted(tree.text);
    case JsonTree::Kind::array:
      for (const auto& [key, value] : tree.members) out += (out.empty() ? "" : ",") + expected_canonical(value);
      return "[" + out + "]";
    case JsonTree::Kind::object:  // the members are in the order of their keys' bytes already: they come from a set
      for (const auto& [key, value] : tree.members) {
        out += (out.empty() ? "" : ",") + quoted(key) + ":" + expected_canonical(value);
      }
      return "{" + out + "}";
  }
  return out;
}

}  // namespace bide::test
