#include "tests/support/golden.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/support/temp_dir.h"

namespace bide::test {
namespace {

std::string_view line_at(std::string_view text, std::size_t offset) {
  const std::size_t before = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void check_golden(std::string_view name, std::string_view text) {
  const std::filesystem::path file = std::filesystem::path(BIDE_SOURCE_DIR) / "tests/golden" / name;
  const char* rewrite = std::getenv("BIDE_GOLDEN_WRITE");
  if (rewrite != nullptr && std::string_view(rewrite) == "1") write_file(file, text);
  const std::string kept = read_file(file);
  const auto [in_kept, in_text] = std::mismatch(kept.begin(), kept.end(), text.begin(), text.end());
  const auto offset = static_cast<std::size_t>(in_kept - kept.begin());
  INFO("tests/golden/" << name << " differs from line " << 1 + std::count(kept.begin(), in_kept, '\n')
                       << " on\n  kept: " << line_at(kept, offset) << "\n  now:  " << line_at(text, offset)
                       << "\nIf the change is meant: run with BIDE_GOLDEN_WRITE=1 and commit the file.");
  const bool same = kept == text;  // by name: Catch2 would print both texts whole
  CHECK(same);
}

}  // namespace bide::test
