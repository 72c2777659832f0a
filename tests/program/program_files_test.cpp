// Program workflows as files: discovery, safety, pinning, manifests, layouts.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "agent/work/program_files.h"
#include "tests/support/fake_clock.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

// A clock that is read whenever a file is about to be hashed: the moment to change something.
struct MeddlingClock final : Clock {
  std::function<void()> meddle = [] {};
  TimeMs wall_ms() override {
    meddle();
    return SystemClock().wall_ms();
  }
  BootMs boot_ms() override { return SystemClock().boot_ms(); }
};

struct Folder {
  test::TempDir dir;
  MeddlingClock clock;
  ProgramFiles programs{dir.str("workflows"), clock};

  Folder() { fs::create_directory(dir / "workflows"); }
  void file(const std::string& path, const std::string& text, int mode = 0644) {
    test::write_file(dir / "workflows" / path, text);
    ::chmod((dir / "workflows" / path).c_str(), static_cast<mode_t>(mode));
  }
  void mode(const std::string& path, int mode) {
    ::chmod((dir / "workflows" / path).c_str(), static_cast<mode_t>(mode));
  }
  ProgramTree tree(const std::string& name) {
    auto outcome = programs.read(name);
    if (auto* why = std::get_if<Problem>(&outcome)) FAIL(why->code << ": " << why->detail);
    return std::move(std::get<ProgramTree>(outcome));
  }
  Problem refused(const std::string& name) {
    auto outcome = programs.read(name);
    REQUIRE(std::holds_alternative<Problem>(outcome));
    return std::get<Problem>(outcome);
  }
  std::string lay_out_tree(const ProgramTree& tree) {
    auto laid = lay_out(dir.str("versions"), tree.version, tree.files, [&](const kernel::ProgramFile& file) {
      return std::get<std::string>(programs.bytes(tree, file));
    });
    REQUIRE(std::holds_alternative<std::string>(laid));
    return std::get<std::string>(laid);
  }
};

TEST_CASE("Workflows are executables and folders with an executable main") {
  Folder folder;
  folder.file("alone.sh", "#!/bin/sh\n", 0755);
  folder.file("bare", "#!/bin/sh\n", 0755);
  folder.file("many/main.py", "#!/usr/bin/python3\n", 0755);
  folder.file("many/lib/util.py", "x = 1\n");
  folder.file("notes.txt", "none\n");
  folder.file("alone.toml", "description = \"d\"\n");
  folder.file("empty/readme", "none\n");
  CHECK(folder.programs.names() == std::vector<std::string>{"alone", "bare", "many"});
  const auto alone = folder.tree("alone");
  CHECK(alone.entry == "alone.sh");
  CHECK(alone.files.size() == 2);
  CHECK(alone.manifest.description == "d");
  CHECK(folder.tree("bare").entry == "bare");
  const auto many = folder.tree("many");
  CHECK(many.entry == "main.py");
  REQUIRE(many.files.size() == 2);
  CHECK(many.files[0].path == "lib/util.py");
  CHECK(many.files[0].mode == 0444);
  CHECK(many.files[1].mode == 0555);
}

TEST_CASE("A name that is not there comes with the nearest one, a file that is not executable with what to type") {
  Folder folder;
  folder.file("rollout.sh", "#!/bin/sh\n", 0755);
  folder.file("backup.py", "#!/usr/bin/python3\n");
  CHECK(folder.refused("rolout").code == "workflow_unknown");
  CHECK(folder.refused("rolout").hint == "did you mean rollout?");
  CHECK(folder.refused("backup").hint == "chmod +x " + folder.dir.str("workflows") + "/backup.py");
  for (const char* name : {"", "../x", ".", "a/b", "x.sh"}) CHECK(folder.refused(name).code == "workflow_unknown");
  ProgramFiles nowhere("/nonexistent/workflows", folder.clock);
  CHECK(std::get<Problem>(nowhere.read("x")).code == "workflow_unknown");
  CHECK(nowhere.names().empty());
}

TEST_CASE("What others could change is refused by name") {
  Folder folder;
  folder.file("w/main.sh", "#!/bin/sh\n", 0755);
  folder.file("w/lib/lib.sh", "x=1\n");
  CHECK(folder.tree("w").files.size() == 2);
  SECTION("a file that the group can write") { folder.mode("w/lib/lib.sh", 0664); }
  SECTION("a file that the world can write") { folder.mode("w/lib/lib.sh", 0646); }
  SECTION("a folder inside") { folder.mode("w/lib", 0777); }
  SECTION("the workflow's folder") { folder.mode("w", 0775); }
  SECTION("the folder of all workflows") { folder.mode("", 0777); }
  SECTION("another owner") {
    if (::geteuid() != 0) return;
    REQUIRE(::chown((folder.dir / "workflows/w/lib/lib.sh").c_str(), 65534, 65534) == 0);
  }
  SECTION("a link out") { fs::create_symlink("/etc/passwd", folder.dir / "workflows/w/out"); }
  SECTION("a link to another workflow's file") {
    folder.file("other.sh", "#!/bin/sh\n", 0755);
    fs::create_symlink("../other.sh", folder.dir / "workflows/w/out");
  }
  SECTION("a link to a folder") { fs::create_symlink("lib", folder.dir / "workflows/w/again"); }
  SECTION("a link that names nothing") { fs::create_symlink("nothing", folder.dir / "workflows/w/nothing_there"); }
  CHECK(folder.refused("w").code == "workflow_refused");
  CHECK(folder.refused("w").detail.find(folder.dir.str("workflows")) == 0);
}

TEST_CASE("A workflow that is a link itself, or is there twice, is refused") {
  Folder folder;
  fs::create_symlink("/bin/true", folder.dir / "workflows/linked");
  CHECK(folder.refused("linked").code == "workflow_refused");
  folder.file("twice.sh", "#!/bin/sh\n", 0755);
  folder.file("twice.py", "#!/bin/sh\n", 0755);
  CHECK(folder.refused("twice").code == "workflow_refused");
  folder.file("both.sh", "#!/bin/sh\n", 0755);
  folder.file("both/main", "#!/bin/sh\n", 0755);
  CHECK(folder.refused("both").code == "workflow_refused");
}

TEST_CASE("A version is its paths, modes and bytes, and nothing else") {
  Folder folder;
  folder.file("w/main.sh", "#!/bin/sh\n", 0755);
  folder.file("w/a", "1");
  const auto version = folder.tree("w").version;
  CHECK(version.size() == 64);
  CHECK(folder.tree("w").version == version);
  SECTION("touched") {
    folder.file("w/a", "1");
    CHECK(folder.tree("w").version == version);
  }
  SECTION("bytes") {
    folder.file("w/a", "2");
    CHECK(folder.tree("w").version != version);
  }
  SECTION("mode") {
    folder.mode("w/a", 0755);
    CHECK(folder.tree("w").version != version);
  }
  SECTION("name") {
    fs::rename(folder.dir / "workflows/w/a", folder.dir / "workflows/w/b");
    CHECK(folder.tree("w").version != version);
  }
  SECTION("manifest beside it") {
    folder.file("w.toml", "max_running = 2\n");
    CHECK(folder.tree("w").version != version);
    CHECK(folder.tree("w").manifest.max_running == 2);
  }
}

TEST_CASE("A file that changes while it is read is read again, and three times is refused") {
  Folder folder;
  folder.file("w/main.sh", "#!/bin/sh\n", 0755);
  int changes = 0;
  int most = 1;
  folder.clock.meddle = [&] {
    if (changes++ < most)
      folder.file("w/main.sh", "#!/bin/sh\n" + std::string(static_cast<std::size_t>(changes), '#'), 0755);
  };
  CHECK(std::holds_alternative<ProgramTree>(folder.programs.read("w")));
  changes = 0;
  most = 100;
  CHECK(folder.refused("w").code == "workflow_changing");
  folder.clock.meddle = [] {};
  const auto tree = folder.tree("w");
  folder.file("w/main.sh", "other", 0755);
  CHECK(std::get<Problem>(folder.programs.bytes(tree, tree.files[0])).code == "workflow_changing");
}

TEST_CASE("Too many files, or too many bytes, are refused with the figure") {
  Folder folder;
  folder.file("w/main.sh", "#!/bin/sh\n", 0755);
  SECTION("bytes") {
    folder.file("w/big", "");
    fs::resize_file(folder.dir / "workflows/w/big", limits::kTreeBytes);
    CHECK(folder.refused("w").detail.find("10485770 bytes") != std::string::npos);
  }
  SECTION("files") {
    for (std::size_t i = 0; i < limits::kTreeFiles; ++i) folder.file("w/f" + std::to_string(i), "");
    CHECK(folder.refused("w").detail.find("1001 files") != std::string::npos);
  }
  CHECK(folder.refused("w").code == "workflow_too_large");
}

TEST_CASE("A version is laid out read-only and runs under its own name with what lies beside it") {
  Folder folder;
  folder.file("w/main.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/lib/lib.sh\"\nbasename \"$0\"\nhello\n", 0755);
  folder.file("w/lib/lib.sh", "hello() { echo hello; }\n");
  folder.file("w.toml", "description = \"beside\"\n");
  const auto tree = folder.tree("w");
  const auto place = folder.lay_out_tree(tree);
  CHECK(place == folder.dir.str("versions") + "/" + tree.version);
  fs::remove_all(folder.dir / "workflows");
  CHECK(test::run({.argv = {place + "/" + tree.entry}}).out == "main.sh\nhello\n");
  CHECK((fs::status(place).permissions() & fs::perms::all) == fs::perms(0555));
  CHECK((fs::status(place + "/main.sh").permissions() & fs::perms::all) == fs::perms(0555));
  CHECK((fs::status(place + "/lib/lib.sh").permissions() & fs::perms::all) == fs::perms(0444));
  CHECK(fs::exists(place + "/w.toml"));
  // Again: it is there, and no byte is asked for.
  const auto again = lay_out(folder.dir.str("versions"), tree.version, tree.files,
                             [](const kernel::ProgramFile&) -> std::string { throw std::runtime_error("asked"); });
  CHECK(std::get<std::string>(again) == place);
}

TEST_CASE("A layout that fails leaves nothing behind, and says why") {
  Folder folder;
  folder.file("w/main.sh", "#!/bin/sh\n", 0755);
  folder.file("w/sub/x", "x");
  const auto tree = folder.tree("w");
  CHECK_THROWS(
      lay_out(folder.dir.str("versions"), tree.version, tree.files, [](const kernel::ProgramFile& file) -> std::string {
        if (file.path == "main.sh") return "x";
        throw std::runtime_error("no bytes");
      }));
  CHECK(fs::is_empty(folder.dir / "versions"));
  test::write_file(folder.dir / "a_file", "");
  const auto failed =
      lay_out(folder.dir.str("a_file"), tree.version, tree.files, [](const auto&) { return std::string(); });
  REQUIRE(std::holds_alternative<LayoutFailed>(failed));
  CHECK(std::get<LayoutFailed>(failed).text.find("a_file") != std::string::npos);
}

TEST_CASE("Manifests: what they say, and where they are wrong") {
  const auto good = std::get<Manifest>(parse_manifest(
      "description = \"Install\"\nmax_running = 3\naccepts = [\"aa\", \"bb\"]\nallow_default_approved = true\n"
      "run_deadline = \"2d\"\nattempt_deadline = \"1h30m\"\n",
      "w.toml"));
  CHECK(good.max_running == 3);
  CHECK(good.accepts == std::vector<std::string>{"aa", "bb"});
  CHECK(good.run_deadline_ms == 172'800'000);
  const std::string json = manifest_json(good, "main.sh");
  CHECK(
      json ==
      R"({"entry":"main.sh","description":"Install","max_running":3,"accepts":["aa","bb"],"allow_default_approved":true,)"
      R"("run_deadline_ms":172800000,"attempt_deadline_ms":5400000})");
  const auto back = manifest_of_json(json);
  CHECK(back.description == "Install");
  CHECK(back.allow_default_approved);
  CHECK(back.attempt_deadline_ms == 5'400'000);
  CHECK(manifest_of_json("nonsense").max_running == 0);

  const auto wrong = [](const char* toml) { return std::get<Problem>(parse_manifest(toml, "w.toml")); };
  CHECK(wrong("description = \"x\"\n\nmax_runing = 3\n").code == "manifest_invalid");
  CHECK(wrong("description = \"x\"\n\nmax_runing = 3\n").detail ==
        "w.toml, line 3, column 1: unknown key max_runing: did you mean max_running?");
  CHECK(wrong("max_running = -1\n").detail.starts_with("w.toml, line 1, column 15: max_running is a number"));
  CHECK(wrong("max_running = \"3\"\n").detail.starts_with("w.toml, line 1, column 15: max_running is a number"));
  CHECK(wrong("\naccepts = \"a\"\n").detail == "w.toml, line 2, column 11: accepts is a list of texts");
  CHECK(wrong("run_deadline = \"10\"\n").detail.find("no length of time") != std::string::npos);
  CHECK(wrong("a = = b\n").detail.starts_with("w.toml, line 1, column "));
  CHECK(wrong("secrets = [\"no-name\"]\n").detail.find("no name of a secret") != std::string::npos);
  CHECK(wrong("scopes = [\"aprove\"]\n").detail.find("is no scope") != std::string::npos);
  CHECK(wrong("[env]\nBIDE_RUN = \"1\"\n").detail.find("set by bide itself") != std::string::npos);
  CHECK(wrong("[input]\ntype = \"objct\"\n").detail.find("no JSON Schema") != std::string::npos);
  CHECK(wrong("input = '{\"a\":1,}'\n").detail.find("no JSON") != std::string::npos);
  CHECK(wrong("[input]\nwhen = 2026-11-30\n").detail.find("write it as a text") != std::string::npos);
}

TEST_CASE("Manifests: the reference has every key with its default, and the rest survives storing") {
  const std::string text = test::read_file(std::string(BIDE_SOURCE_DIR) + "/packaging/examples/manifest.toml");
  const auto parsed = parse_manifest(text, "manifest.toml");
  if (const auto* wrong = std::get_if<Problem>(&parsed)) FAIL(wrong->detail);
  CHECK(manifest_json(std::get<Manifest>(parsed), "main") == manifest_json(Manifest{}, "main"));
  for (const std::string& key : manifest_keys()) {
    INFO(key);
    CHECK((text.find("\n" + key + " = ") != std::string::npos || text.find("\n[" + key + "]\n") != std::string::npos));
  }
  const auto full = std::get<Manifest>(
      parse_manifest("scopes = [\"start\", \"admin\"]\nsuspend_after_busy = \"10m\"\nretries = 4\nbackoff = "
                     "\"2s\"\nsecrets = [\"A_B\"]\nrun_as = \"nobody\"\n[env]\nX = \"y z\"\n"
                     "[input]\ntype = \"object\"\nmaximum = 1.5\nproperties.a.enum = [1, \"x\", true]\n",
                     "w.toml"));
  CHECK(full.input_schema == R"({"maximum":1.5,"properties":{"a":{"enum":[1,"x",true]}},"type":"object"})");
  const auto back = manifest_of_json(manifest_json(full, "main"));
  CHECK(manifest_json(back, "main") == manifest_json(full, "main"));
  CHECK(back.scopes == "start admin");
  CHECK(back.run_as == "nobody");
  CHECK(back.env.at("X") == "y z");
  CHECK(back.secrets == std::vector<std::string>{"A_B"});
  CHECK(back.suspend_after_busy_ms == 600'000);
}

TEST_CASE("A wrong manifest refuses the start of its workflow") {
  Folder folder;
  folder.file("w.sh", "#!/bin/sh\n", 0755);
  folder.file("w.toml", "colour = 1\n");
  CHECK(folder.refused("w").code == "manifest_invalid");
}

}  // namespace
}  // namespace bide::work
