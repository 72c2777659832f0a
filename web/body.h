// Reading requests: JSON bodies, pages, ids, the key of a command; and writing what a command answered. Any thread.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "agent/base/errors.h"
#include "agent/kernel/principal.h"
#include "web/ports.h"
#include "web/request.h"

namespace bide::web {

// A member that a body may have.
enum class Kind { string, integer, boolean, object, any };
struct Member {
  std::string_view name;
  Kind kind = Kind::any;
  bool needed = false;
};
// The body is one acceptable JSON object (bad_json 400 with the byte, D1) with these members and no others
// (invalid 422 with a pointer to each that does not fit). An empty body counts as {}.
[[nodiscard]] std::optional<Problem> check_body(Request& request, std::initializer_list<Member> members);
// D5: one document of a body, by name. too_large 413.
[[nodiscard]] std::optional<Problem> check_size(std::string_view name, const std::optional<std::string>& document);

struct Page {
  std::int64_t after = 0;  // the cursor; 0: from the beginning
  int limit = limits::kPageDefault;
};
// Problem `invalid`: what is wrong with one member, by its pointer.
[[nodiscard]] Problem misfit(std::string pointer, std::string why);

// ?limit= (1 to 200). Problem: bad_request.
[[nodiscard]] std::variant<int, Problem> read_limit(const Request& request);
// ?limit= (1 to 200) and ?cursor= (what `next` said). Problem: bad_request.
[[nodiscard]] std::variant<Page, Problem> read_page(const Request& request);

// {id} of the path; Problem `code` (run_not_found …) if it is no number.
[[nodiscard]] std::variant<std::int64_t, Problem> path_id(const Request& request, std::string_view code);

[[nodiscard]] kernel::Principal who(const Request& request);

// M1: of the Idempotency-Key header. nullopt in the first: none was sent. Problem: a key that is no key.
[[nodiscard]] std::variant<work::Commands::Once, Problem> command_key(const Request& request);

// The answer that goes out for what a command said; with Location, and Idempotent-Replayed.
[[nodiscard]] Response respond(const std::variant<work::Answer, Problem>& outcome);
// A refusal as it is stored for its Idempotency-Key.
[[nodiscard]] work::Answer answer_of(const Problem& problem);

// Prefer: wait. Looks, and looks again after each commit, until `look` says that it is done, the time is over, the
// peer hung up or the agent closes; the last look is the answer.
struct Look {
  bool done = false;
  Response response;
};
[[nodiscard]] Response long_poll(Ports& ports, Request& request, const std::function<Look()>& look);

}  // namespace bide::web
