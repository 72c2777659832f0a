// Commands of steps that the kernel kills for their memory, for real: in a control group of their own [E7].
#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>

#include "tests/program/e2e_box.h"

namespace bide::test {

namespace {

// A control group of 20 MB. Needs the right to make one; on a machine where it is missing the case says so.
class SmallMemory {
 public:
  explicit SmallMemory(const std::string& tag) {
    for (const std::string root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      const bool first = root.ends_with("memory");
      if (!std::filesystem::exists(root + (first ? "/memory.limit_in_bytes" : "/memory.events"))) continue;
      std::error_code error;
      std::filesystem::create_directory(root + "/bide-" + tag, error);
      if (error) continue;
      path_ = root + "/bide-" + tag;
      count_ = path_ + (first ? "/memory.oom_control" : "/memory.events");
      write_file(path_ + (first ? "/memory.limit_in_bytes" : "/memory.max"), "20000000");
      return;
    }
    WARN("no control group with a limit of memory can be made here: skipped");
  }
  ~SmallMemory() {
    std::error_code error;
    if (!path_.empty()) (void)holds_within(std::chrono::seconds(5), [&] { return ::rmdir(path_.c_str()) == 0; });
  }
  SmallMemory(const SmallMemory&) = delete;
  SmallMemory& operator=(const SmallMemory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  // How often the kernel killed somebody in it.
  [[nodiscard]] int kills() const {
    const std::string text = read_file(count_);
    const auto at = text.find("oom_kill ");
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + 9));
  }

 private:
  std::string path_;
  std::string count_;
};

}  // namespace

TEST_CASE("[N123] e2e: a command that the kernel killed for its memory has no outcome, by effect class [E7]") {
  Box box;
  const SmallMemory small(box.tag());
  if (small.path().empty()) return;
  for (const std::string effect : {"pure", "idempotent", "non_idempotent"}) {
    // The first execution takes more than there is, a second does not.
    box.program(effect, "bide step hog --effect " + effect +
                            (effect == "non_idempotent" ? "" : " --retries 1 --backoff 10ms") +
                            " -- sh -c 'echo x >> \"$1\"; [ $(wc -l < \"$1\") -gt 1 ] && exit 0; echo $$ > " +
                            small.path() + "/cgroup.procs; exec python3 -c \"bytearray(200000000)\"' hog $OUT/" +
                            effect + "\nbide result done:=true\n");
  }
  for (const std::string effect : {"pure", "idempotent"}) {
    INFO(effect);
    const int before = small.kills();
    box.comes_to(box.start(effect), "completed");
    CHECK(small.kills() == before + 1);
    CHECK(box.lines(effect) == 2);
  }
  const int before = small.kills();
  const std::string run = box.start("non_idempotent");
  const std::string question = box.wait_of(run, "reconcile");
  box.suspended(run);
  CHECK(small.kills() == before + 1);
  CHECK(box.lines("non_idempotent") == 1);
  CHECK(box.bide({"answer", question, "run"}).exit.code == 0);
  box.comes_to(run, "completed");
  CHECK(box.lines("non_idempotent") == 2);
}

}  // namespace bide::test
