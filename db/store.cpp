#include "db/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "agent/base/log.h"
#include "agent/base/planted.h"
#include "db/connection.h"
#include "db/lock_file.h"
#include "db/migrate.h"
#include "db/reader_pool.h"
#include "db/reserve.h"
#include "db/writer.h"

namespace bide::db {
namespace {

std::string make_directory(const std::string& wanted) {
  std::error_code code;
  const std::filesystem::path path = std::filesystem::absolute(wanted, code);
  if (wanted.empty() || code) throw ConfigFault("the store needs a directory");
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw ConfigFault(path.string() + ": " + std::strerror(errno));
  return path.string();
}

[[noreturn]] void end_process(const std::string& what) {
  log::error("store.failed",
             {{"error", what}, {"hint", "what was not acknowledged is in doubt: look at the disk, then start again"}});
  ::_exit(70);  // EX_SOFTWARE; not exit(): nothing may be written any more
}

TimeMs clock_mark(Connection& connection) {
  ReadTx tx(connection);
  if (!has_table(tx, "meta")) return 0;
  Query query(tx, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'clock_mark'");
  return query.next() ? query.integer(0) : 0;
}

// The connection that writes: the file is looked at before its first byte can change, then migrated.
std::unique_ptr<Connection> open_writer(const StoreOptions& options, const std::string& path, Clock& clock) {
  check_file(path, options.vfs, options.migrations);
  auto writer = std::make_unique<Connection>(
      ConnectionOptions{.path = path,
                        .access = Access::write,
                        .full_sync = options.durability == Durability::full && !BIDE_PLANTED(answer_before_sync),
                        .vfs = options.vfs});
  migrate(*writer, options.migrations, clock.wall_ms());
  return writer;
}

// A start on a full disk: SQLite needs a few pages of its own (the WAL's index) before it can even read.
std::unique_ptr<Connection> open_writer_with_reserve(const StoreOptions& options, const std::string& directory,
                                                     Clock& clock) {
  const std::string path = directory + "/bide.db";
  try {
    return open_writer(options, path, clock);
  } catch (const StorageFull&) {
    if (!Reserve(directory).release()) throw;
  } catch (const StorageFault&) {
    if (!Reserve(directory).release()) throw;
  }
  return open_writer(options, path, clock);
}

}  // namespace

struct Store::Impl {
  Impl(StoreOptions& options, Clock& system)
      : clock(system),
        directory(make_directory(options.directory)),
        path(directory + "/bide.db"),
        lock(directory),
        connection(open_writer_with_reserve(options, directory, system)),
        store_clock(system, clock_mark(*connection)),
        readers({.path = path, .access = Access::read, .full_sync = true, .vfs = options.vfs}, options.readers),
        writer(*connection, system, store_clock, directory,
               {options.threaded, options.on_fatal ? std::move(options.on_fatal) : end_process,
                std::move(options.after_batch), std::move(options.announced)}) {}

  Clock& clock;
  const std::string directory;
  const std::string path;
  LockFile lock;
  const std::unique_ptr<Connection> connection;
  StoreClock store_clock;
  ReaderPool readers;
  Writer writer;
};

Store::Store(StoreOptions options, Clock& clock) : impl_(std::make_unique<Impl>(options, clock)) {}
Store::~Store() { close(); }

void Store::run_and_wait(const std::function<void(Tx&)>& job, Purpose purpose) {
  thread_local Parker parker;
  Job mine;
  mine.work = &job;
  mine.purpose = purpose;
  mine.parker = &parker;
  impl_->writer.add(mine);
  Writer::await(mine);
  if (mine.error) mine.error.raise();
}

void Store::submit(std::function<void(Tx&)> job, std::function<void(const std::optional<std::string>&)> done,
                   Purpose purpose) {
  auto* mine = new Job;
  mine->own_work = std::move(job);
  mine->work = &mine->own_work;
  mine->purpose = purpose;
  mine->done = std::move(done);
  impl_->writer.add(*mine);
}

void Store::ride(std::function<void(Tx&)> job, std::function<void(const std::optional<std::string>&)> done,
                 std::shared_ptr<const std::atomic<bool>> needless) {
  auto* mine = new Job;
  mine->own_work = std::move(job);
  mine->work = &mine->own_work;
  mine->rides = true;
  mine->needless = std::move(needless);
  mine->done = std::move(done);
  impl_->writer.add(*mine);
}

// Jobs keep their order: once this one is answered, those before it are.
void Store::flush_riders() {
  run_and_wait([](Tx&) {}, Purpose::normal);
}

Store::ReadLease::ReadLease(Store& store) : store_(store) {
  if (store.impl_->writer.failed()) throw StorageFault("the store has failed");
  connection_ = store_.impl_->readers.take();
  try {
    connection_->begin_read();
  } catch (...) {
    store_.impl_->readers.give_back(connection_);
    throw;
  }
  tx_.emplace(*connection_);
}

Store::ReadLease::~ReadLease() {
  connection_->rollback();
  store_.impl_->readers.give_back(connection_);
}

TimeMs Store::now() const { return impl_->store_clock.now(); }
StoreClock& Store::clock() { return impl_->store_clock; }
Clock& Store::system_clock() { return impl_->clock; }
StoreHealth Store::health() const { return impl_->writer.health(); }
const std::string& Store::directory() const { return impl_->directory; }
void Store::close() { impl_->writer.close(); }

}  // namespace bide::db
