// A step's output that is too large for the journal: it lies in a file, and the journal has its hash and length:
// {"spilled":{"file":"12/NONCE","sha256":"…","bytes":5000000},"begins":"…"} [E9]. One thread.
// Failures: a file that cannot be written is false, and errno says why; one that is not what was recorded ends the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/fd.h"
#include "agent/base/secrets.h"
#include "agent/verb/attempt.h"

namespace bide::verb {

inline constexpr std::int64_t kOutputBytes = 1 << 30;  // of a step: what a disk of today has many times

class Spill {
 public:
  // `path` ends in RUN/NONCE; the folder is made.
  [[nodiscard]] bool begin(const std::string& path);
  [[nodiscard]] bool write(std::string_view bytes);
  // On disk from here on: its journal entry may follow.
  [[nodiscard]] bool finish();
  void drop();
  // The name of a secret that stands in what is written so far [D4].
  [[nodiscard]] std::optional<std::string> secret_in(const SecretValues& secrets) const;
  [[nodiscard]] bool begun() const { return !path_.empty(); }
  // The result, as above. After finish().
  [[nodiscard]] std::string document(std::string_view begins) const;

 private:
  std::string path_;
  Fd fd_;
  std::int64_t bytes_ = 0;
  std::string sha256_;
};

// Prints what a verb's reply has as its result, from the journal or from the file.
void print_result(const Attempt& attempt, std::string_view result, std::string_view reply);
// The same as text; of a spilled result, all of its file.
[[nodiscard]] std::string result_text(const Attempt& attempt, std::string_view result, std::string_view reply);
// Path of a spilled result's file, "" of any other result.
[[nodiscard]] std::string spilled_file(std::string_view result, std::string_view reply);

}  // namespace bide::verb
