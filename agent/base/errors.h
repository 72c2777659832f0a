// Faults are exceptions, refusals are values (Problem). Faults are caught in five places only:
// the writer's job, a worker, a sweep duty, the HTTP handler, main. Errors cross threads as values.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bide {

// A broken invariant of ours. The transaction rolls back; the caller gets code `internal`.
struct Bug : std::logic_error {
  using std::logic_error::logic_error;
};
// An I/O error of the store: the outcome is unknown, nothing more is acknowledged and the process ends [C4].
struct StorageFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Disk full: the batch was rolled back and nothing is in doubt [C4]. HTTP 507 `storage_full`.
struct StorageFull : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Somebody else holds the file's write lock for longer than the busy timeout. HTTP 503 `storage_busy`.
struct StorageBusy : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A CHECK, trigger or foreign key of the file refused a write of ours, or what is stored cannot be read.
struct CorruptData : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The configuration, the command line or the environment of the process is wrong. Exit code 2.
struct ConfigFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One place in a JSON document that does not fit, as an RFC 6901 pointer.
struct PointerError {
  std::string pointer;
  std::string detail;
};

// A refusal: what the caller did wrong or what stands in the way. `code` is stable, one of problems.h.
struct Problem {
  std::string code;
  std::string detail;                // what happened, and what was expected
  std::string hint;                  // the command to type next, or empty
  std::vector<PointerError> errors;  // schema failures [A8]
  std::string extra;                 // further members of the problem document: JSON members without braces, or empty
};

[[nodiscard]] inline Problem problem(std::string_view code, std::string detail, std::string hint = {}) {
  return Problem{std::string(code), std::move(detail), std::move(hint), {}, {}};
}

}  // namespace bide
