#include "agent/kernel/principal.h"

#include <utility>

namespace bide::kernel {
namespace {

constexpr std::pair<std::string_view, Scope> kScopes[] = {{"read", Scope::read},       {"start", Scope::start},
                                                          {"approve", Scope::approve}, {"work", Scope::work},
                                                          {"admin", Scope::admin},     {"attempt", Scope::attempt}};

}  // namespace

std::uint8_t scopes_from(std::string_view words) {
  unsigned scopes = 0;
  while (!words.empty()) {
    const auto space = words.find(' ');
    const auto word = words.substr(0, space);
    for (const auto& [text, scope] : kScopes) {
      if (text == word) scopes |= static_cast<unsigned>(scope);
    }
    words = space == std::string_view::npos ? std::string_view() : words.substr(space + 1);
  }
  return static_cast<std::uint8_t>(scopes);
}

std::string scopes_text(std::uint8_t scopes) {
  std::string text;
  for (const auto& [word, scope] : kScopes) {
    if ((scopes & static_cast<unsigned>(scope)) == 0) continue;
    if (!text.empty()) text.push_back(' ');
    text.append(word);
  }
  return text;
}

}  // namespace bide::kernel
