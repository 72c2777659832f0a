// The verbs, by what they are about. Each writes its answer and returns the exit code. What goes wrong is thrown:
// Refused by the agent, Unreachable, ConfigFault for what was typed or configured.
#pragma once

#include <string>
#include <string_view>

#include "agent/base/clock.h"
#include "agent/cli/arguments.h"
#include "agent/cli/cli.h"
#include "agent/cli/client.h"
#include "agent/cli/console.h"

namespace bide::cli {

// The agent answered with a problem document.
struct Refused {
  Reply reply;
};
// Throws Refused unless the answer is 2xx.
[[nodiscard]] Reply accepted(Reply reply);

struct Session {
  Console& console;
  const Arguments& arguments;
  Client& client;  // connects when it is first used
};

int verb_run(Session& session);
int verb_runs(Session& session);
int verb_show(Session& session);
int verb_journal(Session& session);
int verb_log(Session& session);
int verb_watch(Session& session);
int verb_explain(Session& session);
int verb_cancel(Session& session);
int verb_rm(Session& session);
int verb_retry(Session& session);
int verb_fork(Session& session);
int verb_pause(Session& session);
int verb_resume(Session& session);
int verb_signal(Session& session);

int verb_inbox(Session& session);
int verb_approve(Session& session);
int verb_deny(Session& session);
int verb_request_changes(Session& session);
int verb_answer(Session& session);

int verb_outbox(Session& session);
int verb_webhook(Session& session);
int verb_environment(Session& session);

int verb_check(Session& session);
int verb_export(Session& session);
int verb_workflows(Session& session);
int verb_token(Session& session);
int verb_audit(Session& session);
int verb_doctor(Session& session);
// cancel, retry, pause, resume of all that fit; only if no run was named.
[[nodiscard]] bool names_many(const Arguments& arguments);
int act_on_many(Session& session, const char* action);

int verb_sweep(Session& session);
int verb_clock(Session& session);
int verb_drain(Session& session);
int verb_ui(Session& session);

// These ask no agent.
int verb_serve(Console& console, const Arguments& arguments, flow::Registry registry);
int verb_rehearse(Console& console, const Arguments& arguments);
int verb_sql(Console& console, const Arguments& arguments);
int verb_version(Console& console, const Arguments& arguments);
int verb_completion(Console& console, const Arguments& arguments);

// Watches a run until it ends or the time is over, a line a change on stderr; prints its result alone on stdout.
int watch(Session& session, std::int64_t run);
// A GET that tries again for a minute while the agent is away, and says so; throws Refused and Unreachable.
[[nodiscard]] Reply patient_get(Session& session, Clock& clock, const std::string& path, DurationMs wait);
// The exit code of a run that is over, or kStillGoing. `document`: as GET /v1/runs/{id} gives it.
[[nodiscard]] int exit_code_of(std::string_view run_document);

// JSON that was typed: the text itself, @FILE, or - for stdin. Throws ConfigFault, naming `what` and the place.
[[nodiscard]] std::string typed_json(const std::string& text, const char* what, Console& console);
// All pages of a list as one document {"items":[…],"next":null}; `path` may have a query. `most` items, 0: all.
[[nodiscard]] std::string all_pages(Client& client, const std::string& path, std::size_t most = 0);
// "2026-11-29 14:38:12" from RFC 3339; other texts as they are.
[[nodiscard]] std::string short_time(std::string_view time);
// A document on stdout, as one line.
void print_json(Console& console, std::string_view document);

}  // namespace bide::cli
