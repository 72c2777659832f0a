// A process without descriptors left could not read /proc, and took what it did not see for gone: a step's command that
// asked over the socket counted as an admin, verbs that worked on as killed (their run failed), and trees that lived as
// ended (a second attempt beside the first).
#include <sys/resource.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include "agent/base/process_tree.h"
#include "agent/base/spawn.h"

namespace bide {
namespace {

// No new descriptor for as long as it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    const int lowest = ::dup(STDIN_FILENO);
    ::close(lowest);
    none.rlim_cur = static_cast<rlim_t>(lowest);
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

#if !defined( \
    __SANITIZE_ADDRESS__)  // UBSan looks at each exception's memory through a pipe, for which there is no descriptor
template <class Look>
bool cannot_look(Look look) {
  const NoDescriptors none;
  try {
    look();
  } catch (const CannotLook&) {
    return true;
  }
  return false;
}

TEST_CASE("[A7] [K7] [E8] issue: without descriptors nothing is known of a process, and none is taken for gone") {
  const auto self = read_process(::getpid());
  REQUIRE(self);
  const TreeScope scope{self->key, {}};
  CHECK(cannot_look([&] { (void)read_process(::getpid()); }));
  CHECK(cannot_look([&] { (void)is_alive(self->key); }));
  CHECK(cannot_look([&] { (void)attempt_of(self->key, "/no/socket"); }));
  CHECK(cannot_look([&] { (void)members(scope); }));
  CHECK(cannot_look([&] { (void)descendants(::getpid()); }));
  CHECK(cannot_look([&] { (void)kill_with_root(TreeScope{{::getppid(), 1}, {}}); }));
  CHECK(read_process(::getpid()));
}
#endif

TEST_CASE("[N129] issue: without descriptors nothing is started, and that is said") {
  const SpawnRequest request{.program = "/bin/true", .argv = {"/bin/true"}};
  const auto outcome = [&] {  // judged outside: UBSan needs a descriptor to look at a virtual call
    const NoDescriptors none;
    return spawn_process(request);
  }();
  const auto* failed = std::get_if<SpawnFailed>(&outcome);
  REQUIRE(failed != nullptr);
  CHECK(failed->text.find("/bin/true") != std::string::npos);
  CHECK(std::holds_alternative<Spawned>(spawn_process(request)));
}

}  // namespace
}  // namespace bide
