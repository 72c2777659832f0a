#include "agent/work/workspace_shot.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/base/hash.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHead = 4'096;
constexpr std::uintmax_t kReadMost = 16U << 20;  // of a larger file the size, the beginning and the end are compared
constexpr std::size_t kEntriesMost = 20'000;  // a rehearsal of a program that unpacks a kernel tree ends all the same

std::string read_part(std::ifstream& in, std::uintmax_t from, std::uintmax_t length) {
  std::string text(static_cast<std::size_t>(length), '\0');
  in.seekg(static_cast<std::streamoff>(from));
  in.read(text.data(), static_cast<std::streamsize>(length));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

void read_file(const fs::path& path, const std::string& folder, FileShot& shot) {
  std::error_code failed;
  const std::uintmax_t size = fs::file_size(path, failed);
  std::ifstream in(path, std::ios::binary);
  if (failed || !in) {
    shot.hash = "cannot be read";
    return;
  }
  const std::uintmax_t part = 1U << 20;
  std::string bytes =
      size <= kReadMost ? read_part(in, 0, size) : read_part(in, 0, part) + read_part(in, size - part, part);
  bytes = without_path(std::move(bytes), folder);
  shot.size = static_cast<std::int64_t>(size <= kReadMost ? bytes.size() : size);
  shot.lines = std::count(bytes.begin(), bytes.end(), '\n');
  shot.hash = sha256(bytes);
  shot.head = bytes.substr(0, kHead);
}

FileShot shoot(const fs::directory_entry& entry, const std::string& folder) {
  FileShot shot;
  std::error_code failed;
  const fs::file_status status = entry.symlink_status(failed);
  if (fs::is_symlink(status)) {
    shot.kind = 'l';
    shot.head = without_path(fs::read_symlink(entry.path(), failed).string(), folder);
    shot.hash = shot.head;
  } else if (fs::is_directory(status)) {
    shot.kind = 'd';
  } else if (fs::is_regular_file(status)) {
    shot.executable = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    read_file(entry.path(), folder, shot);
  } else {
    shot.kind = 'o';
  }
  return shot;
}

}  // namespace

std::string without_path(std::string text, const std::string& folder) {
  for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder, at)) {
    text.replace(at, folder.size(), "WORKSPACE");
  }
  return text;
}

WorkspaceShot shoot_workspace(const std::string& folder) {
  WorkspaceShot files;
  std::error_code failed;
  fs::recursive_directory_iterator it(folder, failed);
  for (const fs::recursive_directory_iterator end; !failed && it != end && files.size() < kEntriesMost;
       it.increment(failed)) {
    const std::string path = it->path().lexically_relative(folder).string();
    if (path == "tmp") {
      it.disable_recursion_pending();
      continue;
    }
    files.emplace(path, shoot(*it, folder));
  }
  return files;
}

}  // namespace bide::work
