// Versions that nothing needs any more, and their files [W9].
#include <catch2/catch.hpp>

#include "tests/work/keep_rig.h"

namespace bide {
namespace {

namespace fs = std::filesystem;
using test::put;
using test::Rig;
using test::sql;
using test::sweep_all;

std::string done(flow::Context&) { return "null"; }

TEST_CASE("[W9] versions that nothing needs go with their files, the newest and those of others stay") {
  Rig rig;
  rig.keep.emplace();
  rig.add("flow", done, "1");
  rig.start("flow");
  rig.drive();
  const auto pin = [&](const std::string& version, const std::vector<std::string>& bytes) {
    return rig.store->write([&](db::Tx& tx) {
      const WorkflowId workflow = kernel::ensure_workflow(tx, "script");
      const VersionId id = kernel::ensure_version(tx, workflow, version, kernel::WorkflowKind::program, "{}", tx.now());
      for (const std::string& one : bytes) {
        kernel::add_program_bytes(tx, one, one);
        kernel::add_program_file(tx, id, {one, 0755, one});
      }
      return id;
    });
  };
  std::vector<std::string> many;
  for (int i = 0; i < 700; ++i) many.push_back("file" + sql(i));
  many.push_back("shared");
  const VersionId first = pin("hash1", many);
  const VersionId second = pin("hash2", {"shared"});
  const fs::path versions = fs::path(rig.dir.str("data")) / "versions";
  put(versions / "hash1" / "bin" / "main");
  put(versions / "hash2" / "main");
  fs::permissions(versions / "hash1" / "bin", fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(versions / "hash1", fs::perms::owner_read | fs::perms::owner_exec);
  for (const char* text : {"2", "3"}) {
    rig.replace("flow", done, text);
    rig.restart();
    rig.start("flow");
    rig.drive();
  }
  sweep_all(rig);
  const auto has = [&](VersionId id) {
    return rig.number("SELECT count(*) FROM workflow_versions WHERE id = " + sql(id.value)) == 1;
  };
  const auto native = [&] {
    return rig.number(
        "SELECT group_concat(version, '') FROM (SELECT v.version FROM workflow_versions v JOIN workflows f "
        "ON f.id = v.workflow_id WHERE f.name = 'flow' ORDER BY v.id)");
  };
  CHECK_FALSE(has(first));
  CHECK(has(second));
  CHECK(rig.number("SELECT count(*) FROM program_files") == 1);
  CHECK(rig.number("SELECT count(*) FROM program_bytes") == 1);
  CHECK_FALSE(fs::exists(versions / "hash1"));
  CHECK(fs::exists(versions / "hash2" / "main"));
  CHECK(std::distance(fs::directory_iterator(versions), fs::directory_iterator()) == 1);
  CHECK(native() == 123);  // runs have them
  // Found again, the same files are a version of their own; with a run of it nothing of it goes.
  const VersionId again = pin("hash1", {"shared", "file1"});
  CHECK(again > second);
  rig.replace("flow", done, "1");  // registered again: needed, though its runs go
  rig.restart();
  rig.advance(limits::kKeepRunsMs + 1);
  rig.start("flow");
  rig.drive();
  sweep_all(rig);
  CHECK(native() == 13);
  CHECK(has(again));
  CHECK_FALSE(has(second));
}

}  // namespace
}  // namespace bide
