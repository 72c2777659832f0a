// A page of a journal had as many rows as were asked for, whatever they held: two hundred results of a megabyte were
// one answer of 200 MB, in memory twice, for each of 64 readers, and more than the command line takes. A page ends when
// it has some megabytes, and says where the next begins.
#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "tests/kernel/kernel_fixture.h"
#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"

using namespace bide;
using namespace bide::test;

namespace {

// Numbers of the items of all pages, in order; each page is small.
std::vector<std::int64_t> read_all(const AgentFront& front, const std::string& target, const std::string& number) {
  std::vector<std::int64_t> all;
  std::string cursor;
  for (int page = 0; page < 40; ++page) {
    const HttpAnswer answer = front.ask("GET", target + (cursor.empty() ? "" : "&cursor=" + cursor));
    REQUIRE(answer.status == 200);
    CHECK(answer.body.size() < 14'000'000);
    for (int i = 0;; ++i) {
      const auto item = json::at_pointer(answer.body, "/items/" + std::to_string(i) + "/" + number);
      if (!item) break;
      all.push_back(std::stoll(*item));
    }
    const auto next = json::string_member(answer.body, "next");
    if (!next) return all;
    cursor = *next;
  }
  FAIL("the pages do not end");
  return all;
}

}  // namespace

TEST_CASE("[D5] issue: a page of large results ends early, and the pages together have them all") {
  AgentFront front;
  const std::int64_t run = front.start("gate");
  front.until(run, "waiting");
  constexpr int kSteps = 40;
  front.rig.store->write([&](db::Tx& tx) {
    const std::string large = "\"" + std::string((1 << 20) - 2, 'x') + "\"";
    for (int i = 0; i < kSteps; ++i) {
      const StepId step = KernelFixture::step_in(tx, RunId(run), kernel::StepStatus::started, kernel::StepKind::step,
                                                 kernel::Effect::pure);
      db::Query(tx, "UPDATE steps SET status = 'completed', result = ?2 WHERE id = ?1").bind(step, large).run();
    }
  });
  const auto seqs = read_all(front, "/v1/runs/" + std::to_string(run) + "/journal?limit=200", "seq");
  CHECK(seqs.size() == kSteps + 1);  // and the approval
  CHECK(std::is_sorted(seqs.begin(), seqs.end()));
  CHECK(std::adjacent_find(seqs.begin(), seqs.end()) == seqs.end());
}

TEST_CASE("issue: a page of large events ends early too, and a run's end is said on the last page only") {
  AgentFront front;
  const std::int64_t run = front.start("echo");
  front.until(run, "completed");
  front.rig.store->write([&](db::Tx& tx) {
    const std::string large = "{\"value\":\"" + std::string(1'000'000, 'x') + "\"}";
    for (int i = 0; i < 20; ++i) kernel::append_event(tx, tx.now(), "run.state", RunId(run), StepId(), large);
  });
  std::vector<std::int64_t> all;
  std::string cursor = "0";
  int pages = 0;
  for (bool ended = false; !ended && pages < 40; ++pages) {
    const HttpAnswer answer =
        front.ask("GET", "/v1/runs/" + std::to_string(run) + "/events?limit=200&cursor=" + cursor);
    REQUIRE(answer.status == 200);
    CHECK(answer.body.size() < 14'000'000);
    for (int i = 0;; ++i) {
      const auto id = json::at_pointer(answer.body, "/items/" + std::to_string(i) + "/id");
      if (!id) break;
      all.push_back(std::stoll(*id));
    }
    cursor = json::string_member(answer.body, "next").value();
    ended = json::bool_member(answer.body, "ended").value();
  }
  CHECK(pages >= 2);
  CHECK(all.size() >= 20);
  CHECK(static_cast<std::int64_t>(all.size()) ==
        front.rig.number("SELECT count(*) FROM events WHERE run_id = " + std::to_string(run)));
  CHECK(std::is_sorted(all.begin(), all.end()));
}

TEST_CASE("issue: pages of any size have all rows once") {
  AgentFront front;
  for (int i = 0; i < 25; ++i) (void)front.start("gate");
  (void)front.wait_of(25);
  for (const int limit : {1, 3, 8, 9, 16, 25, 200}) {
    INFO(limit);
    const auto runs = read_all(front, "/v1/runs?limit=" + std::to_string(limit), "id");
    CHECK(runs.size() == 25);
    CHECK(std::is_sorted(runs.rbegin(), runs.rend()));
    eventually([&] { return front.rig.number("SELECT count(*) FROM waits") == 25; }, "all wait");
    const auto waits = read_all(front, "/v1/waits?limit=" + std::to_string(limit), "id");
    CHECK(waits.size() == 25);
    CHECK(std::is_sorted(waits.begin(), waits.end()));
  }
}
