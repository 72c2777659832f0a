#include "agent/cli/arguments_operate.h"

#include <CLI/CLI.hpp>

#include "agent/base/text.h"
#include "agent/cli/arguments.h"

namespace bide::cli {
namespace {

std::string check_number(const std::string& text) {
  const auto number = parse_number(text);
  return number && *number > 0 ? "" : "\"" + text + "\" is no number, as bide runs shows them";
}

}  // namespace

void for_many(CLI::App& app, Arguments& a) {
  app.add_option("RUN", a.id, "number of the run; without it, all that fit what follows")
      ->check(check_number)
      ->type_name("");
  app.add_option("--workflow", a.workflow, "all of this workflow")->type_name("W");
  app.add_option("--status", a.status, "all in this state")
      ->type_name("S")
      ->check(CLI::IsMember({"queued", "running", "waiting", "completed", "failed", "cancelled"}));
  app.add_option("--mission", a.mission, "all of this mission")->type_name("M");
  app.add_option("--label", a.label, "all with this label: NAME, or NAME=VALUE")->type_name("L");
  app.add_flag("--dry-run", a.dry_run, "only say which ones these are");
}

void for_token(CLI::App& app, Arguments& a) {
  app.add_option("ACTION", a.action, "add, list or remove")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"add", "list", "remove"}));
  app.add_option("NAME", a.name, "who acts with it: it stands in created_by and resolved_by")->type_name("");
  app.add_option("--scope", a.scopes, "read, start, approve, work or admin; several may be given")
      ->type_name("S")
      ->take_all()
      ->expected(1)
      ->check(CLI::IsMember({"read", "start", "approve", "work", "admin"}));
  app.add_option("--expires", a.expires, "it is valid for so long; else until it is removed")->type_name("D");
}

void for_audit(CLI::App& app, Arguments& a) {
  app.add_option("WHAT", a.action, "verify")->required()->type_name("")->check(CLI::IsMember({"verify"}));
  app.add_option("--head", a.head, "a head that the log has: the chain must still go through it")->type_name("ID:HASH");
}

void for_drain(CLI::App& app, Arguments& a) { app.add_flag("--off", a.off, "claim runs and tasks again"); }

}  // namespace bide::cli
