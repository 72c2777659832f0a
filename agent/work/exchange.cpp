#include "agent/work/exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/work/tls.h"

namespace bide::work {

Exchange::~Exchange() {
  if (tls_ != nullptr) SSL_free(tls_);
}

void Exchange::fail(Trouble trouble, std::string error) {
  if (trouble_ != Trouble::none) return;  // the first is the cause
  trouble_ = trouble;
  error_ = std::move(error);
}

bool Exchange::wait(short events, BootMs until) {
  for (;;) {
    const BootMs left = std::min(until, deadline_) - clock_.boot_ms();
    if (left <= 0) {
      fail(Trouble::late, "no answer in time");
      return false;
    }
    pollfd fds[] = {{fd_.get(), events, 0}, {closing_, POLLIN, 0}};
    const int ready = ::poll(fds, 2, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) {
      fail(Trouble::failed, std::strerror(errno));
      return false;
    }
    if (ready <= 0) continue;
    if (fds[1].revents != 0) {
      fail(Trouble::closing, "the agent closes");
      return false;
    }
    if (fds[0].revents != 0) return true;
  }
}

bool Exchange::connect(const Address& address, BootMs until) {
  trouble_ = Trouble::none;
  fd_.reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto refused = [&](int code) {
    const bool away = code == ENETUNREACH || code == EHOSTUNREACH || code == ENETDOWN || code == EADDRNOTAVAIL;
    fail(away ? Trouble::unreachable : Trouble::failed, address.text() + ": " + std::strerror(code));
    return false;
  };
  if (!fd_.valid()) return refused(errno);
  const int on = 1;
  (void)::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    if (errno != EINPROGRESS) return refused(errno);
    if (!wait(POLLOUT, until)) return false;
    int code = 0;
    socklen_t length = sizeof code;
    (void)::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &code, &length);
    if (code != 0) return refused(code);
  }
  return check_peer(address);
}

// O6: who is there is whom we checked.
bool Exchange::check_peer(const Address& address) {
  Address peer;
  peer.length = sizeof peer.storage;
  if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) == 0 &&
      same_address(peer, address))
    return true;
  fail(Trouble::failed, "the peer of the connection is not " + address.text());
  return false;
}

namespace {

std::string tls_error(const char* what, ssl_st* tls) {
  const long verified = SSL_get_verify_result(tls);
  if (verified != X509_V_OK) return std::string(what) + ": " + X509_verify_cert_error_string(verified);
  char text[256] = "the connection was closed";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  return std::string(what) + ": " + text;
}

}  // namespace

// What an operation of OpenSSL waits for; false: it failed.
bool Exchange::wait_tls(int result, const char* what) {
  switch (SSL_get_error(tls_, result)) {
    case SSL_ERROR_WANT_READ: return wait(POLLIN, deadline_);
    case SSL_ERROR_WANT_WRITE: return wait(POLLOUT, deadline_);
    default: break;
  }
  fail(Trouble::failed, tls_error(what, tls_));
  return false;
}

bool Exchange::secure(ssl_ctx_st* context, const Url& url) {
  tls_ = SSL_new(context);
  if (tls_ == nullptr || SSL_set_fd(tls_, fd_.get()) != 1) {
    fail(Trouble::failed, "TLS could not be set up");
    return false;
  }
  expect_host(SSL_get0_param(tls_), url);
  if (!url.is_address) SSL_set_tlsext_host_name(tls_, url.host.c_str());
  SSL_set_verify(tls_, SSL_VERIFY_PEER, nullptr);
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(tls_);
    if (result == 1) return true;
    if (!wait_tls(result, "TLS")) return false;
  }
}

long Exchange::read(char* to, std::size_t size) {
  for (;;) {
    if (tls_ != nullptr) {
      ERR_clear_error();
      const int got = SSL_read(tls_, to, static_cast<int>(std::min<std::size_t>(size, 16'384)));
      if (got > 0) return got;
      if (SSL_get_error(tls_, got) == SSL_ERROR_ZERO_RETURN) return 0;
      if (!wait_tls(got, "TLS")) return -1;
      continue;
    }
    const ssize_t got = ::recv(fd_.get(), to, size, 0);
    if (got >= 0) return got;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      fail(Trouble::failed, std::strerror(errno));
      return -1;
    }
    if (!wait(POLLIN, deadline_)) return -1;
  }
}

long Exchange::write(const char* from, std::size_t size) {
  for (;;) {
    if (tls_ != nullptr) {
      ERR_clear_error();
      const int put = SSL_write(tls_, from, static_cast<int>(std::min<std::size_t>(size, 16'384)));
      if (put > 0) return put;
      if (!wait_tls(put, "TLS")) return -1;
      continue;
    }
    const ssize_t put = ::send(fd_.get(), from, size, MSG_NOSIGNAL);
    if (put >= 0) return put;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      fail(Trouble::failed, std::strerror(errno));
      return -1;
    }
    if (!wait(POLLOUT, deadline_)) return -1;
  }
}

}  // namespace bide::work
