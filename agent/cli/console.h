// Console: where a verb writes, and how: tables with aligned columns, colour only on a terminal. What workflows and
// people wrote is made harmless first: it must not steer the reader's terminal. One thread.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace bide::cli {

enum class Style { plain, good, bad, busy, dim };

struct Console {
  std::ostream& out;
  std::ostream& err;
  std::istream& in;
  bool colour = false;       // stdout is a terminal, and NO_COLOR is not set
  bool terminal = false;     // stdout is one
  bool interactive = false;  // a person reads stderr and types: both are terminals

  [[nodiscard]] std::string paint(Style style, std::string_view text) const;
};

// One line of text: line ends and tabs as spaces, other control characters and bytes that are no UTF-8 as U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);
// printable(), and at most `most` characters with "…" at the end if it was cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);
// How a state is painted.
[[nodiscard]] Style style_of(std::string_view status);

class Table {
 public:
  explicit Table(std::vector<std::string> heads) : heads_(std::move(heads)) {}
  // A cell per head. `status`: the column that is painted by style_of, or none.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void paint_column(std::size_t column) { status_ = column; }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  void print(Console& console) const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::string> heads_;
  std::vector<std::vector<std::string>> rows_;
  std::size_t status_ = kNone;
};

}  // namespace bide::cli
