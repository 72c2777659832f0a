// Clock, random, hash, log, doorbell, ids, descriptors: the small headers of the floor.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <unordered_set>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/doorbell.h"
#include "agent/base/errors.h"
#include "agent/base/fd.h"
#include "agent/base/hash.h"
#include "agent/base/ids.h"
#include "agent/base/limits.h"
#include "agent/base/log.h"
#include "agent/base/random.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_dir.h"

namespace bide {
namespace {

// What the body writes to stderr.
template <class Body>
std::string stderr_of(Body body) {
  const test::TempDir dir;
  const Fd file(::open(dir.str("err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  const Fd saved(::dup(2));
  ::dup2(file.get(), 2);
  body();
  ::dup2(saved.get(), 2);
  return test::read_file(dir / "err");
}

TEST_CASE("clock: the system's clocks are this century's and go forwards") {
  SystemClock clock;
  CHECK(clock.wall_ms() > 1'700'000'000'000);
  const BootMs before = clock.boot_ms();
  CHECK(before > 0);
  CHECK(clock.boot_ms() >= before);
}

TEST_CASE("[C6] clock: now starts at the later of wall and mark, and never goes backwards") {
  test::FakeClock fake(1'000'000, 500);
  const StoreClock plain(fake, 0);
  const StoreClock marked(fake, 1'050'000);
  const StoreClock far(fake, 1'000'000 + limits::kClockFollowMs + 1);
  CHECK(plain.now() == 1'000'000);
  CHECK(marked.now() == 1'050'000);
  CHECK(!plain.held());
  CHECK(!marked.held());
  CHECK(far.held());
  fake.step_wall(-900'000);
  fake.advance(10);
  CHECK(plain.now() == 1'000'010);
}

TEST_CASE("[C6] clock: a wall ahead by up to a minute is followed, one behind is waited for") {
  test::FakeClock fake(1'000'000, 500);
  StoreClock clock(fake, 0);
  fake.step_wall(limits::kClockFollowMs);
  clock.follow_wall();
  CHECK(clock.now() == 1'000'000 + limits::kClockFollowMs);
  fake.step_wall(limits::kClockFollowMs + 1);
  clock.follow_wall();  // too much to be true at once
  CHECK(clock.now() == 1'000'000 + limits::kClockFollowMs);
  fake.step_wall(-90'001);
  clock.follow_wall();
  CHECK(clock.now() == 1'000'000 + limits::kClockFollowMs);
}

TEST_CASE("[C6] clock: a wall far ahead is followed when two passes a minute apart agree") {
  test::FakeClock fake(1'000'000, 500);
  StoreClock clock(fake, 0);
  const DurationMs hour = 3'600'000;
  fake.step_wall(hour);
  CHECK(clock.follow_wall() == 0);
  CHECK(clock.now() == 1'000'000);
  REQUIRE(clock.look_again_at() == fake.boot_ms() + limits::kClockFollowMs);
  fake.advance(limits::kClockFollowMs - 1);
  CHECK(clock.follow_wall() == 0);
  CHECK(clock.now() == 1'000'000 + limits::kClockFollowMs - 1);
  fake.step_wall(limits::kClockAgreeMs);  // NTP slews meanwhile: still the same story
  fake.advance(1);
  CHECK(clock.follow_wall() == hour + limits::kClockAgreeMs);
  CHECK(clock.now() == fake.wall_ms());
  CHECK(!clock.look_again_at());
}

TEST_CASE("[C6] clock: a wall far ahead that goes back, or wanders, is not followed") {
  test::FakeClock fake(1'000'000, 500);
  StoreClock clock(fake, 0);
  fake.step_wall(3'600'000);
  clock.follow_wall();
  fake.step_wall(-3'600'000);
  fake.advance(limits::kClockFollowMs);
  CHECK(clock.follow_wall() == 0);
  CHECK(clock.now() == fake.wall_ms());
  CHECK(!clock.look_again_at());
  for (int i = 0; i < 5; ++i) {  // each time another hour: no two passes agree
    fake.step_wall(3'600'000);
    fake.advance(limits::kClockFollowMs);
    CHECK(clock.follow_wall() == 0);
  }
  CHECK(clock.now() == 1'000'000 + 6 * limits::kClockFollowMs);
}

TEST_CASE("[C6] clock: a held start ends when the wall has passed the mark") {
  test::FakeClock fake(1'000'000, 500);
  StoreClock clock(fake, 2'000'000);
  CHECK(clock.held());
  clock.follow_wall();
  CHECK(clock.held());
  fake.set_wall(2'000'000);
  clock.follow_wall();
  CHECK(!clock.held());
}

TEST_CASE("[C6] clock: accepting the wall is the one thing that turns now back") {
  test::FakeClock fake(1'000'000, 500);
  StoreClock clock(fake, 9'000'000'000);
  CHECK(clock.held());
  CHECK(clock.now() == 9'000'000'000);
  CHECK(clock.accept_wall() == 1'000'000);
  CHECK(clock.now() == 1'000'000);
  CHECK(!clock.held());
  fake.advance(5);
  CHECK(clock.follow_wall() == 0);
  CHECK(clock.now() == 1'000'005);
}

TEST_CASE("[C6] clock: steps of the wall clock are counted once each, forwards and backwards") {
  test::FakeClock fake(1'000'000'000, 500);
  StoreClock clock(fake, 0);
  fake.step_wall(limits::kClockFollowMs);  // as NTP may: followed, no step
  clock.follow_wall();
  CHECK(clock.steps() == 0);
  fake.step_wall(3'600'000);
  clock.follow_wall();
  CHECK(clock.steps() == 0);  // is it true?
  fake.advance(limits::kClockFollowMs);
  clock.follow_wall();
  CHECK(clock.steps() == 1);
  fake.step_wall(-3'600'000);
  clock.follow_wall();
  fake.advance(1'000);
  clock.follow_wall();
  CHECK(clock.steps() == 2);
  (void)clock.accept_wall();
  CHECK(clock.steps() == 3);
  (void)clock.accept_wall();  // it is where it was
  clock.follow_wall();
  CHECK(clock.steps() == 3);
  fake.step_wall(-limits::kClockFollowMs - 1);
  clock.follow_wall();
  CHECK(clock.steps() == 4);
  fake.step_wall(limits::kClockFollowMs + 1);
  clock.follow_wall();
  fake.step_wall(-limits::kClockFollowMs - 1);
  clock.follow_wall();
  CHECK(clock.steps() == 5);
}

TEST_CASE("[C6] clock: passes of several threads follow a step once") {  // the thread sanitizer looks on
  test::FakeClock fake(1'000'000, 500);
  StoreClock clock(fake, 0);
  for (int round = 1; round <= 50; ++round) {
    fake.step_wall(50'000);
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) threads.emplace_back([&] { clock.follow_wall(); });
    }
    REQUIRE(clock.now() == 1'000'000 + round * 50'000);
  }
}

TEST_CASE("random: uids and uuids have their form and do not repeat") {
  SystemRandom random;
  std::set<std::string> seen;
  for (int i = 0; i < 10'000; ++i) {
    const std::string uid = random.uid();
    REQUIRE(uid.size() == 26);
    REQUIRE(uid.find_first_not_of("0123456789abcdefghjkmnpqrstvwxyz") == std::string::npos);
    REQUIRE(seen.insert(uid).second);
    const std::string uuid = random.uuid();
    REQUIRE(uuid.size() == 36);
    REQUIRE(uuid[14] == '4');
    REQUIRE(std::string("89ab").find(uuid[19]) != std::string::npos);
    REQUIRE(seen.insert(uuid).second);
  }
  SeededRandom one(7);
  SeededRandom same(7);
  SeededRandom other(8);
  CHECK(one.uid() == same.uid());
  CHECK(one.uid() != other.uid());
}

TEST_CASE("hash: known answers") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(std::string("\x00\x7F\xFF", 3)) == "007fff");
  CHECK(base64("").empty());
  CHECK(base64("f") == "Zg==");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(same_secret("abc", "abc"));
  CHECK(!same_secret("abc", "abd"));
  CHECK(!same_secret("abc", "abcd"));
  CHECK(same_secret("", ""));
}

TEST_CASE("log: one line a call, with time, level, name and fields") {
  const std::string text = stderr_of([] {
    log::info("run.claimed", {{"run", 12}, {"epoch", std::int64_t{3}}, {"name", "a b"}, {"empty", ""}});
    log::warn("x.y", {{"v", "q\"b\\e=\n\x1B"}, {"u", "\xC3\xA9"}, {"bad", "\xFF"}});
    log::error("z");
    log::debug("not.shown");
  });
  CAPTURE(text);
  REQUIRE(std::count(text.begin(), text.end(), '\n') == 3);
  const std::string first = text.substr(0, text.find('\n'));
  CHECK(parse_time(first.substr(0, first.find(' '))).has_value());
  CHECK_THAT(first, Catch::EndsWith("Z info run.claimed run=12 epoch=3 name=\"a b\" empty=\"\""));
  CHECK_THAT(text, Catch::Contains(" warn x.y v=\"q\\\"b\\\\e=\\n\\x1b\" u=\xC3\xA9 bad=\"\\xff\"\n"));
  CHECK_THAT(text, Catch::Contains(" error z\n"));
}

TEST_CASE("log: the level decides") {
  const std::string text = stderr_of([] {
    log::set_level(log::Level::debug);
    log::debug("seen", {});
    log::set_level(log::Level::error);
    log::warn("unseen");
    log::set_level(log::Level::info);
  });
  CHECK_THAT(text, Catch::Contains(" debug seen\n"));
  CHECK(text.find("unseen") == std::string::npos);
}

TEST_CASE("doorbell: a ring before the wait is not lost, and many are one") {
  Doorbell bell;
  CHECK(!bell.wait_for(std::chrono::milliseconds(1)));
  bell.ring();
  bell.ring();
  CHECK(bell.wait_for(std::chrono::seconds(20)));
  CHECK(!bell.wait_for(std::chrono::milliseconds(1)));
  std::atomic<bool> woken{false};
  std::jthread waiter([&] {
    bell.wait();
    woken = true;
  });
  bell.ring();
  test::eventually([&] { return woken.load(); }, "the waiting thread hears the bell");
}

TEST_CASE("ids: distinct types, 0 is none, usable as keys") {
  static_assert(!std::is_convertible_v<RunId, StepId> && !std::is_convertible_v<std::int64_t, RunId>);
  CHECK(!RunId().valid());
  CHECK(RunId(1).valid());
  CHECK(RunId(1) < RunId(2));
  const std::unordered_set<RunId> set{RunId(1), RunId(1), RunId(2)};
  CHECK(set.size() == 2);
}

TEST_CASE("fd: closes what it owns, once") {
  int number = -1;
  {
    Fd one(::open("/dev/null", O_RDONLY));
    number = one.get();
    Fd two(std::move(one));
    CHECK(!one.valid());  // NOLINT: what a moved-from descriptor is, is the point
    CHECK(two.get() == number);
    CHECK(::fcntl(number, F_GETFD) >= 0);
  }
  CHECK(::fcntl(number, F_GETFD) < 0);
  Fd kept(::open("/dev/null", O_RDONLY));
  const int raw = kept.release();
  CHECK(::close(raw) == 0);
}

TEST_CASE("errors: a problem is built in one line") {
  const Problem made = problem("not_found", "no run 7", "bide runs");
  CHECK(made.code == "not_found");
  CHECK(made.hint == "bide runs");
  CHECK(made.errors.empty());
}

}  // namespace
}  // namespace bide
