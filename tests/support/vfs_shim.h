// VfsShim: a disk in memory under the real SQLite, that fails, fills up and loses power when the test says so.
//
//   VfsShim disk("kernel-7");                       // registered under this name until it is destroyed
//   options.vfs = disk.name();                      // StoreOptions::vfs
//   disk.fail({.op = DiskOp::sync, .nth = 3});      // the third sync from now on gives IOERR, once
//   disk.fail({.op = DiskOp::write, .full = true, .for_ever = true});
//   disk.crash(seed);                               // power loss: open again and see what had been synced
//
// What it models: files have content, and what of it has been synced. crash() gives each file back as it was at its
// last sync, and (Loss::some) with an arbitrary part of what was written since, in sectors of 512 bytes, torn and in
// any order. Creating and deleting a file are durable at once. Handles from before a crash are dead: everything on
// them fails with IOERR, so the old Store can be destroyed afterwards and writes nothing.
// Only SQLite's files are here: bide.lock and bide.reserve are real files of the Store's directory.
// Threads: any. Ownership: outlives every connection that was opened through it. Deterministic for a given seed and
// order of calls: its randomness (WAL salts) comes from the seed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace bide::test {

enum class DiskOp { open, read, write, sync, truncate, remove, shm };
inline constexpr int kDiskOps = 7;

struct DiskFault {
  DiskOp op = DiskOp::write;
  std::uint64_t nth = 1;  // counted from the call of fail(), 1 is the next one
  bool full = false;      // SQLITE_FULL, else the IOERR of the operation
  bool for_ever = false;  // from the n-th on, else only the n-th
  bool after = false;     // the operation happens all the same, and then it fails
  std::string suffix;     // only files whose name ends so: "-wal", ".db", empty for all
};

enum class Loss {
  all,   // everything that was not synced
  some,  // an arbitrary part of it
  none,  // nothing: the process died, the machine did not
};

class VfsShim {
 public:
  explicit VfsShim(const std::string& name, std::uint64_t seed = 1);
  ~VfsShim();
  VfsShim(const VfsShim&) = delete;
  VfsShim& operator=(const VfsShim&) = delete;

  [[nodiscard]] const std::string& name() const;

  // One fault at a time: the last one that was told.
  void fail(const DiskFault& fault);
  void heal();
  [[nodiscard]] std::uint64_t faults_given() const;

  // No write grows the files beyond this many bytes in all: SQLITE_FULL. While the real file `reserve` exists its
  // size counts as used. 0: no limit.
  void limit(std::uint64_t bytes, const std::string& reserve = {});
  [[nodiscard]] std::uint64_t used() const;

  // The power goes at the n-th operation that changes a file from now on (1 is the next): it and all later ones fail,
  // until crash(). 0: not.
  void cut_power_at(std::uint64_t nth);
  [[nodiscard]] bool power_is_cut() const;

  void crash(Loss loss = Loss::all, std::uint64_t seed = 1);

  [[nodiscard]] std::uint64_t count(DiskOp op) const;  // operations since the start, failed ones too
  [[nodiscard]] std::uint64_t bytes_written() const;
  [[nodiscard]] std::string content(const std::string& path) const;  // as written, synced or not
  void put(const std::string& path, const std::string& content);     // a file from outside, durable
  void wipe();                                                       // an empty disk; handles of the old files are dead
  [[nodiscard]] bool exists(const std::string& path) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::test
