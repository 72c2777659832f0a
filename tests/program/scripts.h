// Scripts: workflows in a folder of their own, and `bide` on them without an agent. One thread.
#pragma once

#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::test {

class Scripts {
 public:
  // Those of tests/program/rehearse/KIND.
  explicit Scripts(const std::string& kind);
  // One: `set -eu` comes first, and OUT, the folder of out().
  Scripts(const std::string& name, const std::string& text);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::string out(const std::string& name) const { return dir_.str(name); }
  [[nodiscard]] int lines(const std::string& name) const;
  // Where what is tried out puts its folders.
  [[nodiscard]] std::string scratch() const { return dir_.str("scratch"); }
  // `bide VERB FILE …`
  [[nodiscard]] Finished bide(const std::string& verb, const std::string& name,
                              const std::vector<std::string>& more = {}) const;

 private:
  void add(const std::string& name, const std::string& text);
  TempDir dir_;
  std::vector<std::string> names_;
};

}  // namespace bide::test
