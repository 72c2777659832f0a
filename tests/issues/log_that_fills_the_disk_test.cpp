// M7: a program that prints without end filled the disk with its log, and then the whole agent stood still. The middle
// of a log that has grown too large is given back; its beginning, its end and all offsets stay.
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <fstream>

#include "agent/work/log_cut.h"
#include "tests/support/temp_dir.h"

namespace bide::test {
namespace {

std::int64_t on_disk(const std::string& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return static_cast<std::int64_t>(found.st_blocks) * 512;
}

TEST_CASE("A log that has grown too large keeps its beginning and its end, and gives the rest back") {
  const TempDir dir;
  const std::string path = dir.str("1.log");
  {
    std::ofstream out(path, std::ios::binary);
    out << "first words\n";
    const std::string line(1023, 'x');
    for (int i = 0; i < 40 << 10; ++i) out << line << "\n";
    out << "last words\n";
  }
  const auto size = std::filesystem::file_size(path);
  const auto cut = work::cut_log(path);
  REQUIRE(cut);
  CHECK(std::filesystem::file_size(path) == size);
  CHECK(on_disk(path) < 10 << 20);
  CHECK(cut->from >= 1 << 20);
  CHECK(size - static_cast<std::uintmax_t>(cut->until) >= 8u << 20);
  const std::string text = read_file(path);
  CHECK(text.starts_with("first words\nxxx"));
  CHECK(text.ends_with("xxx\nlast words\n"));
  CHECK_FALSE(work::cut_log(path));  // it is small now
}

TEST_CASE("A log that is not large is left alone") {
  const TempDir dir;
  write_file(dir / "1.log", std::string(20 << 20, 'x'));  // long enough to be cut, and not yet too large
  CHECK_FALSE(work::cut_log(dir.str("1.log")));
  CHECK_FALSE(work::cut_log(dir.str("none.log")));
}

}  // namespace
}  // namespace bide::test
