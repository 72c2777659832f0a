// An attempt that had ended took back its run's folders of secrets, "of earlier attempts too": those of the next one,
// that had begun as soon as the first one's guard was marked as stopped, as well. Its program found no file any more,
// and went on with nothing. And whichever of the two ended first took the other's place among those that the sweep
// leaves alone, so that the sweep could do the same [D4, K7].
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/work/holders.h"
#include "agent/work/program_driver.h"
#include "agent/work/secrets.h"
#include "tests/kernel/kernel_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;
namespace fs = std::filesystem;

TEST_CASE("[D4] [K7] issue: an attempt that ends leaves the next one its secrets, and so does the sweep") {
  Rig rig{Rig::Mode::threaded};
  rig.add("other", [](flow::Context&) { return std::string("1"); });
  (void)rig.start("other");  // opens the box
  const auto write = [&](const std::string& name, const std::string& text, fs::perms mode) {
    fs::create_directories(fs::path(rig.dir.str(name)).parent_path());
    std::ofstream(rig.dir.str(name)) << text;
    fs::permissions(rig.dir.str(name), mode);
  };
  const auto there = [&](const std::string& name) { return fs::exists(rig.dir.str(name)); };
  write("d/secrets/TOKEN", "canary-value\n", fs::perms(0600));
  // The first attempt dies at once, the next one says that it has begun, and stays.
  write("main",
        "#!/bin/sh\n[ -e ../../../second ] || kill -9 $$\ntouch ../../../begun\n"
        "until [ -e ../../../go ]; do sleep 0.02; done\n",
        fs::perms(0755));

  SystemClock clock;
  work::Holders holders(*rig.store, rig.random, *rig.executor, rig.dir.str("outcomes"), rig.dir.str("s"));
  work::SystemSpawner spawner;
  work::Secrets secrets(rig.dir.str("d"), "", clock);
  work::ProgramSettings settings;
  settings.directory = rig.dir.str("d");
  settings.socket = rig.dir.str("s");
  settings.verb_executable = BIDE_EXECUTABLE;
  work::ProgramDriver driver(*rig.store, rig.random, spawner, holders, settings, [&](const kernel::VersionRow&) {
    return work::ProgramHome{rig.dir.str(""), rig.dir.str("main")};
  });
  driver.set_secrets(&secrets);

  VersionId version;
  const RunId run = rig.store->write([&](db::Tx& tx) {
    version = kernel::ensure_version(tx, kernel::ensure_workflow(tx, "prog"), "1", kernel::WorkflowKind::program,
                                     R"({"secrets":["TOKEN"]})", tx.now());
    return KernelFixture::run_in(tx, kernel::RunStatus::running, version);
  });
  const kernel::VersionRow row = rig.store->read([&](db::ReadTx& tx) { return *kernel::read_version(tx, version); });
  const auto drive = [&](const kernel::Fence& fence) {
    flow::AttemptOptions options = driver.options(row);
    options.style = flow::Style::program;
    driver.drive(std::make_shared<flow::Attempt>(*rig.store, rig.random, fence, options), row);
  };
  const kernel::Fence first = KernelFixture::fence(run);
  kernel::Fence second = first;
  ++second.epoch;
  const std::string folder =
      "d/attempt-secrets/" + std::to_string(run.value) + "_" + std::to_string(second.epoch) + "/TOKEN";
  std::jthread next;
  driver.set_stopped_bell([&] {
    if (there("second")) return;
    write("second", "", fs::perms(0600));
    rig.exec("UPDATE runs SET status = 'running', owner = '" + std::string(KernelFixture::kOwner) +
             "', epoch = " + std::to_string(second.epoch) + " WHERE id = " + std::to_string(run.value));
    next = std::jthread([&] { drive(second); });
    eventually([&] { return there("begun"); }, "the next attempt has begun");
    CHECK(there(folder));
  });
  drive(first);
  REQUIRE(there("begun"));
  CHECK(there(folder));
  (void)driver.sweep_processes(rig.clock.wall_ms());
  CHECK(there(folder));
  write("go", "", fs::perms(0600));
  next.join();
  (void)driver.sweep_processes(rig.clock.wall_ms());
  CHECK_FALSE(there(folder));
}
