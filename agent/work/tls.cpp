#include "agent/work/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "agent/base/errors.h"

namespace bide::work {

TlsContext make_tls_context(const std::string& ca_file) {
  TlsContext context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (context == nullptr) throw Bug("TLS is not there");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (SSL_CTX_load_verify_locations(context.get(), ca_file.c_str(), nullptr) != 1) {
    throw ConfigFault(ca_file + " holds no certificates");
  }
  return context;
}

void expect_host(X509_VERIFY_PARAM* verify, const Url& url) {
  if (url.is_address) {
    X509_VERIFY_PARAM_set1_ip_asc(verify, url.host.c_str());
    return;
  }
  X509_VERIFY_PARAM_set_hostflags(verify, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  X509_VERIFY_PARAM_set1_host(verify, url.host.c_str(), url.host.size());
}

}  // namespace bide::work
