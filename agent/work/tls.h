// TLS of what we connect to: 1.2 or newer, the peer verified against the host of its URL, whatever address it has [O6].
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "agent/work/targets.h"

namespace bide::work {

using TlsContext = std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)>;

// `ca_file`: certificates that are trusted instead of the system's, PEM; empty: the system's. ConfigFault: it holds
// none.
[[nodiscard]] TlsContext make_tls_context(const std::string& ca_file);
// Whose certificate is expected: that of the host, a name or an address.
void expect_host(X509_VERIFY_PARAM* verify, const Url& url);

}  // namespace bide::work
