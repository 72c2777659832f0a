#include "agent/cli/console.h"

#include <algorithm>
#include <ostream>

#include "agent/base/text.h"

namespace bide::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// C0 and C1 control characters, and what turns the direction of a line around.
bool steers(std::string_view sequence) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(sequence[at]); };
  if (sequence.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (sequence.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (sequence.size() != 3 || byte(0) != 0xE2) return false;
  const bool embeds = byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
  return embeds || isolates;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  const std::size_t has = characters(text);
  return has < width ? text + std::string(width - has, ' ') : text;
}

}  // namespace

std::string Console::paint(Style style, std::string_view text) const {
  if (!colour || style == Style::plain || text.empty()) return std::string(text);
  const char* code = "";
  switch (style) {
    case Style::plain: break;
    case Style::good: code = "32"; break;
    case Style::bad: code = "31"; break;
    case Style::busy: code = "33"; break;
    case Style::dim: code = "2"; break;
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 1 && (text.front() == '\n' || text.front() == '\t' || text.front() == '\r')) {
      out += ' ';
    } else {
      out += length == 0 || steers(sequence) ? kReplacement : sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::string line = printable(text);
  if (characters(line) <= most) return line;
  std::size_t at = 0;
  for (std::size_t kept = 0; kept + 1 < most; ++kept) at += utf8_sequence(std::string_view(line).substr(at));
  return line.substr(0, at) + "…";
}

Style style_of(std::string_view status) {
  if (status == "completed" || status == "resolved") return Style::good;
  if (status == "failed" || status == "needs_reconcile" || status == "expired") return Style::bad;
  if (status == "cancelled") return Style::dim;
  if (status == "running" || status == "waiting" || status == "started") return Style::busy;
  return Style::plain;
}

void Table::print(Console& console) const {
  std::vector<std::size_t> widths;
  for (const std::string& head : heads_) widths.push_back(characters(head));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells, bool head) {
    std::size_t last = cells.size();  // nothing is written after the last cell that has something
    while (last > 1 && cells[last - 1].empty()) --last;
    for (std::size_t i = 0; i < last; ++i) {
      const bool ends = i + 1 == last;
      const Style style = head ? Style::dim : i == status_ ? style_of(cells[i]) : Style::plain;
      console.out << console.paint(style, ends ? cells[i] : padded(cells[i], widths[i])) << (ends ? "\n" : "  ");
    }
  };
  line(heads_, true);
  for (const auto& row : rows_) line(row, false);
}

}  // namespace bide::cli
