// The attempt that a verb belongs to, by its environment, and the law that a verb returns 0 or does not return [V1].
//
// With BIDE_CHECK and no attempt a verb only looks at how it is called (`bide check`): it ends with 0 where it would
// ask the agent or read a file, and with 64 and the sentence where the run would end.
//
// Inside an attempt (BIDE_ATTEMPT) all verbs work; inside a step's command (BIDE_STEP, without BIDE_ATTEMPT) only
// input and progress do, and a journal verb ends the run with NestedVerb. One thread.
// Failures: an agent that is away is asked again until it is back or we are ended [V2]; what it refuses ends the run.
#pragma once

#include <string>
#include <string_view>

namespace bide::verb {

inline constexpr int kUsageCode = 64;  // EX_USAGE: not tried again

class Attempt {
 public:
  enum class Where { outside, attempt, step, check };

  // Reads BIDE_AGENT, BIDE_ATTEMPT, BIDE_STEP.
  static Attempt of_environment();
  // TERM, INT, HUP and PIPE: a verb that dies of `timeout` or Ctrl-C would hand its program a code [V1, V2].
  static void ignore_signals();

  [[nodiscard]] Where where() const { return where_; }
  [[nodiscard]] const std::string& run() const { return run_; }
  [[nodiscard]] const std::string& epoch() const { return epoch_; }

  // What is asked from now on holds what was read, and that is cut if the program died meanwhile: the agent looks, and
  // the first thing that it answers says that the program lives.
  static void has_read() { has_read_ = true; }
  // BIDE_CHECK: nothing is known but how the verb is called.
  [[nodiscard]] static bool only_checks() { return only_checks_; }

  // The body of a 2xx answer. Everything else that can be answered ends the run and does not return.
  std::string post(std::string_view operation, const std::string& body) const;
  std::string get(std::string_view operation) const;
  // Ends the run with that error (and says it on stderr, which is the run's log). The process is ended by the agent.
  [[noreturn]] void end_run(std::string_view code, const std::string& message) const;
  // Waits to be ended.
  [[noreturn]] static void stay();

 private:
  std::string ask(std::string_view method, std::string_view operation, const std::string& body) const;

  static inline bool has_read_ = false;  // of the process, as its descriptors are
  static inline bool only_checks_ = false;

  Where where_ = Where::outside;
  std::string agent_;  // socket path
  std::string token_;
  std::string run_;
  std::string epoch_;
};

// Writes all of it to stdout. What nobody reads is no fault: the journal has it.
void print(std::string_view text);
// A result as a program wants it: a string raw, {"base64":…} as its bytes, all else as JSON.
[[nodiscard]] std::string plain(std::string_view json);
// Bytes as a result: a JSON string if they are UTF-8, else {"base64":…}.
[[nodiscard]] std::string as_result(std::string_view bytes);

}  // namespace bide::verb
