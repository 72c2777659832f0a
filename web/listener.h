// Listening sockets: made by us, because the flags matter. TCP with SO_REUSEADDR and without SO_REUSEPORT (a second
// process must not share the port silently), backlog limits::kListenBacklog; Unix with its mode; all CLOEXEC and
// non-blocking. Faults: ConfigFault, naming the address and what to do. One thread. The socket's file is removed when
// the Listener ends, if it is still ours.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "agent/base/fd.h"
#include "web/gate.h"
#include "web/request.h"

namespace bide::web {

class Listener {
 public:
  // Makes the folder (0700) if it is missing. A file of an agent that died is removed: only if it is a socket that
  // nobody answers on. The caller holds DIR/bide.lock, so it cannot be one that is just coming up on our own file.
  [[nodiscard]] static Listener unix_socket(const std::string& path, mode_t mode = 0660);
  // "127.0.0.1:7433", "[::1]:7433"; port 0 takes a free one. "localhost" is 127.0.0.1. Names are not resolved.
  [[nodiscard]] static Listener tcp(std::string_view address);
  // A listening socket that was handed over (systemd); its kind is asked from the kernel.
  [[nodiscard]] static Listener adopt(Fd fd);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool is_unix() const { return unix_; }
  [[nodiscard]] int port() const { return port_; }                 // TCP
  [[nodiscard]] const std::string& name() const { return name_; }  // path, or address with port
  // Hosts and origins that are ours on this listener. `more`: further names from the configuration, without port.
  [[nodiscard]] GateRules rules(const std::vector<std::string>& more) const;
  // The next connection, non-blocking, CLOEXEC, NODELAY; invalid: none there (EAGAIN) or errno says what.
  [[nodiscard]] Fd accept(Peer& peer) const;

 private:
  Listener() = default;
  void read_address();

  Fd fd_;
  bool unix_ = false;
  int port_ = 0;
  std::string name_;
  std::string host_;  // TCP: the address as it stands in a Host field
  dev_t device_ = 0;  // of the socket's file
  ino_t inode_ = 0;
  gid_t group_ = 0;  // of the socket's file
};

}  // namespace bide::web
