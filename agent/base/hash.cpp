#include "agent/base/hash.h"

// SHA256_Init, _Update and _Final are the plain code of the digest. SHA256() asks the providers for it since OpenSSL
// 3.0, and with them all of libcrypto comes into the static front: 4 MB for one digest.
#define OPENSSL_SUPPRESS_DEPRECATED

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace bide {

std::string sha256(std::string_view bytes) {
  std::string out(SHA256_DIGEST_LENGTH, '\0');
  SHA256_CTX digest;
  SHA256_Init(&digest);
  SHA256_Update(&digest, bytes.data(), bytes.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(out.data()), &digest);
  return out;
}

std::string to_hex(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(kHex[byte >> 4U]);
    out.push_back(kHex[byte & 15U]);
  }
  return out;
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace bide
