#include "db/migrate.h"

#include <optional>

#include "agent/base/errors.h"
#include "agent/base/hash.h"
#include "agent/base/text.h"
#include "db/tx.h"

namespace bide::db {
namespace {

// "0007_waits.sql" → 7.
std::int64_t number_of(const EmbeddedFile& file) {
  const std::size_t end = file.name.find('_');
  const auto number = parse_number(file.name.substr(0, end));
  if (end == std::string_view::npos || !number) throw Bug("migration without a number: " + std::string(file.name));
  return *number;
}

void check_numbers(std::span<const EmbeddedFile> migrations) {
  std::int64_t wanted = 0;
  for (const EmbeddedFile& file : migrations) {
    if (number_of(file) != ++wanted) {
      throw Bug("migrations are numbered 1, 2, 3 …: " + std::string(file.name) + " should be " +
                std::to_string(wanted));
    }
  }
}

// The number of migrations applied. Throws ConfigFault if one of them is not ours.
std::int64_t applied(ReadTx& tx, std::span<const EmbeddedFile> migrations) {
  Query query(tx, "SELECT number, name, checksum FROM migrations ORDER BY number");
  std::int64_t count = 0;
  while (query.next()) {
    const std::int64_t number = query.integer(0);
    if (number > static_cast<std::int64_t>(migrations.size())) {
      throw ConfigFault("the file was written by a newer bide (migration " + query.text(1) + "): start that one");
    }
    if (number != ++count) throw ConfigFault("migration " + std::to_string(count) + " is missing in the file");
    const EmbeddedFile& ours = migrations[static_cast<std::size_t>(number - 1)];
    if (query.text(2) != to_hex(sha256(ours.bytes))) {
      throw ConfigFault("migration " + query.text(1) + " was applied with other contents than ours (" +
                        std::string(ours.name) + "): the file belongs to another build");
    }
  }
  return count;
}

std::int64_t table_count(ReadTx& tx) { return Query(tx, "SELECT count(*) FROM sqlite_schema").one().integer(0); }

}  // namespace

void check_file(const std::string& path, const std::string& vfs, std::span<const EmbeddedFile> migrations) {
  check_numbers(migrations);
  std::optional<Connection> look;
  try {
    look.emplace(ConnectionOptions{.path = path, .access = Access::inspect, .vfs = vfs});
  } catch (const StorageFault&) {
    return;  // not there: the writer makes it, or says why it cannot
  }
  ReadTx tx(*look);
  try {
    if (table_count(tx) == 0) return;
    if (look->pragma("PRAGMA application_id") != kApplicationId) {
      throw ConfigFault(path + " is not a file of bide (its application id is another)");
    }
    if (has_table(tx, "migrations")) applied(tx, migrations);
  } catch (const CorruptData& e) {
    throw ConfigFault(path + " cannot be read: " + e.what());
  }
}

int migrate(Connection& writer, std::span<const EmbeddedFile> migrations, TimeMs now) {
  check_numbers(migrations);
  ReadTx tx(writer);
  const std::int64_t before = has_table(tx, "migrations") ? applied(tx, migrations) : 0;
  for (const EmbeddedFile& file : migrations.subspan(static_cast<std::size_t>(before))) {
    writer.begin_immediate();
    try {
      if (number_of(file) == 1) {
        writer.exec("PRAGMA application_id = 0x62696465");
        writer.exec(
            "CREATE TABLE migrations (\n"
            "  number      INTEGER PRIMARY KEY,\n"
            "  name        TEXT NOT NULL,\n"
            "  checksum    TEXT NOT NULL,     -- SHA-256 of the file: a released migration is never edited\n"
            "  applied_at  INTEGER NOT NULL\n"
            ") STRICT");
      }
      writer.exec(std::string(file.bytes).c_str());
      Query(tx, "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)")
          .bind(number_of(file), file.name, to_hex(sha256(file.bytes)), now)
          .run();
      writer.commit();
    } catch (...) {
      writer.rollback();
      throw;
    }
  }
  return static_cast<int>(migrations.size()) - static_cast<int>(before);
}

}  // namespace bide::db
