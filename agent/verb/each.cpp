// bide each: a step for each line of a list. What is settled is read in bulk by this one process; each of the others is
// a `bide step` below it, a few at once, and what they print is printed in the list's order.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <deque>
#include <set>

#include "agent/base/fd.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/spawn.h"
#include "agent/base/text.h"
#include "agent/verb/spill.h"
#include "agent/verb/step_request.h"
#include "agent/verb/verbs.h"

extern char** environ;

namespace bide::verb {
namespace {

using Takes = Flag::Takes;

// Those of bide step that are handed on as they are.
constexpr std::string_view kHandedOn[] = {"--effect",       "--retries", "--backoff",    "--timeout",   "--on-timeout",
                                          "--probe",        "--assume",  "--compensate", "--branch",    "--no-retry-on",
                                          "--probe-absent", "--export",  "--secret",     "--max-output"};
constexpr Flag kFlags[] = {{"--key-from"},
                           {"-P"},
                           {"--effect"},
                           {"--retries"},
                           {"--backoff"},
                           {"--timeout"},
                           {"--on-timeout"},
                           {"--probe"},
                           {"--probe-absent"},
                           {"--assume"},
                           {"--no-retry-on"},
                           {"--compensate"},
                           {"--branch"},
                           {"--export", Takes::many},
                           {"--secret", Takes::many},
                           {"--max-output"}};
constexpr std::int64_t kMostAtOnce = 64;
constexpr std::size_t kPerRequest = 500;  // items of one request: some 100 KB
constexpr int kSpawnAgainMs = 200;        // no processes left: others end

std::string self_path() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return std::string(path, n > 0 ? static_cast<std::size_t>(n) : 0);
}

std::string replaced(std::string text, const std::string& item) {
  for (auto at = text.find("{}"); at != std::string::npos; at = text.find("{}", at + item.size()))
    text.replace(at, 2, item);
  return text;
}

class Each {
 public:
  Each(const Attempt& attempt, std::span<char*> argv) : attempt_(attempt), arguments_(parse_arguments(argv, kFlags)) {
    check();
  }
  int run();

 private:
  struct Child {
    std::size_t item = 0;
    Spawned process;
    Fd out;
    std::string text;
  };
  void check();
  void read_items();
  [[nodiscard]] std::vector<std::string> command_of(const std::string& item) const;
  void replay();
  std::size_t replay_from(std::size_t first);
  [[nodiscard]] bool start(std::size_t item);
  void turn(bool more_to_start);
  void ended(Child& child);
  void print_ready();

  const Attempt& attempt_;
  Arguments arguments_;
  std::string name_;
  std::size_t at_once_ = 1;
  std::vector<std::string> items_;
  std::vector<std::optional<std::string>> outputs_;  // of those that are not printed yet
  std::size_t printed_ = 0;
  std::deque<Child> children_;
};

void Each::check() {
  if (arguments_.command.empty())
    throw Misuse{
        "bide each: write the command after --, with {} where the item goes, as in: bide each --key-from list -- "
        "convert {}"};
  if (arguments_.words.size() > 1) throw Misuse{"bide each takes one name: the command stands after --"};
  name_ = arguments_.words.empty() ? arguments_.command[0].substr(arguments_.command[0].rfind('/') + 1)
                                   : arguments_.words[0];
  const auto& command = arguments_.command;
  if (std::none_of(command.begin(), command.end(),
                   [](const std::string& word) { return word.find("{}") != std::string::npos; }))
    throw Misuse{"bide each: the command has no {}: write it where the item goes"};
  if (!arguments_.has("--key-from")) throw Misuse{"bide each needs --key-from FILE (a line an item), or --key-from -"};
  at_once_ = static_cast<std::size_t>(arguments_.number("-P", kMostAtOnce).value_or(1));
  if (at_once_ == 0) throw Misuse{"bide each: -P is at least 1"};
  read_items();
}

void Each::read_items() {
  const std::string path = *arguments_.value("--key-from");
  const std::string text = path == "-" ? read_document(STDIN_FILENO, "stdin of bide each") : read_document_file(path);
  std::set<std::string_view> seen;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    if (item.empty()) continue;
    if (item.size() > limits::kKeyBytes) throw Misuse{"bide each: an item is a key and may have 512 bytes: " + item};
    if (invalid_utf8(item) != std::string::npos) throw Misuse{"bide each: an item is a key, and one is not UTF-8"};
    items_.push_back(item);
  }
  for (const auto& item : items_) {
    if (!seen.insert(item).second) throw Misuse{"bide each: " + item + " is in the list twice, and each is a key"};
  }
  outputs_.resize(items_.size());
}

std::vector<std::string> Each::command_of(const std::string& item) const {
  std::vector<std::string> command;
  for (const auto& word : arguments_.command) command.push_back(replaced(word, item));
  return command;
}

// One page of what is settled already; returns the first item that was not looked at.
std::size_t Each::replay_from(std::size_t first) {
  const std::size_t last = std::min(items_.size(), first + kPerRequest);
  json::Writer out;
  out.begin_object().member("branch", branch_of(arguments_)).member("name", name_);
  out.member("effect", arguments_.value("--effect").value_or("non_idempotent"));
  out.member("caller", caller_of_environment()).key("items").begin_array();
  for (std::size_t i = first; i < last; ++i) {
    out.begin_object().member("key", items_[i]);
    out.member_raw("request", step_request(command_of(items_[i]), std::nullopt)).end_object();
  }
  const std::string reply = attempt_.post("steps/settled", out.end_array().end_object().take());
  for (std::size_t i = 0;; ++i) {
    const auto one = json::at_pointer(reply, "/settled/" + std::to_string(i));
    if (!one) break;
    const auto index = first + static_cast<std::size_t>(json::int_member(*one, "item").value_or(0));
    if (index < items_.size())
      outputs_[index] = result_text(attempt_, json::member(*one, "result").value_or("null"), reply);
  }
  const auto looked = json::int_member(reply, "looked").value_or(0);
  return first + std::max<std::size_t>(static_cast<std::size_t>(looked), 1);
}

void Each::replay() {
  for (std::size_t next = 0; next < items_.size();) next = replay_from(next);
}

void Each::print_ready() {
  for (; printed_ < items_.size() && outputs_[printed_]; ++printed_) {
    print(*outputs_[printed_]);
    outputs_[printed_].emplace();
  }
}

// False: no process to be had; later.
bool Each::start(std::size_t item) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  Child child{item, {}, Fd(ends[0]), {}};
  const Fd write(ends[1]);
  ::fcntl(child.out.get(), F_SETFL, O_NONBLOCK);
  SpawnRequest spawn;
  spawn.program = self_path();
  spawn.argv = {"bide", "step", name_, "--key", items_[item], "--no-stdin"};
  for (const auto flag : kHandedOn) {
    for (const auto& value : arguments_.all(flag)) spawn.argv.push_back(std::string(flag) + "=" + value);
  }
  spawn.argv.emplace_back("--");
  for (auto& word : command_of(items_[item])) spawn.argv.push_back(std::move(word));
  for (char** entry = environ; *entry != nullptr; ++entry) spawn.environment.emplace_back(*entry);
  spawn.descriptors = {{write.get(), 1}, {STDERR_FILENO, 2}};
  auto outcome = spawn_process(spawn);
  if (std::holds_alternative<SpawnFailed>(outcome)) return false;
  child.process = std::move(std::get<Spawned>(outcome));
  children_.push_back(std::move(child));
  return true;
}

void Each::ended(Child& child) {
  int status = 0;
  while (::waitpid(child.process.key.pid, &status, 0) < 0 && errno == EINTR) {
  }
  // V1: a step returns 0 or not at all; this one was ended by somebody.
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    attempt_.end_run("VerbKilled", "bide each: the step of " + items_[child.item] + " was killed before its answer");
  outputs_[child.item] = std::move(child.text);
}

void Each::turn(bool more_to_start) {
  std::vector<pollfd> fds;
  for (const Child& child : children_) fds.push_back({child.out.get(), POLLIN, 0});
  if (::poll(fds.data(), fds.size(), more_to_start ? kSpawnAgainMs : -1) <= 0) return;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    char buffer[64 * 1024];
    const ssize_t n = ::read(children_[i].out.get(), buffer, sizeof buffer);
    if (n > 0) children_[i].text.append(buffer, static_cast<std::size_t>(n));
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) continue;
    ended(children_[i]);
    children_[i].out.reset();
  }
  std::erase_if(children_, [](const Child& child) { return !child.out.valid(); });
}

int Each::run() {
  ::signal(SIGCHLD, SIG_DFL);
  replay();
  print_ready();
  std::deque<std::size_t> left;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (!outputs_[i]) left.push_back(i);
  }
  while (!left.empty() || !children_.empty()) {
    while (!left.empty() && children_.size() < at_once_ && start(left.front())) left.pop_front();
    turn(!left.empty() && children_.size() < at_once_);
    print_ready();
  }
  return 0;
}

}  // namespace

int verb_each(const Attempt& attempt, std::span<char*> argv) { return Each(attempt, argv).run(); }

}  // namespace bide::verb
