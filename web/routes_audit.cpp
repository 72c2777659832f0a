// /v1/audit: who decided what, the newest first; and whether the chain of it is whole.
#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/kernel/audit_chain.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

void text_or_null(json::Writer& out, std::string_view name, const std::optional<std::string>& text) {
  out.key(name);
  text ? out.string(*text) : out.null();
}

void write_row(json::Writer& out, const kernel::AuditRow& row) {
  out.begin_object().member("id", row.id).member("at", format_time(row.at)).member("run", row.run);
  out.member("workflow", row.workflow).key("wait");
  row.wait ? out.number(*row.wait) : out.null();
  out.member("name", row.name).member("decided_by", row.decided_by).member("verdict", row.verdict);
  out.member_raw("decision", row.decision);
  text_or_null(out, "why", row.why);
  text_or_null(out, "digest", row.digest ? std::optional(to_hex(*row.digest)) : std::nullopt);
  text_or_null(out, "chain", row.chain ? std::optional(to_hex(*row.chain)) : std::nullopt);
  out.end_object();
}

Response list(Ports& ports, Request& request) {
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return problem_response(*bad);
  kernel::AuditFilter filter;
  filter.before = std::get<Page>(page).after;
  filter.limit = std::get<Page>(page).limit;
  if (const std::string* run = request.query_value("run")) {
    filter.run = parse_number(*run);
    if (!filter.run) return problem_response(problem("bad_request", "run must be a run's number"));
  }
  if (const std::string* by = request.query_value("by")) filter.decided_by = *by;
  if (const std::string* verdict = request.query_value("verdict")) {
    filter.verdict = *verdict;
    if (*verdict != "accepted" && *verdict != "refused" && *verdict != "dropped") {
      return problem_response(problem("bad_request", "verdict must be accepted, refused or dropped"));
    }
  }
  const auto rows = ports.commands.store().read([&](db::ReadTx& tx) { return kernel::list_audit(tx, filter); });
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const auto& row : rows) write_row(out, row);
  out.end_array().key("next");
  static_cast<int>(rows.size()) == filter.limit ? out.string(std::to_string(rows.back().id)) : out.null();
  return json_response(200, out.end_object().take());
}

std::string_view to_text(kernel::AuditCheck::Verdict verdict) {
  switch (verdict) {
    case kernel::AuditCheck::Verdict::whole: return "whole";
    case kernel::AuditCheck::Verdict::tampered: return "tampered";
    case kernel::AuditCheck::Verdict::cannot_tell: return "cannot_tell";
  }
  return "cannot_tell";
}

// ?head=12:9f86…: as the log has it.
Response verify(Ports& ports, Request& request) {
  std::optional<kernel::AuditHead> seen;
  if (const std::string* head = request.query_value("head")) {
    seen = kernel::audit_head_from(*head);
    if (!seen) return problem_response(problem("bad_request", "head is what the log says: a number, ':' and the hash"));
  }
  const auto check = ports.commands.store().read([&](db::ReadTx& tx) { return kernel::check_audit(tx, seen); });
  json::Writer out;
  out.begin_object().member("verdict", to_text(check.verdict)).member("rows", check.rows).key("row");
  check.row > 0 ? out.number(check.row) : out.null();
  text_or_null(out, "why", check.why.empty() ? std::nullopt : std::optional(check.why));
  text_or_null(out, "head", check.head.id > 0 ? std::optional(kernel::to_text(check.head)) : std::nullopt);
  return json_response(200, out.end_object().take());
}

}  // namespace

void add_audit_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/audit", kAdmin, with(list));
  router.get("/v1/audit/verify", kAdmin, with(verify));
}

}  // namespace bide::web
