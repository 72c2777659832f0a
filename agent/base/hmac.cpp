#include "agent/base/hmac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "agent/base/errors.h"

namespace bide {

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned int length = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
           bytes.size(), reinterpret_cast<unsigned char*>(out.data()), &length);
  if (made == nullptr) throw Bug("HMAC failed");
  out.resize(length);
  return out;
}

}  // namespace bide
