// The inside of VfsShim: files in memory with what of them has been synced, and the state of SQLite's locks.
// Included by vfs_shim.cpp (what tests call) and vfs_methods.cpp (what SQLite calls) only. All of it under Impl::mutex.
#pragma once

#include <sqlite3.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/vfs_shim.h"

namespace bide::test {

inline constexpr std::size_t kSector = 512;

// What was done to a file since its last sync, and what was there before it.
struct Unsynced {
  std::uint64_t offset = 0;
  std::string bytes;
  bool truncates = false;  // to `offset`
  std::uint64_t old_size = 0;
  std::string old_bytes;  // of the file's, what the change overwrote or cut off
};

struct ShmSlot {
  int shared = 0;
  const void* exclusive = nullptr;
};

struct Node {
  std::string path;
  std::string content;
  std::vector<Unsynced> unsynced;
  bool dead = false;  // from before a crash
  // Locks of the database file.
  int shared = 0;
  const void* reserved = nullptr;
  const void* pending = nullptr;
  const void* exclusive = nullptr;
  // The WAL index: memory, gone with the node.
  std::vector<std::unique_ptr<char[]>> shm;
  std::array<ShmSlot, SQLITE_SHM_NLOCK> slots;
};

inline void redo(std::string& to, const Unsynced& change) {
  if (change.truncates) {
    if (change.offset < to.size()) to.resize(change.offset);
    return;
  }
  if (to.size() < change.offset + change.bytes.size()) to.resize(change.offset + change.bytes.size(), '\0');
  std::memcpy(to.data() + change.offset, change.bytes.data(), change.bytes.size());
}

// Does the change, and notes how to take it back.
inline void do_change(Node& node, Unsynced change) {
  const std::string& content = node.content;
  change.old_size = content.size();
  if (change.offset < content.size()) {
    change.old_bytes =
        change.truncates ? content.substr(change.offset) : content.substr(change.offset, change.bytes.size());
  }
  redo(node.content, change);
  node.unsynced.push_back(std::move(change));
}

// The file as it was at its last sync.
inline std::string durable(const Node& node) {
  std::string content = node.content;
  for (auto change = node.unsynced.rbegin(); change != node.unsynced.rend(); ++change) {
    content.resize(change->old_size);
    content.replace(change->offset, change->old_bytes.size(), change->old_bytes);
  }
  return content;
}

inline std::uint64_t mix(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

inline int io_error(DiskOp op) {
  switch (op) {
    case DiskOp::open: return SQLITE_CANTOPEN;
    case DiskOp::read: return SQLITE_IOERR_READ;
    case DiskOp::write: return SQLITE_IOERR_WRITE;
    case DiskOp::sync: return SQLITE_IOERR_FSYNC;
    case DiskOp::truncate: return SQLITE_IOERR_TRUNCATE;
    case DiskOp::remove: return SQLITE_IOERR_DELETE;
    case DiskOp::shm: return SQLITE_IOERR_SHMMAP;
  }
  return SQLITE_IOERR;
}

struct VfsShim::Impl {
  mutable std::mutex mutex;
  std::string name;
  sqlite3_vfs vfs{};
  std::map<std::string, std::shared_ptr<Node>> nodes;
  std::array<std::uint64_t, kDiskOps> counts{};
  std::uint64_t written = 0;
  std::uint64_t random;
  bool armed = false;
  DiskFault fault;
  std::uint64_t seen = 0;  // operations of the fault's kind since it was told
  std::uint64_t given = 0;
  std::uint64_t capacity = 0;
  std::string reserve;
  std::uint64_t power_left = 0;  // operations until it goes; 0: it stays
  bool power_cut = false;

  [[nodiscard]] std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const auto& [path, node] : nodes) sum += node->content.size();
    struct stat there {};
    if (!reserve.empty() && ::stat(reserve.c_str(), &there) == 0) sum += static_cast<std::uint64_t>(there.st_size);
    return sum;
  }

  // Counts the operation. Not SQLITE_OK: it fails with that.
  int meet(DiskOp op, const std::string& path) {
    ++counts[static_cast<std::size_t>(op)];
    const bool changes = op == DiskOp::write || op == DiskOp::sync || op == DiskOp::truncate || op == DiskOp::remove;
    if (changes && power_left > 0 && --power_left == 0) power_cut = true;
    if (power_cut) return io_error(op);
    if (!armed || op != fault.op || !path.ends_with(fault.suffix)) return SQLITE_OK;
    ++seen;
    if (seen < fault.nth || (seen > fault.nth && !fault.for_ever)) return SQLITE_OK;
    ++given;
    return fault.full ? SQLITE_FULL : io_error(op);
  }
};

// Fills in the functions that SQLite calls.
void set_methods(sqlite3_vfs& vfs);

}  // namespace bide::test
