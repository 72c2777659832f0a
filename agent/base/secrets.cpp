#include "agent/base/secrets.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/base/fd.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"

namespace bide {

void SecretValues::add(const std::string& name, const std::string& value) {
  const auto known = [&](const Needle& needle) { return needle.text == value; };
  if (value.size() < limits::kSecretLeast || std::any_of(needles_.begin(), needles_.end(), known)) return;
  needles_.push_back({name, value});
  const std::string quoted = json::quote(value);
  const std::string inner = quoted.substr(1, quoted.size() - 2);
  if (inner != value) needles_.push_back({name, inner});
  std::stable_sort(needles_.begin(), needles_.end(),
                   [](const Needle& a, const Needle& b) { return a.text.size() > b.text.size(); });
}

std::optional<std::string> SecretValues::find(std::string_view text) const {
  for (const Needle& needle : needles_) {
    if (text.find(needle.text) != std::string_view::npos) return needle.name;
  }
  return std::nullopt;
}

std::string SecretValues::scrubbed(std::string text) const {
  for (const Needle& needle : needles_) {
    const std::string shown = "[secret " + needle.name + "]";
    for (auto at = text.find(needle.text); at != std::string::npos; at = text.find(needle.text, at + shown.size()))
      text.replace(at, needle.text.size(), shown);
  }
  return text;
}

bool SecretValues::mask(std::string& bytes) const {
  bool found = false;
  for (const Needle& needle : needles_) {
    for (auto at = bytes.find(needle.text); at != std::string::npos; at = bytes.find(needle.text, at)) {
      bytes.replace(at, needle.text.size(), needle.text.size(), '*');
      found = true;
    }
  }
  return found;
}

std::size_t SecretValues::longest() const { return needles_.empty() ? 0 : needles_.front().text.size(); }

std::optional<std::string> read_secret(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  std::string value;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd.get(), buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    value.append(buffer, static_cast<std::size_t>(n));
    if (value.size() > limits::kSecretBytes) return std::nullopt;
  }
  if (value.ends_with('\n')) value.pop_back();
  if (value.find('\0') != std::string::npos) return std::nullopt;
  return value;
}

SecretValues secrets_in(const std::string& folder) {
  SecretValues values;
  DIR* open = folder.empty() ? nullptr : ::opendir(folder.c_str());
  if (open == nullptr) return values;
  while (const dirent* entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    if (name[0] == '.') continue;
    if (const auto value = read_secret(folder + "/" + name)) values.add(name, *value);
  }
  ::closedir(open);
  return values;
}

}  // namespace bide
