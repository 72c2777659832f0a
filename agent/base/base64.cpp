#include "agent/base/base64.h"

#include <cstdint>

namespace bide {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve(4 * ((bytes.size() + 2) / 3));
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      word = (word << 8U) | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out.push_back(i + j > bytes.size() ? '=' : kAlphabet[(word >> (18U - 6U * static_cast<unsigned>(j))) & 63U]);
    }
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const bool pad = i + j >= text.size() - padding;
      const int value = pad ? 0 : digit(text[i + j]);
      if (value < 0) return std::nullopt;
      word = (word << 6U) | static_cast<std::uint32_t>(value);
    }
    out.push_back(static_cast<char>(word >> 16U));
    out.push_back(static_cast<char>(word >> 8U));
    out.push_back(static_cast<char>(word));
  }
  for (std::size_t i = 0; i < padding; ++i) {
    if (out.back() != '\0') return std::nullopt;
    out.pop_back();
  }
  return out;
}

}  // namespace bide
