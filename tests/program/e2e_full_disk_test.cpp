// A disk that is full under a whole agent: nothing is in doubt, nobody is failed, and it comes back by itself [C4].
#include <sys/mount.h>
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "tests/program/e2e_box.h"
#include "tests/support/http_client.h"

namespace bide::test {

using namespace std::chrono_literals;

namespace {

// A real file system of 8 MiB as the agent's folder. Needs the right to mount one.
class SmallDisk {
 public:
  explicit SmallDisk(std::string folder) : folder_(std::move(folder)) {
    mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=8m,mode=0700") == 0;
    if (!mounted_) WARN("no right to mount a file system: skipped");
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  void fill() const {
    std::ofstream file(folder_ + "/ballast", std::ios::binary | std::ios::app);
    const std::string block(4096, 'b');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void clear() const { std::filesystem::remove(folder_ + "/ballast"); }

 private:
  const std::string folder_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("[N119] e2e: the disk is full under a working agent: same pid, 507, decisions go on, and it comes back") {
  Box box;
  box.program(
      "gate",
      "bide wait approval 'Go?'\nbide step one -- sh -c 'echo x >> \"$1\"' one $OUT/one\nbide result done:=true\n");
  box.program("long",
              "bide step two -- sh -c 'echo x >> \"$1\"/two; until [ -e \"$1\"/go ]; do sleep 0.02; done' two $OUT\n"
              "bide result done:=true\n");
  box.stop_agent();
  const SmallDisk disk(box.data());
  if (!disk.mounted()) return;
  box.serve();
  const pid_t pid = box.agent().pid();
  const std::string gate = box.start("gate");
  box.suspended(gate);
  const std::string works = box.start("long");
  eventually([&] { return box.lines("two") == 1; }, "a step executes");
  const auto start_run = [&](std::size_t bytes) {
    HttpClient client = HttpClient::unix_socket(box.socket());
    return client.ask("POST", "/v1/runs", R"({"workflow":"gate","input":")" + std::string(bytes, 'x') + "\"}").status;
  };
  disk.fill();
  int taken = 0;
  int status = 0;
  for (int i = 0; i < 400 && (status = start_run(30'000)) == 201; ++i) ++taken;  // what is left of the WAL's blocks
  REQUIRE(status == 507);
  // In the blocks of what was rolled back the probe a second finds room for itself: they are used up, too.
  const auto one_more = [&] { return start_run(1) == 201 && ++taken > 0; };
  eventually([&] { return !holds_within(1'500ms, one_more); }, "there is no room for anything, over a probe", 60s);
  CHECK(box.bide({"run", "gate"}).err.find("storage_full") != std::string::npos);
  box.touch("go");                       // an outcome that cannot be recorded now waits
  CHECK(box.status(gate) == "waiting");  // reads go on
  box.decide(gate, "approve");           // decisions have a reserve
  // What goes on from here on the disk decides: with the reserve's room a checkpoint may find space in the log, and a
  // probe with it. That nothing is claimed while none commits is shown where the disk is ours ([N119] of db and work).
  CHECK(box.agent().running());
  disk.clear();
  CHECK(box.comes_to(gate, "completed")["result"] == Json{{"done", true}});
  CHECK(box.comes_to(works, "completed")["result"] == Json{{"done", true}});
  CHECK(box.lines("one") == 1);
  CHECK(box.lines("two") == 1);
  CHECK(box.agent().running());
  CHECK(box.agent().pid() == pid);
  box.start("gate");  // and takes new work
  CHECK(box.sql("SELECT count(*) AS n FROM runs")[0][0] == taken + 3);
  CHECK(box.sql("PRAGMA integrity_check")[0][0] == "ok");
}

}  // namespace bide::test
