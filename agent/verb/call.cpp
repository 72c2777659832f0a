// bide call: another workflow as a child of this run [A11]. bide continue-as-new: this run goes on as a new one [X7].
#include "agent/base/json.h"
#include "agent/base/random.h"
#include "agent/verb/verbs.h"

namespace bide::verb {
namespace {

using Takes = Flag::Takes;

// With --try: why the child did not complete, as `bide run --wait` says it.
int code_of(std::string_view error) {
  const std::string code = json::string_member(error, "code").value_or("");
  if (code == "Denied") return kDenied;
  if (code == "ChangesRequested") return kChangesRequested;
  if (code == "Expired") return kExpired;
  return code == "Cancelled" ? kCancelled : 1;
}

void no_command(const Arguments& arguments, const std::string& verb) {
  if (arguments.has_command) throw Misuse{verb + " runs no command: what stands after -- belongs to bide step"};
}

}  // namespace

int verb_call(const Attempt& attempt, std::span<char*> argv) {
  static constexpr Flag kFlags[] = {
      {"--input"}, {"--name"}, {"--key"}, {"--branch"}, {"--json", Takes::nothing}, {"--try", Takes::nothing}};
  const auto arguments = parse_arguments(argv, kFlags);
  no_command(arguments, "bide call");
  if (arguments.words.size() != 1 || arguments.words[0].empty())
    throw Misuse{"bide call takes one workflow, as in: bide call check --input '{\"host\":\"a\"}'"};
  const std::string& workflow = arguments.words[0];
  json::Writer out;
  out.begin_object().member("branch", branch_of(arguments));
  out.member("name", arguments.value("--name").value_or(workflow)).member("workflow", workflow);
  out.member("key", arguments.value("--key").value_or(""));
  out.member_raw("input", document_of(arguments, "--input").value_or("{}")).member("try", arguments.has("--try"));
  const std::string reply = attempt.post("calls", out.member("verb", SystemRandom().uid()).end_object().take());
  const auto say = [&](const std::string& result) { print((arguments.has("--json") ? result : plain(result)) + "\n"); };
  if (json::string_member(reply, "state") == "settled") {
    say(json::member(reply, "result").value_or("null"));
    return 0;
  }
  const std::string error = json::member(reply, "error").value_or("{}");
  if (!arguments.has("--try")) attempt.end_run("ChildFailed", "call of " + workflow + " failed: " + error);
  say(error);
  return code_of(error);
}

int verb_continue_as_new(const Attempt& attempt, std::span<char*> argv) {
  static constexpr Flag kFlags[] = {{"--input"}};
  const auto arguments = parse_arguments(argv, kFlags);
  no_command(arguments, "bide continue-as-new");
  if (!arguments.words.empty())
    throw Misuse{"bide continue-as-new takes no words, only --input JSON: the same workflow begins anew with it"};
  json::Writer out;
  out.begin_object();
  if (const auto input = document_of(arguments, "--input")) out.member_raw("input", *input);
  (void)attempt.post("continue", out.end_object().take());
  Attempt::stay();
}

}  // namespace bide::verb
