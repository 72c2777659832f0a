// The agent as a library: installed, and used by an example that knows nothing of the tree.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {
namespace {

void must(const std::vector<std::string>& argv) {
  const Finished done = run({.argv = argv}, std::chrono::minutes(4));  // a compiler, on a loaded machine
  INFO(done.out << done.err);
  REQUIRE(done.exit.code == 0);
}

// Installs once, builds the example once: seconds of a compiler. The folder goes with the process.
const std::string& example() {
  static const TempDir place;
  static const std::string built = [] {
    const std::string prefix = place.str("usr");
    must({"cmake", "--install", std::filesystem::path(BIDE_EXECUTABLE).parent_path().string(), "--prefix", prefix});
    must({"cmake", "-S", prefix + "/share/doc/bide/examples/order", "-B", place.str("build"),
          "-DCMAKE_PREFIX_PATH=" + prefix, "-DCMAKE_CXX_FLAGS=-O0"});
    must({"cmake", "--build", place.str("build")});
    return place.str("build/order");
  }();
  return built;
}

struct Order {
  Box box{example()};
  std::string run_id;

  explicit Order(bool broken = false) {
    run_id = box.start("order",
                       Json{{"item", "lamp"}, {"amount", 2}, {"ledger", box.out("ledger")}, {"broken", broken}}.dump());
    wait = box.wait_of(run_id, "approval");
    eventually([&] { return box.lines("ledger") == 1; }, "the reservation");
    box.restart();  // SIGKILL, while a person is asked
  }
  int count(const std::string& what) const {
    const std::string text = box.text("ledger");
    int n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  }
  std::string wait;
};

}  // namespace

TEST_CASE("library: three branches outside of the tree, killed and resumed, happen once") {
  Order order;
  order.box.decide(order.run_id, "approve");
  const Json done = order.box.comes_to(order.run_id, "completed");
  CHECK(done["result"] == Json::parse(R"({"shipped":"lamp","price":40})"));
  CHECK(order.count("reserved lamp") == 1);
  CHECK(order.count("shipped lamp") == 1);
  CHECK(order.count("released") == 0);
  const Json branches = order.box.sql(
      "SELECT count(DISTINCT substr(position, 1, instr(position, '/'))) AS n FROM steps "
      "WHERE position NOT LIKE '/%'");
  CHECK(branches[0][0] == 3);
}

TEST_CASE("library: a denied order, and one that cannot be shipped, give back what was reserved, once") {
  const bool broken = GENERATE(false, true);
  Order order(broken);
  order.box.decide(order.run_id, broken ? "approve" : "deny");
  const Json failed = order.box.comes_to(order.run_id, "failed");
  CHECK(failed["error"].dump().find(broken ? "the shelf is empty" : "the order was denied") != std::string::npos);
  CHECK(order.count("reserved lamp") == 1);
  CHECK(order.count("released lamp") == 1);
  CHECK(order.count("shipped") == 0);
  order.box.restart();
  CHECK(order.box.status(order.run_id) == "failed");
  CHECK(order.count("released lamp") == 1);
}

}  // namespace bide::test
