#include <algorithm>

#include "tests/support/vfs_disk.h"

namespace bide::test {
namespace {

struct File {
  sqlite3_file base;
  VfsShim::Impl* disk;
  std::shared_ptr<Node>* node;
  int lock;
  unsigned shm_shared;  // bits of the slots that this handle holds
};

File* self(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
Node& node_of(File* f) { return **f->node; }

// Begins an operation: the lock, the count, the fault.
struct Operation {
  Operation(File* f, DiskOp op) : lock(f->disk->mutex) {
    code = node_of(f).dead ? io_error(op) : f->disk->meet(op, node_of(f).path);
    skip = code != SQLITE_OK && (node_of(f).dead || f->disk->power_cut || !f->disk->fault.after);
  }
  std::lock_guard<std::mutex> lock;
  int code = SQLITE_OK;
  bool skip = false;
};

void let_go_of_shm(File* f) {
  for (int i = 0; i < SQLITE_SHM_NLOCK; ++i) {
    ShmSlot& slot = node_of(f).slots[static_cast<std::size_t>(i)];
    if (slot.exclusive == f) slot.exclusive = nullptr;
    if ((f->shm_shared >> i) & 1U) --slot.shared;
  }
  f->shm_shared = 0;
}

void set_lock(File* f, int level) {
  Node& n = node_of(f);
  if (level < SQLITE_LOCK_RESERVED && n.reserved == f) n.reserved = nullptr;
  if (level < SQLITE_LOCK_PENDING && n.pending == f) n.pending = nullptr;
  if (level < SQLITE_LOCK_EXCLUSIVE && n.exclusive == f) n.exclusive = nullptr;
  if (level == SQLITE_LOCK_NONE && f->lock >= SQLITE_LOCK_SHARED) --n.shared;
  f->lock = level;
}

int x_close(sqlite3_file* file) {
  File* f = self(file);
  const std::lock_guard lock(f->disk->mutex);
  let_go_of_shm(f);
  set_lock(f, SQLITE_LOCK_NONE);
  delete f->node;
  return SQLITE_OK;
}

int x_read(sqlite3_file* file, void* to, int amount, sqlite3_int64 offset) {
  File* f = self(file);
  const Operation op(f, DiskOp::read);
  if (op.code != SQLITE_OK) return op.code;
  const std::string& content = node_of(f).content;
  const auto begin = static_cast<std::size_t>(offset);
  const std::size_t wanted = static_cast<std::size_t>(amount);
  const std::size_t there = begin < content.size() ? std::min(wanted, content.size() - begin) : 0;
  std::memcpy(to, content.data() + (there > 0 ? begin : 0), there);
  std::memset(static_cast<char*>(to) + there, 0, wanted - there);
  return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int x_write(sqlite3_file* file, const void* from, int amount, sqlite3_int64 offset) {
  File* f = self(file);
  const Operation op(f, DiskOp::write);
  if (op.skip) return op.code;
  Node& n = node_of(f);
  Unsynced change;
  change.offset = static_cast<std::uint64_t>(offset);
  change.bytes.assign(static_cast<const char*>(from), static_cast<std::size_t>(amount));
  const std::uint64_t end = change.offset + change.bytes.size();
  if (f->disk->capacity > 0 && end > n.content.size() &&
      f->disk->used() + (end - n.content.size()) > f->disk->capacity) {
    ++f->disk->given;
    return SQLITE_FULL;
  }
  f->disk->written += change.bytes.size();
  do_change(n, std::move(change));
  return op.code;
}

int x_truncate(sqlite3_file* file, sqlite3_int64 size) {
  File* f = self(file);
  const Operation op(f, DiskOp::truncate);
  if (op.skip) return op.code;
  Unsynced change;
  change.offset = static_cast<std::uint64_t>(size);
  change.truncates = true;
  do_change(node_of(f), std::move(change));
  return op.code;
}

int x_sync(sqlite3_file* file, int) {
  File* f = self(file);
  const Operation op(f, DiskOp::sync);
  if (op.skip) return op.code;
  node_of(f).unsynced.clear();
  return op.code;
}

int x_size(sqlite3_file* file, sqlite3_int64* size) {
  File* f = self(file);
  const std::lock_guard lock(f->disk->mutex);
  *size = static_cast<sqlite3_int64>(node_of(f).content.size());
  return SQLITE_OK;
}

int x_lock(sqlite3_file* file, int level) {
  File* f = self(file);
  const std::lock_guard lock(f->disk->mutex);
  Node& n = node_of(f);
  if (level <= f->lock) return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) {
    if ((n.pending != nullptr && n.pending != f) || n.exclusive != nullptr) return SQLITE_BUSY;
    ++n.shared;
  } else if (level == SQLITE_LOCK_RESERVED) {
    if (n.reserved != nullptr || n.pending != nullptr) return SQLITE_BUSY;
    n.reserved = f;
  } else {
    if (n.pending != nullptr && n.pending != f) return SQLITE_BUSY;
    n.pending = f;
    if (n.shared > 1) {
      f->lock = SQLITE_LOCK_PENDING;
      return SQLITE_BUSY;
    }
    n.exclusive = f;
  }
  f->lock = level;
  return SQLITE_OK;
}

int x_unlock(sqlite3_file* file, int level) {
  File* f = self(file);
  const std::lock_guard lock(f->disk->mutex);
  set_lock(f, level);
  return SQLITE_OK;
}

int x_check_reserved(sqlite3_file* file, int* result) {
  File* f = self(file);
  const std::lock_guard lock(f->disk->mutex);
  *result = node_of(f).reserved != nullptr || node_of(f).pending != nullptr ? 1 : 0;
  return SQLITE_OK;
}

int x_control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int x_sector(sqlite3_file*) { return static_cast<int>(kSector); }
int x_traits(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

int x_shm_map(sqlite3_file* file, int region, int size, int extend, void volatile** to) {
  File* f = self(file);
  const Operation op(f, DiskOp::shm);
  *to = nullptr;
  if (op.code != SQLITE_OK) return op.code;
  Node& n = node_of(f);
  while (static_cast<int>(n.shm.size()) <= region) {
    if (extend == 0) return SQLITE_OK;
    n.shm.push_back(std::make_unique<char[]>(static_cast<std::size_t>(size)));
  }
  *to = n.shm[static_cast<std::size_t>(region)].get();
  return SQLITE_OK;
}

int x_shm_lock(sqlite3_file* file, int first, int count, int flags) {
  File* f = self(file);
  const std::lock_guard lock(f->disk->mutex);
  if (node_of(f).dead && (flags & SQLITE_SHM_LOCK) != 0) return SQLITE_IOERR_SHMLOCK;
  auto& slots = node_of(f).slots;
  const auto begin = static_cast<std::size_t>(first);
  const auto end = begin + static_cast<std::size_t>(count);
  const auto bit = [](std::size_t i) { return 1U << i; };
  if ((flags & SQLITE_SHM_UNLOCK) != 0) {
    for (std::size_t i = begin; i < end; ++i) {
      if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && slots[i].exclusive == f) slots[i].exclusive = nullptr;
      if ((flags & SQLITE_SHM_SHARED) != 0 && (f->shm_shared & bit(i)) != 0) {
        --slots[i].shared;
        f->shm_shared &= ~bit(i);
      }
    }
    return SQLITE_OK;
  }
  for (std::size_t i = begin; i < end; ++i) {
    const int others = slots[i].shared - ((f->shm_shared & bit(i)) != 0 ? 1 : 0);
    if (slots[i].exclusive != nullptr && slots[i].exclusive != f) return SQLITE_BUSY;
    if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && others > 0) return SQLITE_BUSY;
  }
  for (std::size_t i = begin; i < end; ++i) {
    if ((flags & SQLITE_SHM_EXCLUSIVE) != 0) {
      slots[i].exclusive = f;
    } else if ((f->shm_shared & bit(i)) == 0) {
      ++slots[i].shared;
      f->shm_shared |= bit(i);
    }
  }
  return SQLITE_OK;
}

void x_shm_barrier(sqlite3_file* file) { const std::lock_guard lock(self(file)->disk->mutex); }

int x_shm_unmap(sqlite3_file* file, int) {
  File* f = self(file);
  const std::lock_guard lock(f->disk->mutex);
  let_go_of_shm(f);
  return SQLITE_OK;
}

const sqlite3_io_methods kMethods = {
    2,          x_close,       x_read,           x_write,   x_truncate, x_sync,   x_size,
    x_lock,     x_unlock,      x_check_reserved, x_control, x_sector,   x_traits, x_shm_map,
    x_shm_lock, x_shm_barrier, x_shm_unmap,      nullptr,   nullptr,
};

VfsShim::Impl* disk_of(sqlite3_vfs* vfs) { return static_cast<VfsShim::Impl*>(vfs->pAppData); }

int x_open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  VfsShim::Impl* disk = disk_of(vfs);
  file->pMethods = nullptr;
  const std::lock_guard lock(disk->mutex);
  const std::string path = name == nullptr ? "" : name;
  if (const int code = disk->meet(DiskOp::open, path); code != SQLITE_OK) return code;
  std::shared_ptr<Node> node;
  if (name == nullptr) {
    node = std::make_shared<Node>();
  } else if (const auto found = disk->nodes.find(path); found != disk->nodes.end()) {
    node = found->second;
  } else {
    if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
    node = std::make_shared<Node>();
    node->path = path;
    disk->nodes[path] = node;
  }
  File* f = self(file);
  f->disk = disk;
  f->node = new std::shared_ptr<Node>(std::move(node));
  f->lock = SQLITE_LOCK_NONE;
  f->shm_shared = 0;
  file->pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int x_delete(sqlite3_vfs* vfs, const char* name, int) {
  VfsShim::Impl* disk = disk_of(vfs);
  const std::lock_guard lock(disk->mutex);
  if (const int code = disk->meet(DiskOp::remove, name); code != SQLITE_OK) return code;
  return disk->nodes.erase(name) > 0 ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
}

int x_access(sqlite3_vfs* vfs, const char* name, int, int* result) {
  VfsShim::Impl* disk = disk_of(vfs);
  const std::lock_guard lock(disk->mutex);
  *result = disk->nodes.contains(name) ? 1 : 0;
  return SQLITE_OK;
}

int x_full_path(sqlite3_vfs*, const char* name, int size, char* to) {
  sqlite3_snprintf(size, to, "%s", name);
  return SQLITE_OK;
}

int x_random(sqlite3_vfs* vfs, int size, char* to) {
  VfsShim::Impl* disk = disk_of(vfs);
  const std::lock_guard lock(disk->mutex);
  for (int i = 0; i < size; ++i) to[i] = static_cast<char>(mix(disk->random));
  return size;
}

int x_sleep(sqlite3_vfs*, int microseconds) {
  sqlite3_vfs* real = sqlite3_vfs_find("unix");
  return real->xSleep(real, microseconds);
}

int x_time(sqlite3_vfs*, double* days) {
  sqlite3_vfs* real = sqlite3_vfs_find("unix");
  return real->xCurrentTime(real, days);
}

int x_last_error(sqlite3_vfs*, int, char*) { return 0; }

}  // namespace

void set_methods(sqlite3_vfs& vfs) {
  vfs.iVersion = 1;
  vfs.szOsFile = sizeof(File);
  vfs.mxPathname = 512;
  vfs.xOpen = x_open;
  vfs.xDelete = x_delete;
  vfs.xAccess = x_access;
  vfs.xFullPathname = x_full_path;
  vfs.xRandomness = x_random;
  vfs.xSleep = x_sleep;
  vfs.xCurrentTime = x_time;
  vfs.xGetLastError = x_last_error;
}

}  // namespace bide::test
