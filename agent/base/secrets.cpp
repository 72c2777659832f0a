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
#include "agent/base/text.h"

namespace bide {
namespace {

// The JSON strings of a text that are written with escapes, as what they say. In a text that is no JSON what looks like
// one; what cannot be read is passed over.
class EscapedStrings {
 public:
  explicit EscapedStrings(std::string_view text) : text_(text), escapes_(text.find('\\') != std::string_view::npos) {}
  bool next() {
    if (!escapes_) return false;
    while ((begin_ = text_.find('"', end_)) != std::string_view::npos) {
      bool escaped = false;
      std::size_t at = begin_ + 1;
      for (; at < text_.size() && text_[at] != '"'; ++at) {
        if (text_[at] != '\\') continue;
        escaped = true;
        ++at;
      }
      if (at >= text_.size()) return false;
      auto says = escaped ? json::as_string(text_.substr(begin_, at + 1 - begin_)) : std::nullopt;
      if (!says) {
        end_ = escaped ? begin_ + 1 : at;  // in a text that is no JSON a string may begin where one seems to end
        continue;
      }
      end_ = at + 1;
      says_ = std::move(*says);
      return true;
    }
    return false;
  }
  [[nodiscard]] std::size_t begin() const { return begin_; }
  [[nodiscard]] std::size_t end() const { return end_; }
  [[nodiscard]] const std::string& says() const { return says_; }

 private:
  const std::string_view text_;
  const bool escapes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string says_;
};

void append_unit(std::string& out, unsigned unit) {
  static constexpr const char* kDigits = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[(unit >> static_cast<unsigned>(shift)) & 15U];
}

// As serializers write JSON that keep to ASCII: \u00e4, and a pair for what is beyond 16 bits.
std::string only_ascii(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_sequence(text), 1);
    const auto lead = static_cast<unsigned char>(text.front());
    unsigned code = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
    if (code >= 0x10000) {
      append_unit(out, 0xd800 + ((code - 0x10000) >> 10U));
      append_unit(out, 0xdc00 + ((code - 0x10000) & 0x3ffU));
    } else if (code >= 0x80) {
      append_unit(out, code);
    } else {
      out += text.front();
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

void SecretValues::add(const std::string& name, const std::string& value) {
  const auto known = [&](const Needle& needle) { return needle.text == value; };
  if (value.size() < limits::kSecretLeast || std::any_of(needles_.begin(), needles_.end(), known)) return;
  needles_.push_back({name, value});
  const std::string quoted = json::quote(value);
  const std::string inner = quoted.substr(1, quoted.size() - 2);
  if (inner != value) needles_.push_back({name, inner});
  if (const std::string ascii = only_ascii(inner); ascii != inner) needles_.push_back({name, ascii});
  std::stable_sort(needles_.begin(), needles_.end(),
                   [](const Needle& a, const Needle& b) { return a.text.size() > b.text.size(); });
}

std::optional<std::string> SecretValues::find_plain(std::string_view text) const {
  for (const Needle& needle : needles_) {
    if (text.find(needle.text) != std::string_view::npos) return needle.name;
  }
  return std::nullopt;
}

std::string SecretValues::scrubbed_plain(std::string text) const {
  for (const Needle& needle : needles_) {
    const std::string shown = "[secret " + needle.name + "]";
    for (auto at = text.find(needle.text); at != std::string::npos; at = text.find(needle.text, at + shown.size()))
      text.replace(at, needle.text.size(), shown);
  }
  return text;
}

// Also in a string that is JSON itself: a program's output is one. Each level is half as long at most.
std::optional<std::string> SecretValues::find(std::string_view text) const {
  auto found = find_plain(text);
  for (EscapedStrings strings(text); !found && !needles_.empty() && strings.next();) found = find(strings.says());
  return found;
}

std::string SecretValues::scrubbed(std::string text) const {
  text = scrubbed_plain(std::move(text));
  if (needles_.empty()) return text;
  std::string out;
  std::size_t copied = 0;
  for (EscapedStrings strings(text); strings.next();) {
    if (!find(strings.says())) continue;
    out.append(text, copied, strings.begin() - copied);
    json::append_quoted(out, scrubbed(strings.says()));
    copied = strings.end();
  }
  return out.append(text, copied);
}

std::optional<std::pair<std::size_t, std::size_t>> SecretValues::over(std::string_view text, std::size_t place) const {
  for (const Needle& needle : needles_) {
    const std::size_t from = place < needle.text.size() ? 0 : place - needle.text.size() + 1;
    const std::size_t at = text.substr(0, place + needle.text.size() - 1).find(needle.text, from);
    if (at < place) return std::pair(at, at + needle.text.size());
  }
  return std::nullopt;
}

std::string_view SecretValues::first(std::string_view text, std::size_t most) const {
  std::size_t end = std::min(text.size(), most);
  while (end < text.size()) {
    const auto cut = over(text, end);
    if (!cut) break;
    end = cut->first;
  }
  return text.substr(0, end);
}

std::string_view SecretValues::last(std::string_view text, std::size_t most) const {
  std::size_t begin = text.size() - std::min(text.size(), most);
  while (begin > 0) {
    const auto cut = over(text, begin);
    if (!cut) break;
    begin = cut->second;
  }
  return text.substr(begin);
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
