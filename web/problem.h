// Problem documents (RFC 9457): from a refusal of the kernel, or of the front. Every code that leaves the agent stands
// in one table with its status, its title, what it means and what to do; /errors/<code> serves that. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "agent/base/errors.h"
#include "web/request.h"

namespace bide::web {

struct ProblemKind {
  std::string_view code;
  int status;
  std::string_view title;
  std::string_view meaning;  // what it means
  std::string_view action;   // what to do
};

[[nodiscard]] std::span<const ProblemKind> problem_kinds();  // sorted by code
// A code that is not in the table is a bug of ours: then the kind of `internal`.
[[nodiscard]] const ProblemKind& problem_kind(std::string_view code);

// application/problem+json: type, title, status, code, detail, and hint, errors[] and further members if there are any.
[[nodiscard]] Response problem_response(const Problem& problem);

// Text as HTML shows it.
[[nodiscard]] std::string escape_html(std::string_view text);

// GET /errors/{code}: HTML for a browser, else JSON. GET /errors lists them.
[[nodiscard]] Response problem_page(const Request& request);
[[nodiscard]] Response problem_list(const Request& request);

}  // namespace bide::web
