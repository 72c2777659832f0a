// The workflow verbs. Each gets what follows its name, returns the exit code, and throws Misuse for a wrong call.
// "Does not return" is Attempt::end_run and Attempt::stay [V1].
#pragma once

#include <span>

#include "agent/verb/arguments.h"
#include "agent/verb/attempt.h"

namespace bide::verb {

// Codes with --try (programs.md, V1).
inline constexpr int kCancelled = 7;
inline constexpr int kDenied = 10;
inline constexpr int kChangesRequested = 11;
inline constexpr int kExpired = 12;
inline constexpr int kTimedOut = 124;

int verb_step(const Attempt& attempt, std::span<char*> argv);
int verb_each(const Attempt& attempt, std::span<char*> argv);
int verb_wait(const Attempt& attempt, std::span<char*> argv);
int verb_sleep(const Attempt& attempt, std::span<char*> argv);
int verb_value(const Attempt& attempt, std::span<char*> argv);
int verb_input(const Attempt& attempt, std::span<char*> argv);
int verb_result(const Attempt& attempt, std::span<char*> argv);
int verb_call(const Attempt& attempt, std::span<char*> argv);
int verb_state(const Attempt& attempt, std::span<char*> argv);
int verb_continue_as_new(const Attempt& attempt, std::span<char*> argv);
int verb_send(const Attempt& attempt, std::span<char*> argv);
int verb_progress(const Attempt& attempt, std::span<char*> argv);

// --branch, or BIDE_BRANCH, which children inherit [V3]; "" is the main branch.
[[nodiscard]] std::string branch_of(const Arguments& arguments);
// The whole of a descriptor or file, at most limits::kDocumentBytes; throws Misuse beyond that or if it is not there.
// The agent hears that something was read: Attempt::has_read().
[[nodiscard]] std::string read_document(int fd, const std::string& what);
[[nodiscard]] std::string read_document_file(const std::string& path);
// The JSON of a flag: JSON, @FILE, or - for stdin; nullopt: it is not given. Throws Misuse.
[[nodiscard]] std::optional<std::string> document_of(const Arguments& arguments, std::string_view flag);

}  // namespace bide::verb
