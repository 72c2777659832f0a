#include "tests/support/temp_dir.h"

#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace bide::test {

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "bide-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;  // a process of the test may still write there; the system clears its temporary files
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& file) try {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
} catch (const std::ios_base::failure&) {  // a file of /proc whose process ended after it was opened
  return {};
}

void write_file(const std::filesystem::path& file, std::string_view content) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace bide::test
