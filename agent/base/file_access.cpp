#include "agent/base/file_access.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace bide {
namespace {

// As the kernel keeps it: a version, then entries, little-endian, sorted by tag and id.
constexpr const char* kAttribute = "system.posix_acl_access";
constexpr std::uint32_t kVersion = 2;
constexpr std::uint16_t kOwner = 0x01;
constexpr std::uint16_t kUser = 0x02;
constexpr std::uint16_t kGroup = 0x04;
constexpr std::uint16_t kMask = 0x10;
constexpr std::uint16_t kOther = 0x20;
constexpr std::uint32_t kNobody = 0xffffffff;  // the id of entries that name none
constexpr std::size_t kMostBytes = 64 * 1024;  // of an extended attribute

struct Entry {
  std::uint16_t tag = 0;
  std::uint16_t may = 0;
  std::uint32_t id = kNobody;
  auto operator<=>(const Entry&) const = default;
};
static_assert(sizeof(Entry) == 8);
using Entries = std::vector<Entry>;

[[noreturn]] void fail(const std::string& path, uid_t uid) {
  throw std::runtime_error("cannot let user " + std::to_string(uid) + " reach " + path + ": " + std::strerror(errno) +
                           " (run_as needs a file system with POSIX ACLs)");
}

Entries read_entries(const std::string& path) {
  std::string bytes(kMostBytes, '\0');
  const ssize_t n = ::lgetxattr(path.c_str(), kAttribute, bytes.data(), bytes.size());
  if (n < static_cast<ssize_t>(sizeof kVersion)) return {};
  Entries entries((static_cast<std::size_t>(n) - sizeof kVersion) / sizeof(Entry));
  std::memcpy(entries.data(), bytes.data() + sizeof kVersion, entries.size() * sizeof(Entry));
  return entries;
}

Entries of_mode(mode_t mode) {
  const auto bits = [mode](int shift) { return static_cast<std::uint16_t>(mode >> shift & 7U); };
  return {{kOwner, bits(6)}, {kGroup, bits(3)}, {kOther, bits(0)}};
}

// What the mask lets through is what everybody but owner and others may at most.
void set_mask(Entries& entries) {
  std::erase_if(entries, [](const Entry& entry) { return entry.tag == kMask; });
  Entry mask{kMask, 0};
  for (const Entry& entry : entries) {
    if (entry.tag != kOwner && entry.tag != kOther) mask.may = static_cast<std::uint16_t>(mask.may | entry.may);
  }
  entries.push_back(mask);
}

}  // namespace

void allow_user(const std::string& path, uid_t uid, unsigned may) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) fail(path, uid);
  if ((found.st_mode & 7U & may) == may) return;
  const Entries before = read_entries(path);
  Entries entries = before.empty() ? of_mode(found.st_mode) : before;
  const auto own = std::find_if(entries.begin(), entries.end(),
                                [uid](const Entry& entry) { return entry.tag == kUser && entry.id == uid; });
  if (own == entries.end()) {
    entries.push_back({kUser, static_cast<std::uint16_t>(may), uid});
  } else {
    own->may = static_cast<std::uint16_t>(own->may | may);
  }
  set_mask(entries);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.tag != b.tag ? a.tag < b.tag : a.id < b.id; });
  if (entries == before) return;
  std::string bytes(sizeof kVersion + entries.size() * sizeof(Entry), '\0');
  std::memcpy(bytes.data(), &kVersion, sizeof kVersion);
  std::memcpy(bytes.data() + sizeof kVersion, entries.data(), entries.size() * sizeof(Entry));
  if (::lsetxattr(path.c_str(), kAttribute, bytes.data(), bytes.size(), 0) != 0) fail(path, uid);
}

std::vector<uid_t> users_allowed(const std::string& path) {
  std::vector<uid_t> users;
  for (const Entry& entry : read_entries(path)) {
    if (entry.tag == kUser) users.push_back(entry.id);
  }
  return users;
}

}  // namespace bide
