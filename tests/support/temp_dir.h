// TempDir: an empty directory of its own, removed with all in it at the end of the scope.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace bide::test {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] std::string str() const { return path_.string(); }
  [[nodiscard]] std::string str(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The whole file; empty if it cannot be read.
[[nodiscard]] std::string read_file(const std::filesystem::path& file);
// Throws std::runtime_error if it cannot be written. Makes missing directories above it.
void write_file(const std::filesystem::path& file, std::string_view content);

}  // namespace bide::test
