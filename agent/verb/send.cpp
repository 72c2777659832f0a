// bide send: a message through the outbox, in the journal. The run does not wait for its delivery.
#include "agent/base/destination.h"
#include "agent/base/json.h"
#include "agent/base/random.h"
#include "agent/verb/verbs.h"

namespace bide::verb {

int verb_send(const Attempt& attempt, std::span<char*> argv) {
  static constexpr Flag kFlags[] = {{"--data"}, {"--name"}, {"--key"}, {"--branch"}};
  const auto arguments = parse_arguments(argv, kFlags);
  if (arguments.words.size() != 1) throw Misuse{"bide send takes one URL, as in: bide send https://… --data JSON"};
  const std::string& url = arguments.words[0];
  if (const auto wrong = wrong_destination(url)) throw Misuse{"bide send: " + *wrong};
  json::Writer out;
  out.begin_object().member("branch", branch_of(arguments)).member("name", arguments.value("--name").value_or("send"));
  out.member("key", arguments.value("--key").value_or("")).member("url", url);
  out.member_raw("data", document_of(arguments, "--data").value_or("{}")).member("verb", SystemRandom().uid());
  (void)attempt.post("messages", out.end_object().take());
  return 0;
}

}  // namespace bide::verb
