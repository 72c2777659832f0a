#include "tests/support/vfs_shim.h"

#include <stdexcept>

#include "tests/support/vfs_disk.h"

namespace bide::test {

VfsShim::VfsShim(const std::string& name, std::uint64_t seed) : impl_(std::make_unique<Impl>()) {
  // As db/connection.cpp wants it; a registered VFS is a use of SQLite, and afterwards it would be refused there.
  [[maybe_unused]] static const int once = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  impl_->name = name;
  impl_->random = seed;
  sqlite3_vfs& vfs = impl_->vfs;
  set_methods(vfs);
  vfs.zName = impl_->name.c_str();
  vfs.pAppData = impl_.get();
  if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK) throw std::runtime_error("vfs " + name);
}

VfsShim::~VfsShim() { sqlite3_vfs_unregister(&impl_->vfs); }

const std::string& VfsShim::name() const { return impl_->name; }

void VfsShim::fail(const DiskFault& fault) {
  const std::lock_guard lock(impl_->mutex);
  impl_->fault = fault;
  impl_->armed = true;
  impl_->seen = 0;
}

void VfsShim::heal() {
  const std::lock_guard lock(impl_->mutex);
  impl_->armed = false;
}

std::uint64_t VfsShim::faults_given() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->given;
}

void VfsShim::limit(std::uint64_t bytes, const std::string& reserve) {
  const std::lock_guard lock(impl_->mutex);
  impl_->capacity = bytes;
  impl_->reserve = reserve;
}

std::uint64_t VfsShim::used() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->used();
}

void VfsShim::cut_power_at(std::uint64_t nth) {
  const std::lock_guard lock(impl_->mutex);
  impl_->power_left = nth;
  impl_->power_cut = false;
}

bool VfsShim::power_is_cut() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->power_cut;
}

void VfsShim::crash(Loss loss, std::uint64_t seed) {
  const std::lock_guard lock(impl_->mutex);
  impl_->power_left = 0;
  impl_->power_cut = false;
  for (auto& [path, node] : impl_->nodes) {
    auto after = std::make_shared<Node>();
    after->path = path;
    after->content = loss == Loss::none ? node->content : durable(*node);
    if (loss == Loss::some) {
      for (const Unsynced& change : node->unsynced) {
        if (change.truncates) {
          if ((mix(seed) & 1U) != 0) redo(after->content, change);
          continue;
        }
        for (std::size_t at = 0; at < change.bytes.size(); at += kSector) {
          if ((mix(seed) & 1U) != 0)
            redo(after->content, {change.offset + at, change.bytes.substr(at, kSector), false, 0, {}});
        }
      }
    }
    node->dead = true;
    node = std::move(after);
  }
}

std::uint64_t VfsShim::count(DiskOp op) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts[static_cast<std::size_t>(op)];
}

std::uint64_t VfsShim::bytes_written() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->written;
}

std::string VfsShim::content(const std::string& path) const {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->nodes.find(path);
  return found == impl_->nodes.end() ? std::string() : found->second->content;
}

void VfsShim::put(const std::string& path, const std::string& content) {
  const std::lock_guard lock(impl_->mutex);
  auto node = std::make_shared<Node>();
  node->path = path;
  node->content = content;
  impl_->nodes[path] = std::move(node);
}

void VfsShim::wipe() {
  const std::lock_guard lock(impl_->mutex);
  for (auto& [path, node] : impl_->nodes) node->dead = true;
  impl_->nodes.clear();
}

bool VfsShim::exists(const std::string& path) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->nodes.contains(path);
}

}  // namespace bide::test
