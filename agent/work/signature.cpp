#include "agent/work/signature.h"

#include "agent/base/base64.h"
#include "agent/base/hmac.h"

namespace bide::work {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::size_t kLeastBytes = 24;  // of the standard
constexpr std::size_t kMostBytes = 64;

}  // namespace

std::optional<std::string> secret_key(std::string_view secret) {
  if (!secret.starts_with(kPrefix)) return std::nullopt;
  auto key = base64_decode(secret.substr(kPrefix.size()));
  if (!key || key->size() < kLeastBytes || key->size() > kMostBytes) return std::nullopt;
  return key;
}

std::string make_secret(Random& random) {
  std::string bytes;
  while (bytes.size() < 32) {
    const std::uint64_t word = random.next();
    for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>((word >> shift) & 255U));
  }
  return std::string(kPrefix) + base64(bytes);
}

std::string sign(const std::vector<std::string>& secrets, std::string_view id, std::int64_t seconds,
                 std::string_view body) {
  std::string content(id);
  content += "." + std::to_string(seconds) + ".";
  content.append(body);
  std::string signatures;
  for (const std::string& secret : secrets) {
    const auto key = secret_key(secret);
    if (!key) continue;
    if (!signatures.empty()) signatures += " ";
    signatures += "v1," + base64(hmac_sha256(*key, content));
  }
  return signatures;
}

}  // namespace bide::work
