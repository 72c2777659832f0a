// What is about the agent itself: sweep, health, info, the meaning of errors, and the page's session.
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/kernel/events.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

Response sweep(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  const work::SweepReport report = ports.commands.sweep_now();
  json::Writer out;
  out.begin_object().key("duties").begin_array();
  for (const work::DutyReport& duty : report.duties) {
    out.begin_object().member("name", duty.name).member("done", duty.done).key("error");
    duty.error.empty() ? out.null() : out.string(duty.error);
    out.end_object();
  }
  out.end_array().key("first_error");
  report.first_error.empty() ? out.null() : out.string(report.first_error);
  out.member("cut_short", report.cut_short).end_object();
  return json_response(200, out.take());
}

// C6.
Response accept_clock(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  const auto accepted = ports.commands.accept_clock(who(request));
  json::Writer out;
  out.begin_object().member("was", format_time(accepted.was)).member("now", format_time(accepted.now));
  out.member("was_held", accepted.was_held).end_object();
  return json_response(200, out.take());
}

// {"draining","idle","runs","apps","tasks"}: whether claims are held back, and what executes still: runs that the agent
// drives, runs that apps drive, tasks. idle: none of them, and nothing new begins. Prefer: wait holds it back until
// then.
Response draining(Ports& ports, Request& request) {
  return long_poll(ports, request, [&ports]() -> Look {
    const work::Commands::Draining now = ports.commands.draining();
    const bool idle = now.draining && now.driven.none();
    json::Writer out;
    out.begin_object().member("draining", now.draining).member("idle", idle);
    out.member("runs", now.driven.runs).member("apps", now.driven.apps).member("tasks", now.driven.tasks);
    return {idle || !now.draining, json_response(200, out.end_object().take())};
  });
}

Response drain(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"off", Kind::boolean}})) return problem_response(*bad);
  ports.commands.drain(who(request), json::bool_member(request.body, "off").value_or(false));
  return draining(ports, request);
}

Response healthy(Ports&, Request&) { return json_response(200, "{\"status\":\"ok\"}"); }

// Why no work would be done, if so. Reads memory only, so that it answers when the file does not.
std::string not_ready(Ports& ports) {
  const db::StoreHealth health = ports.commands.store().health();
  if (health.failed) return "the file failed; the agent is ending";
  if (health.storage_full) return "the disk is full";
  if (ports.commands.store().clock().held())
    return "the clock is behind the file's: bide clock accept, or set the clock";
  if (ports.commands.executor().door().is_shut()) return "draining: nothing is claimed until bide drain --off";
  if (ports.not_ready) {
    if (std::string why = ports.not_ready(); !why.empty()) return why;
  }
  return ports.commands.sweep().last_report().first_error;
}

Response ready(Ports& ports, Request&) {
  const std::string why = not_ready(ports);
  json::Writer out;
  out.begin_object().member("ready", why.empty()).key("reason");
  why.empty() ? out.null() : out.string(why);
  if (ports.deliveries != nullptr)
    out.member("parked", ports.deliveries->parked());  // deliveries that wait for somebody
  out.end_object();
  Response response = json_response(why.empty() ? 200 : 503, out.take());
  if (!why.empty()) response.with("Retry-After", "1");
  return response;
}

Response info(Ports& ports, Request& request) {
  db::Store& store = ports.commands.store();
  const db::StoreHealth health = store.health();
  json::Writer out;
  out.begin_object().member("name", "bide").member("version", ports.version).member("now", format_time(store.now()));
  out.member("data", store.directory()).member("owner", ports.commands.executor().owner());
  out.key("store").begin_object();
  out.member("commits", static_cast<std::int64_t>(health.commits))
      .member("jobs", static_cast<std::int64_t>(health.jobs));
  out.member("queued_jobs", static_cast<std::int64_t>(health.queued_jobs)).member("wal_bytes", health.wal_bytes);
  out.member("full", health.storage_full).member("foreign_writer_seen", health.foreign_writer_seen).end_object();
  // Where a reader of /v1/events begins who wants to hear only of what comes.
  out.member("last_event", store.read([](db::ReadTx& tx) { return kernel::last_event(tx).value; }));
  out.key("you").begin_object().member("name", request.principal.name);
  out.member("scopes", kernel::scopes_text(static_cast<std::uint8_t>(request.principal.scopes))).end_object();
  out.end_object();
  return json_response(200, out.take());
}

// -- The page's session.

Response make_code(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  std::string origin = request.principal.credential;
  if (request.principal.by_cookie) {
    const auto session = ports.sessions.find_hash(origin);
    origin = session ? session->origin : "";
  }
  const std::string code = ports.sessions.make_code(request.principal.name, request.principal.scopes, origin);
  json::Writer out;
  out.begin_object().member("code", code).member("seconds", limits::kCodeMs / 1000).key("url");
  ports.page_url.empty() ? out.null() : out.string(ports.page_url + "#code=" + code);
  out.end_object();
  return json_response(201, out.take());
}

std::string session_document(const Session& session) {
  json::Writer out;
  out.begin_object().member("name", session.name).member("csrf", session.csrf);
  out.member("scopes", kernel::scopes_text(static_cast<std::uint8_t>(session.scopes))).end_object();
  return out.take();
}

Response sign_in(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"code", Kind::string, true}})) return problem_response(*bad);
  const auto made = ports.sessions.redeem(trim(json::string_member(request.body, "code").value_or("")));
  if (!made)
    return problem_response(problem("session_code", "the code is not valid, was used, or is too old", "bide ui"));
  Response response = json_response(201, session_document(made->session));
  response.with("Set-Cookie", "bide_session=" + made->secret + "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" +
                                  std::to_string(limits::kSessionMs / 1000));
  return response;
}

std::string cookie_of(const Request& request) {
  const std::string* cookies = request.field("cookie");
  return cookies == nullptr ? "" : cookie_value(*cookies, "bide_session");
}

// After a reload the page asks for its token again: nobody else can read the answer.
Response session(Ports& ports, Request& request) {
  const auto found = request.principal.by_cookie ? ports.sessions.find(cookie_of(request)) : std::nullopt;
  if (!found) return problem_response(problem("unauthorized", "the page is not signed in", "bide ui"));
  return json_response(200, session_document(*found));
}

Response sign_out(Ports& ports, Request& request) {
  ports.sessions.end(cookie_of(request));
  if (ports.credentials_changed) ports.credentials_changed();
  Response response;
  response.status = 204;
  response.with("Set-Cookie", "bide_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
  return response;
}

}  // namespace

void add_agent_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.post("/v1/sweep", kAdmin, with(sweep));
  router.post("/v1/clock/accept", kAdmin, with(accept_clock));
  router.post("/v1/drain", kAdmin, with(drain), Lane::preferred);
  router.get("/v1/drain", kRead, with(draining), Lane::preferred);
  router.open("/healthz", with(healthy), Lane::health);
  router.open("/readyz", with(ready), Lane::health);
  router.get("/v1/info", kRead, with(info));
  router.open("/errors", problem_list);
  router.open("/errors/{code}", problem_page);
  router.post("/v1/session/codes", kAdmin, with(make_code));
  router.open_post("/v1/session", with(sign_in));
  router.get("/v1/session", kNoScope, with(session));
  router.del("/v1/session", kNoScope, with(sign_out));
}

}  // namespace bide::web
