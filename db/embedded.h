// Files that the build put into the program (embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace bide {

struct EmbeddedFile {
  std::string_view name;  // file name without folder
  std::string_view bytes;
};

[[nodiscard]] std::span<const EmbeddedFile> embedded_migrations();  // sorted by name
[[nodiscard]] std::span<const EmbeddedFile> embedded_page();

}  // namespace bide
