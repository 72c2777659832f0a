// SecretValues: values that nobody may read in a file, a log or an answer, and what finds them in a text [D4]. A value
// is looked for as its bytes and as a JSON string writes them. One that is shorter than limits::kSecretLeast could not
// be told from other text and is not looked for.
// In JSON a string is also looked at as what it says: "\u00e4" and "\/" are ways to write a value.
//
// Threads: constant once filled. Failures: a file that cannot be read is left out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bide {

class SecretValues {
 public:
  void add(const std::string& name, const std::string& value);
  [[nodiscard]] bool empty() const { return needles_.empty(); }
  // The name of a secret that stands in the text.
  [[nodiscard]] std::optional<std::string> find(std::string_view text) const;
  // "[secret NAME]" in the place of each.
  [[nodiscard]] std::string scrubbed(std::string text) const;
  // '*' in the place of each of their bytes: what stands in a file to which others append. True: there were some.
  bool mask(std::string& bytes) const;
  // The first or the last `most` bytes of a text, less what the cut left of a secret: a part of one is not found as it.
  // Where there is more, the text reaches longest() bytes beyond the cut.
  [[nodiscard]] std::string_view first(std::string_view text, std::size_t most) const;
  [[nodiscard]] std::string_view last(std::string_view text, std::size_t most) const;
  // Bytes of the longest: what two looks at a growing file have in common.
  [[nodiscard]] std::size_t longest() const;

 private:
  struct Needle {
    std::string name;
    std::string text;
  };
  [[nodiscard]] std::optional<std::string> find_plain(std::string_view text) const;
  [[nodiscard]] std::string scrubbed_plain(std::string text) const;
  // The needle that stands over a place between two bytes.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> over(std::string_view text, std::size_t place) const;
  std::vector<Needle> needles_;  // longest first: one may be part of another
};

// The value that a secret's file holds: all of it, but for one line end at its end. nullopt: it cannot be read, holds a
// NUL or is over limits::kSecretBytes.
[[nodiscard]] std::optional<std::string> read_secret(const std::string& path);
// The files of a folder by their names; those that begin with a dot are left out. Nothing there: empty.
[[nodiscard]] SecretValues secrets_in(const std::string& folder);

}  // namespace bide
