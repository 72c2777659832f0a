// /v1/tokens: named credentials for TCP. A token is shown once, in the answer that made it, and is stored nowhere: the
// file keeps its hash, an Idempotency-Key the answer without it [D4].
#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/kernel/tokens.h"
#include "agent/work/once.h"
#include "web/auth.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using work::Answer;

void write_token(json::Writer& out, const kernel::TokenInfo& token) {
  const auto time = [&out](const char* name, const std::optional<TimeMs>& at) {
    out.key(name);
    at ? out.string(format_time(*at)) : out.null();
  };
  out.begin_object().member("id", token.id).member("name", token.name).member("scopes", token.scopes);
  out.member("created_at", format_time(token.created_at));
  time("expires_at", token.expires_at);
  time("revoked_at", token.revoked_at);
  out.end_object();
}

std::string document_of(const kernel::TokenInfo& token) {
  json::Writer out;
  write_token(out, token);
  return out.take();
}

Response list(Ports& ports, Request& request) {
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return problem_response(*bad);
  const Page wanted = std::get<Page>(page);
  const auto rows =
      ports.commands.store().read([&](db::ReadTx& tx) { return kernel::list_tokens(tx, wanted.after, wanted.limit); });
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const auto& row : rows) write_token(out, row);
  out.end_array().key("next");
  static_cast<int>(rows.size()) == wanted.limit ? out.string(std::to_string(rows.back().id)) : out.null();
  return json_response(200, out.end_object().take());
}

// A name stands in created_by and resolved_by: no other kind of principal may be taken for it.
bool good_name(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '-' && c != '_' && c != '.' && c != '@') return false;
  }
  return true;
}

std::variant<kernel::Token, Problem> read_token(Request& request, TimeMs now) {
  if (auto bad = check_body(request, {{"name", Kind::string, true},
                                      {"scopes", Kind::string, true},
                                      {"expires_in", Kind::string},
                                      {"expires_at", Kind::string}})) {
    return *bad;
  }
  kernel::Token token;
  token.name = json::string_member(request.body, "name").value_or("");
  if (!good_name(token.name)) return misfit("/name", "has 1 to 64 letters, digits and - _ . @");
  const auto scopes = parse_scopes(json::string_member(request.body, "scopes").value_or(""));
  if (!scopes || *scopes == kNoScope) return misfit("/scopes", "must be some of read start approve work admin");
  token.scopes = kernel::scopes_text(static_cast<std::uint8_t>(*scopes));
  if (const auto text = json::string_member(request.body, "expires_in")) {
    const auto length = parse_duration(*text);
    if (!length || *length <= 0) return misfit("/expires_in", "must be a length of time, such as 30d");
    token.expires_at = now + *length;
  }
  if (const auto text = json::string_member(request.body, "expires_at")) {
    token.expires_at = parse_time(*text);
    if (!token.expires_at || *token.expires_at <= now) return misfit("/expires_at", "must be an RFC 3339 time to come");
  }
  return token;
}

Response add(Ports& ports, Request& request) {
  db::Store& store = ports.commands.store();
  auto read = read_token(request, store.now());
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  auto& token = std::get<kernel::Token>(read);
  const auto key = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&key)) return problem_response(*bad);
  const std::string secret = "bide_" + ports.random.uid() + ports.random.uid();
  token.hash = sha256(secret);
  const auto outcome = work::once(store, std::get<work::Commands::Once>(key), [&](db::Tx& tx) -> Answer {
    const auto made = kernel::add_token(tx, token, request.principal.name, tx.now());
    if (const auto* refused = std::get_if<Problem>(&made)) return answer_of(*refused);
    return {201, document_of(std::get<kernel::TokenInfo>(made)), {}, false};
  });
  if (const auto* refused = std::get_if<Problem>(&outcome)) return problem_response(*refused);
  const Answer& answer = std::get<Answer>(outcome);
  Response response = json_response(answer.status, answer.body);
  if (answer.status >= 400) response.content_type = "application/problem+json";
  if (answer.replayed) response.with("Idempotent-Replayed", "true");
  if (answer.status != 201) return response;
  response.with("Location", "/v1/tokens/" + percent_encode(token.name));
  if (answer.replayed) return response;
  response.body.pop_back();
  response.body += ",\"token\":" + json::quote(secret) + "}";
  if (ports.credentials_changed) ports.credentials_changed();
  return response;
}

Response remove(Ports& ports, Request& request) {
  const std::string name = request.capture("name");
  const auto key = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&key)) return problem_response(*bad);
  const auto outcome =
      work::once(ports.commands.store(), std::get<work::Commands::Once>(key), [&](db::Tx& tx) -> Answer {
        const auto gone = kernel::revoke_token(tx, name, request.principal.name, tx.now());
        if (const auto* refused = std::get_if<Problem>(&gone)) return answer_of(*refused);
        return {200, document_of(std::get<kernel::TokenInfo>(gone)), {}, false};
      });
  // Before the answer: what is answered as revoked opens nothing any more.
  if (ports.credentials_changed) ports.credentials_changed();
  return respond(outcome);
}

}  // namespace

void add_token_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/tokens", kAdmin, with(list));
  router.post("/v1/tokens", kAdmin, with(add));
  router.del("/v1/tokens/{name}", kAdmin, with(remove));
}

}  // namespace bide::web
