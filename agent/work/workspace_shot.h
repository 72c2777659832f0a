// What lies in a run's workspace at one moment: names, kinds and bytes, not times. For rehearsals, which compare two.
// Plain functions, any thread. What cannot be read is said as such, not thrown: a program may be at work in there.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace bide::work {

struct FileShot {
  char kind = 'f';  // f file, d folder, l link, o other
  bool executable = false;
  std::int64_t size = 0;
  std::int64_t lines = 0;  // line ends
  std::string hash;        // of the bytes (a link's target), raw
  std::string head;        // the first 4 KiB
  bool operator==(const FileShot& other) const {
    return kind == other.kind && executable == other.executable && size == other.size && hash == other.hash;
  }
};
// By path below the folder. TMPDIR (tmp/) is left out: what lies there is meant to be thrown away.
using WorkspaceShot = std::map<std::string, FileShot>;

// The folder's own path stands in the bytes as WORKSPACE: another run has another one.
[[nodiscard]] WorkspaceShot shoot_workspace(const std::string& folder);
[[nodiscard]] std::string without_path(std::string text, const std::string& folder);

}  // namespace bide::work
