#include "web/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "agent/base/process_tree.h"
#include "agent/base/text.h"

namespace bide::web {
namespace {

std::string why() { return std::strerror(errno); }

Fd make_socket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) throw ConfigFault("cannot make a socket: " + why());
  return fd;
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    throw ConfigFault("the path of the socket must have 1 to 107 bytes: " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* plain(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }
const sockaddr* plain(const sockaddr_storage& address) { return reinterpret_cast<const sockaddr*>(&address); }

// Whether the peer's user is of a group: its own one, or a further one of the process that connected.
bool is_in_group(int fd, gid_t own, gid_t group) {
  if (own == group) return true;
  std::vector<gid_t> groups(64);
  while (true) {
    socklen_t size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) {
      groups.resize(size / sizeof(gid_t));
      return std::find(groups.begin(), groups.end(), group) != groups.end();
    }
    if (errno != ERANGE || groups.size() >= 65'536) return false;
    groups.resize(groups.size() * 4);
  }
}

void make_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  if (::mkdir(path.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST) {
    throw ConfigFault("cannot make the folder of the socket " + path + ": " + why());
  }
}

// The file of an agent that died stays. One that answers belongs to somebody.
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return;
  if (!S_ISSOCK(there.st_mode)) {
    throw ConfigFault(path + " is there and is no socket: move it away, or choose another --socket");
  }
  const Fd probe = make_socket(AF_UNIX);
  if (::connect(probe.get(), plain(address), sizeof address) == 0 || errno == EAGAIN) {
    throw ConfigFault("another process answers on " + path + ": end it, or choose another --socket");
  }
  if (errno != ECONNREFUSED) throw ConfigFault("cannot tell who owns " + path + ": " + why());
  if (::unlink(path.c_str()) != 0) throw ConfigFault("cannot remove the stale socket " + path + ": " + why());
}

void set_flag(int fd, int level, int option) {
  const int on = 1;
  if (::setsockopt(fd, level, option, &on, sizeof on) != 0) throw ConfigFault("cannot set up a socket: " + why());
}

void listen_on(int fd, const std::string& name) {
  if (::listen(fd, limits::kListenBacklog) != 0) throw ConfigFault("cannot listen on " + name + ": " + why());
}

struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

TcpAddress parse_tcp(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string host(text.substr(0, std::min(colon, text.size())));
  const std::string_view port_text = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto port = port_text == "0" ? std::optional<std::int64_t>(0) : parse_number(port_text);
  if (!port || *port > 65'535)
    throw ConfigFault("a listen address is ADDRESS:PORT, like 127.0.0.1:7433: " + std::string(text));
  if (host == "localhost") host = "127.0.0.1";
  TcpAddress address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    auto* six = reinterpret_cast<sockaddr_in6*>(&address.storage);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(*port));
    address.size = sizeof *six;
    if (::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six->sin6_addr) == 1) return address;
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&address.storage);
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(*port));
    address.size = sizeof *four;
    if (::inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) return address;
  }
  throw ConfigFault("not an IP address to listen on: " + host);
}

}  // namespace

Listener::Listener(Listener&& other) noexcept
    : fd_(std::move(other.fd_)),
      unix_(other.unix_),
      port_(other.port_),
      name_(std::move(other.name_)),
      host_(std::move(other.host_)),
      device_(other.device_),
      inode_(std::exchange(other.inode_, 0)),
      group_(other.group_) {}

Listener::~Listener() {
  if (inode_ == 0 || !fd_.valid()) return;
  struct stat there {};
  if (::lstat(name_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_) ::unlink(name_.c_str());
}

Listener Listener::unix_socket(const std::string& path, mode_t mode) {
  const sockaddr_un address = unix_address(path);
  make_folder(path);
  remove_stale(path, address);
  Listener listener;
  listener.unix_ = true;
  listener.name_ = path;
  listener.fd_ = make_socket(AF_UNIX);
  // Before the bind, so that the file never has a wider mode than the one wanted.
  if (::fchmod(listener.fd(), mode) != 0 || ::bind(listener.fd(), plain(address), sizeof address) != 0) {
    throw ConfigFault("cannot bind " + path + ": " + why());
  }
  struct stat there {};
  if (::chmod(path.c_str(), mode) != 0 || ::lstat(path.c_str(), &there) != 0) {
    throw ConfigFault("cannot set the mode of " + path + ": " + why());
  }
  listener.device_ = there.st_dev;
  listener.inode_ = there.st_ino;
  listener.group_ = there.st_gid;
  listen_on(listener.fd(), path);
  return listener;
}

Listener Listener::tcp(std::string_view text) {
  const TcpAddress address = parse_tcp(text);
  Listener listener;
  listener.fd_ = make_socket(address.storage.ss_family);
  set_flag(listener.fd(), SOL_SOCKET, SO_REUSEADDR);
  if (address.storage.ss_family == AF_INET6) set_flag(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY);
  if (::bind(listener.fd(), plain(address.storage), address.size) != 0) {
    const std::string reason =
        errno == EADDRINUSE ? "another process has it: end it, or choose another --listen" : why();
    throw ConfigFault("cannot listen on " + std::string(text) + ": " + reason);
  }
  listen_on(listener.fd(), std::string(text));
  listener.read_address();
  return listener;
}

Listener Listener::adopt(Fd fd) {
  Listener listener;
  listener.fd_ = std::move(fd);
  int accepting = 0;
  socklen_t size = sizeof accepting;
  if (::getsockopt(listener.fd(), SOL_SOCKET, SO_ACCEPTCONN, &accepting, &size) != 0 || accepting == 0) {
    throw ConfigFault("the descriptor that was handed over is no listening socket");
  }
  ::fcntl(listener.fd(), F_SETFD, FD_CLOEXEC);
  ::fcntl(listener.fd(), F_SETFL, ::fcntl(listener.fd(), F_GETFL) | O_NONBLOCK);
  listener.read_address();
  struct stat there {};
  if (listener.unix_ && ::stat(listener.name_.c_str(), &there) == 0) listener.group_ = there.st_gid;
  return listener;
}

void Listener::read_address() {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw ConfigFault("cannot ask for the address of a socket: " + why());
  }
  if (address.ss_family == AF_UNIX) {
    unix_ = true;
    name_ = reinterpret_cast<const sockaddr_un&>(address).sun_path;
    return;
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    port_ = ntohs(six.sin6_port);
    host_ = "[" + std::string(text) + "]";
  } else {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    port_ = ntohs(four.sin_port);
    host_ = text;
  }
  name_ = host_ + ":" + std::to_string(port_);
}

GateRules Listener::rules(const std::vector<std::string>& more) const {
  GateRules rules;
  rules.body_bytes = limits::kVerbBytes;  // the route knows its own, smaller one
  if (unix_) {
    // No browser speaks over a Unix socket, so a page's Origin has no business here.
    rules.hosts = {"localhost", "bide"};
    rules.any_port = true;
    rules.origins = false;
    return rules;
  }
  std::vector<std::string> names = {host_};
  if (host_ == "127.0.0.1" || host_ == "[::1]") names.emplace_back("localhost");
  for (const std::string& name : more) names.push_back(lower(name));
  for (const std::string& name : names) {
    rules.hosts.push_back(name + ":" + std::to_string(port_));
    if (port_ == 80) rules.hosts.push_back(name);
  }
  return rules;
}

Fd Listener::accept(Peer& peer) const try {
  Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) return fd;
  peer = Peer{};
  peer.unix_socket = unix_;
  if (unix_) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
      fd.reset();
      errno = ECONNABORTED;
      return fd;
    }
    peer.pid = who.pid;
    // Now: whoever has the number when the request is read may be another process.
    if (const auto process = who.pid > 0 ? read_process(who.pid) : std::nullopt) peer.pid_start = process->key.start;
    peer.uid = who.uid;
    peer.gid = who.gid;
    peer.in_group = who.uid != ::geteuid() && who.uid != 0 && is_in_group(fd.get(), who.gid, group_);
  } else {
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return fd;
} catch (const CannotLook&) {  // the last descriptor is the connection's own: it is given up, and looked again soon
  errno = EMFILE;
  return Fd();
}

}  // namespace bide::web
