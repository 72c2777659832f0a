// Environments: made once and whole, removed when nothing needs them, never under whom works in them [W8].
#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/work/environments.h"
#include "tests/support/eventually.h"
#include "tests/support/rig.h"

namespace bide {
namespace {

namespace fs = std::filesystem;
using test::Rig;

constexpr DurationMs kDay = 24LL * 3'600'000;

// A process with its environments: what a Rig has, and the copier without its thread.
struct World {
  Rig rig;
  std::unique_ptr<work::Environments> all;
  int rung = 0;

  explicit World(Rig::Mode mode = Rig::Mode::inlined) : rig(mode) {
    rig.add("flow", [](flow::Context& c) { return c.approval("go on?"); });
    rig.start("flow");
    rig.drive();
    begin();
  }
  void begin() {
    all = std::make_unique<work::Environments>(*rig.store, [this] { ++rung; });
    rig.sweep->add("environments", [this](TimeMs now) { return all->sweep(now); });
    rig.sweep->add_look([this](TimeMs now) { return all->look(now); });
  }
  void die() {
    all.reset();
    rig.restart();
    begin();
  }
  void work() {
    while (all->run_one()) {
    }
  }
  // Its status, empty if there is none; or the code of a refusal.
  std::string add(const std::string& name, std::optional<std::string> seed = std::nullopt,
                  std::optional<DurationMs> after = std::nullopt, RunId owner = RunId()) {
    const auto outcome = all->add({name, std::move(seed), after, owner}, Rig::person());
    const auto* refused = std::get_if<Problem>(&outcome);
    return refused == nullptr ? std::get<kernel::EnvironmentRow>(outcome).status : refused->code;
  }
  std::string status(const std::string& name) {
    const auto row = rig.store->read([&](db::ReadTx& tx) { return kernel::read_environment(tx, name); });
    return row ? row->status : "";
  }
  std::string remove(const std::string& name) {
    const auto refused = all->remove(name, Rig::person());
    return refused ? refused->code : "deleting";
  }
  [[nodiscard]] fs::path folder() { return fs::path(rig.dir.str("data")) / "environments"; }
  [[nodiscard]] fs::path folder(const std::string& name) { return folder() / name; }
  // Everything below the folder of environments, hidden things too.
  int entries() {
    std::error_code none;
    int count = 0;
    for (fs::directory_iterator it(folder(), none), end; !none && it != end; ++it) ++count;
    return count;
  }
};

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}
std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Files, a link, a read-only folder, an executable.
fs::path make_seed(Rig& rig) {
  fs::path seed = rig.dir.str("seed");
  for (int i = 0; i < 20; ++i) put(seed / "src" / ("file" + std::to_string(i)), "text " + std::to_string(i));
  put(seed / "bin" / "tool", "#!/bin/sh\n");
  fs::permissions(seed / "bin" / "tool", fs::perms::owner_all);
  fs::create_symlink("src/file3", seed / "link");
  put(seed / "fixed" / "deep" / "note", "n");
  fs::permissions(seed / "fixed" / "deep", fs::perms::owner_read | fs::perms::owner_exec);
  return seed;
}
void check_copy(const fs::path& copy) {
  for (int i = 0; i < 20; ++i)
    CHECK(text_of(copy / "src" / ("file" + std::to_string(i))) == "text " + std::to_string(i));
  CHECK((fs::status(copy / "bin" / "tool").permissions() & fs::perms::owner_exec) == fs::perms::owner_exec);
  CHECK(fs::read_symlink(copy / "link") == "src/file3");
  CHECK(text_of(copy / "fixed" / "deep" / "note") == "n");
  CHECK((fs::status(copy / "fixed" / "deep").permissions() & fs::perms::owner_write) == fs::perms::none);
}

TEST_CASE("[N82] an environment that is unused for its time goes, not before, and never while somebody works in it") {
  World w;
  CHECK(w.add("cache", std::nullopt, kDay) == "seeding");
  CHECK(w.add("cache") == "environment_exists");
  CHECK(w.add("kept") == "seeding");
  CHECK(w.add(".hidden") == "invalid");
  CHECK(w.add("../up") == "invalid");
  CHECK(w.add("relative", "seed") == "invalid");
  CHECK(w.add("nowhere", w.rig.dir.str("nowhere")) == "invalid");
  CHECK(w.add("hasty", std::nullopt, 1'000) == "invalid");
  CHECK(w.add("orphan", std::nullopt, std::nullopt, RunId(99)) == "run_not_found");
  CHECK(std::get<std::string>(w.all->use("cache")) == "environment_seeding");
  w.work();
  CHECK(w.rung == 2);
  CHECK(w.status("cache") == "ready");
  put(w.folder("cache") / "a" / "b", "x");
  w.rig.advance(kDay - 1);
  (void)w.rig.sweep->pass();
  CHECK(w.status("cache") == "ready");
  {
    const auto use = w.all->use("cache");
    REQUIRE(std::holds_alternative<work::Environments::Use>(use));
    CHECK(std::get<work::Environments::Use>(use).path() == w.folder("cache").string());
    w.rig.advance(10 * kDay);  // an attempt that lasts
    (void)w.rig.sweep->pass();
    w.work();
    CHECK(w.status("cache") == "ready");
    CHECK(w.remove("cache") == "environment_in_use");
  }
  w.rig.advance(kDay - 1);  // its last use was its end
  (void)w.rig.sweep->pass();
  CHECK(w.status("cache") == "ready");
  CHECK(text_of(w.folder("cache") / "a" / "b") == "x");
  CHECK(w.rig.sweep->until_next() == 1);
  w.rig.advance(1);
  (void)w.rig.sweep->pass();
  CHECK(w.status("cache") == "deleting");
  CHECK(std::get<std::string>(w.all->use("cache")) == "environment_missing");
  w.work();
  CHECK(w.status("cache").empty());
  CHECK_FALSE(fs::exists(w.folder("cache")));
  CHECK(w.status("kept") == "ready");
  CHECK(w.entries() == 1);
  const auto commits = w.rig.store->health().commits;
  w.rig.advance(100 * kDay);
  (void)w.all->sweep(w.rig.store->now());
  CHECK(w.rig.store->health().commits == commits);  // W1
  CHECK(w.add("cache") == "seeding");               // the name is free again
}

TEST_CASE("[W8] an environment goes with the run that owns it, and by hand, and what is in the way is told") {
  World w;
  const RunId owner = w.rig.start("flow");
  w.rig.drive();
  CHECK(w.add("scratch", std::nullopt, std::nullopt, owner) == "seeding");
  w.work();
  (void)w.rig.sweep->pass();
  CHECK(w.status("scratch") == "ready");
  w.rig.cancel(owner);
  (void)w.rig.sweep->pass();
  w.work();
  CHECK(w.status("scratch").empty());
  CHECK(w.remove("scratch") == "environment_not_found");
  CHECK(w.add("early") == "seeding");
  CHECK(w.remove("early") == "deleting");  // before it was made
  w.work();
  CHECK(w.status("early").empty());
  CHECK(w.entries() == 0);
}

TEST_CASE("[N82] a seed that was cut off half way is copied anew, 60 s later, and swapped in whole") {
  World w;
  const fs::path seed = make_seed(w.rig);
  CHECK(w.add("work", seed.string()) == "seeding");
  int copied = 0;
  w.all->on_copied = [&] {
    if (++copied == 12) throw test::Died{};
  };
  CHECK_THROWS_AS(w.all->run_one(), test::Died);
  CHECK_FALSE(fs::exists(w.folder("work")));  // nobody sees a part
  CHECK(w.entries() == 1);
  put(w.folder(".seed-work") / "of the dead one", "x");
  w.die();
  (void)w.rig.sweep->pass();
  CHECK_FALSE(w.all->run_one());
  w.rig.advance(limits::kEnvironmentStalledMs - 1);
  (void)w.rig.sweep->pass();
  CHECK_FALSE(w.all->run_one());
  CHECK(w.rig.sweep->until_next() == 1);
  w.rig.advance(1);
  (void)w.rig.sweep->pass();
  (void)w.rig.sweep->pass();  // taken up once
  CHECK(w.all->run_one());
  CHECK_FALSE(w.all->run_one());
  CHECK(w.status("work") == "ready");
  check_copy(w.folder("work"));
  check_copy(seed);
  CHECK_FALSE(fs::exists(w.folder("work") / "of the dead one"));
  CHECK(w.entries() == 1);

  // Swapped in, and dead before that was written down: what stands there is whole and is kept.
  put(w.folder("work") / "made by a run", "x");
  w.rig.exec("UPDATE environments SET status = 'seeding'");
  w.die();
  w.rig.advance(limits::kEnvironmentStalledMs);
  (void)w.rig.sweep->pass();
  w.work();
  CHECK(w.status("work") == "ready");
  CHECK(fs::exists(w.folder("work") / "made by a run"));

  // A removal that died is taken up too.
  CHECK(w.remove("work") == "deleting");
  fs::rename(w.folder("work"), w.folder(".going-work"));
  w.die();
  w.rig.advance(limits::kEnvironmentStalledMs);
  (void)w.rig.sweep->pass();
  w.work();
  CHECK(w.status("work").empty());
  CHECK(w.entries() == 0);
}

TEST_CASE("[W8] what cannot be copied says why, is tried once a minute, and is ready when it can be") {
  World w;
  const fs::path seed = make_seed(w.rig);
  CHECK(w.add("work", seed.string()) == "seeding");
  fs::rename(seed, seed.string() + "-away");
  w.work();
  const auto error = [&] {
    return w.rig.store->read([&](db::ReadTx& tx) { return kernel::read_environment(tx, "work"); })->last_error;
  };
  CHECK(error().value_or("").find("cannot open") == 0);
  int tried = 0;
  for (int second = 0; second < 120; second += 5) {
    w.rig.advance(5'000);
    (void)w.rig.sweep->pass();
    while (w.all->run_one()) ++tried;
  }
  CHECK(tried == 2);
  fs::rename(seed.string() + "-away", seed);
  w.rig.advance(limits::kEnvironmentStalledMs);
  (void)w.rig.sweep->pass();
  w.work();
  CHECK(w.status("work") == "ready");
  CHECK_FALSE(error());
  check_copy(w.folder("work"));
}

TEST_CASE("[W8] one copier: a copy that takes long is not begun again, and a stop cuts it off") {
  World w(Rig::Mode::threaded);
  const fs::path seed = make_seed(w.rig);
  std::atomic<int> copied{0};
  std::atomic<bool> go{false};
  w.all->on_copied = [&] {
    if (++copied == 5) (void)test::holds_within(std::chrono::seconds(20), [&] { return go.load(); });
  };
  w.all->start();
  CHECK(w.add("work", seed.string()) == "seeding");
  test::eventually([&] { return copied == 5; }, "the copier is at work");
  for (int minute = 0; minute < 5; ++minute) {
    w.rig.advance(limits::kEnvironmentStalledMs);
    CHECK(w.all->sweep(w.rig.store->now()) == 0);
  }
  CHECK(copied == 5);
  std::jthread stopper([&] { w.all->stop(); });
  CHECK_FALSE(test::holds_within(std::chrono::milliseconds(200), [&] { return w.status("work") == "ready"; }));
  go = true;
  stopper.join();
  CHECK(w.status("work") == "seeding");
  CHECK_FALSE(fs::exists(w.folder("work")));
  w.die();
  w.all->start();
  w.rig.advance(limits::kEnvironmentStalledMs);
  (void)w.all->sweep(w.rig.store->now());
  test::eventually([&] { return w.status("work") == "ready"; }, "copied by the next process");
  check_copy(w.folder("work"));
  w.all->stop();
}

}  // namespace
}  // namespace bide
