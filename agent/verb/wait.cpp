// bide wait approval | question | signal, and bide sleep: one request that stays open until the answer is there.
#include "agent/base/json.h"
#include "agent/base/random.h"
#include "agent/verb/verbs.h"

namespace bide::verb {
namespace {

using Takes = Flag::Takes;

constexpr Flag kApproval[] = {{"--name"},
                              {"--key"},
                              {"--timeout"},
                              {"--default"},
                              {"--quorum"},
                              {"--data"},
                              {"--branch"},
                              {"--not-initiator", Takes::nothing},
                              {"--json", Takes::nothing},
                              {"--try", Takes::nothing}};
constexpr Flag kQuestion[] = {{"--name"},
                              {"--key"},
                              {"--timeout"},
                              {"--default"},
                              {"--option", Takes::many},
                              {"--schema"},
                              {"--data"},
                              {"--branch"},
                              {"--json", Takes::nothing},
                              {"--try", Takes::nothing}};
constexpr Flag kSignal[] = {
    {"--key"}, {"--timeout"}, {"--branch"}, {"--json", Takes::nothing}, {"--try", Takes::nothing}};
constexpr Flag kAny[] = {{"--approval", Takes::many},
                         {"--question", Takes::many},
                         {"--signal", Takes::many},
                         {"--timer"},
                         {"--name"},
                         {"--key"},
                         {"--branch"},
                         {"--try", Takes::nothing}};
constexpr Flag kSleep[] = {{"--until"}, {"--key"}, {"--name"}, {"--branch"}};
constexpr std::int64_t kLargestQuorum = 1'000;

struct Asked {
  std::string kind;
  std::string name;
  std::string request;                    // JSON: what the hash covers
  std::optional<std::string> by_default;  // JSON
};

std::string body_of(const Asked& asked, const Arguments& arguments) {
  json::Writer out;
  out.begin_object().member("branch", branch_of(arguments)).member("kind", asked.kind).member("name", asked.name);
  out.member("key", arguments.value("--key").value_or("")).member_raw("request", asked.request);
  out.member("timeout_ms", arguments.duration("--timeout"));
  if (asked.by_default) out.member_raw("default", *asked.by_default);
  out.member("try", arguments.has("--try")).member("verb", SystemRandom().uid());
  return out.end_object().take();
}

int ask(const Attempt& attempt, const Asked& asked, const Arguments& arguments) {
  const std::string reply = attempt.post("waits", body_of(asked, arguments));
  const std::string outcome = json::string_member(reply, "outcome").value_or("");
  const std::string result = json::member(reply, "result").value_or("null");
  int code = 0;
  if (outcome == "denied") code = kDenied;
  if (outcome == "changes_requested") code = kChangesRequested;
  if (outcome == "expired" && !asked.by_default) code = kExpired;
  // Without --try these are answered by the end of the run; a program must not go on past one in any case [V1].
  if (code != 0 && !arguments.has("--try")) attempt.end_run("Denied", "wait " + asked.name + " was " + outcome);
  if (asked.kind == "timer") return code;
  print((arguments.has("--json") ? result : plain(result)) + "\n");
  return code;
}

const std::string& only_word(const Arguments& arguments, const std::string& verb, const std::string& what) {
  if (arguments.has_command) throw Misuse{verb + " runs no command: what stands after -- belongs to bide step"};
  if (arguments.words.size() != 1 || arguments.words[0].empty()) {
    throw Misuse{verb + " takes one " + what + " and has " + std::to_string(arguments.words.size()) +
                 ": put it in quotes, as in: " + verb + " \"" + what + "\""};
  }
  return arguments.words[0];
}

void add_data(json::Writer& request, const Arguments& arguments) {
  if (const auto data = arguments.json("--data")) request.member_raw("data", *data);
}

int approval(const Attempt& attempt, std::span<char*> argv) {
  const auto arguments = parse_arguments(argv, kApproval);
  json::Writer request;
  request.begin_object().member("text", only_word(arguments, "bide wait approval", "text"));
  if (const auto quorum = arguments.number("--quorum", kLargestQuorum)) {
    if (*quorum == 0) throw Misuse{"--quorum is at least 1"};
    request.member("quorum", *quorum);
  }
  if (arguments.has("--not-initiator")) request.member("policy", "not_initiator");
  add_data(request, arguments);
  Asked asked{"approval", arguments.value("--name").value_or("approval"), request.end_object().take(), {}};
  if (const auto text = arguments.one_of("--default", {"approved", "denied"})) asked.by_default = json::quote(*text);
  return ask(attempt, asked, arguments);
}

int question(const Attempt& attempt, std::span<char*> argv) {
  const auto arguments = parse_arguments(argv, kQuestion);
  json::Writer request;
  request.begin_object().member("text", only_word(arguments, "bide wait question", "text"));
  if (arguments.has("--option")) {
    request.key("options").begin_array();
    for (const auto& option : arguments.all("--option")) request.string(option);
    request.end_array();
  }
  if (const auto path = arguments.value("--schema")) {
    const std::string schema = read_document_file(*path);
    if (const auto refused = json::check(schema)) throw Misuse{"--schema " + *path + " is no JSON: " + refused->why};
    request.member_raw("schema", schema);
  }
  add_data(request, arguments);
  return ask(attempt,
             {"question", arguments.value("--name").value_or("question"), request.end_object().take(),
              arguments.json("--default")},
             arguments);
}

int signal(const Attempt& attempt, std::span<char*> argv) {
  const auto arguments = parse_arguments(argv, kSignal);
  return ask(attempt, {"signal", only_word(arguments, "bide wait signal", "name"), "{}", {}}, arguments);
}

// Names of a group differ: the second approval is "approval-2". A signal has its own.
std::string numbered(const std::string& kind, std::size_t index) {
  return index == 0 ? kind : kind + "-" + std::to_string(index + 1);
}

void add_alternative(json::Writer& out, const std::string& kind, const std::string& name, const std::string& request) {
  out.begin_object().member("kind", kind).member("name", name).member_raw("request", request).end_object();
}

void add_texts(json::Writer& out, const Arguments& arguments, const std::string& kind) {
  const auto texts = arguments.all("--" + kind);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) throw Misuse{"bide wait any: --" + kind + " needs a text"};
    add_alternative(out, kind, numbered(kind, i),
                    json::Writer().begin_object().member("text", texts[i]).end_object().take());
  }
}

// The order among them is fixed: where several have their answer already, the first of these wins [A10].
int any(const Attempt& attempt, std::span<char*> argv) {
  const auto arguments = parse_arguments(argv, kAny);
  if (!arguments.words.empty() || arguments.has_command ||
      !(arguments.has("--approval") || arguments.has("--question") || arguments.has("--signal") ||
        arguments.has("--timer"))) {
    throw Misuse{
        "bide wait any takes flags only, one at least: --approval TEXT, --question TEXT, --signal NAME, --timer 1h"};
  }
  json::Writer out;
  out.begin_object().member("branch", branch_of(arguments)).member("name", arguments.value("--name").value_or("any"));
  out.member("key", arguments.value("--key").value_or("")).member("try", arguments.has("--try"));
  out.member("verb", SystemRandom().uid()).key("alternatives").begin_array();
  add_texts(out, arguments, "approval");
  add_texts(out, arguments, "question");
  for (const auto& name : arguments.all("--signal")) add_alternative(out, "signal", name, "{}");
  if (const auto length = arguments.duration("--timer"))
    add_alternative(out, "timer", "timer",
                    json::Writer().begin_object().member("sleep_ms", *length).end_object().take());
  const std::string reply = attempt.post("waits/any", out.end_array().end_object().take());
  const std::string outcome = json::string_member(reply, "outcome").value_or("");
  const int code = outcome == "denied" ? kDenied : outcome == "changes_requested" ? kChangesRequested : 0;
  if (code != 0 && !arguments.has("--try")) attempt.end_run("Denied", "bide wait any was " + outcome);
  print(json::member(reply, "result").value_or("null") + "\n");
  return code;
}

}  // namespace

int verb_wait(const Attempt& attempt, std::span<char*> argv) {
  const std::string_view kind = argv.empty() ? "" : argv[0];
  if (kind == "approval") return approval(attempt, argv.subspan(1));
  if (kind == "question") return question(attempt, argv.subspan(1));
  if (kind == "signal") return signal(attempt, argv.subspan(1));
  if (kind == "any") return any(attempt, argv.subspan(1));
  throw Misuse{"bide wait " + std::string(kind) +
               ": it is bide wait approval TEXT, bide wait question TEXT, bide wait signal NAME, or "
               "bide wait any --approval TEXT --signal NAME --timer 1h"};
}

int verb_sleep(const Attempt& attempt, std::span<char*> argv) {
  const auto arguments = parse_arguments(argv, kSleep);
  json::Writer request;
  request.begin_object();
  if (const auto until = arguments.value("--until")) {
    if (!arguments.words.empty()) throw Misuse{"bide sleep: a length or --until, not both"};
    if (!parse_time(*until)) throw Misuse{"--until " + *until + " is no time: write it as 2027-01-31T08:00:00Z"};
    request.member("until", *until);
  } else {
    const std::string& text = only_word(arguments, "bide sleep", "length");
    const auto length = parse_duration(text);
    if (!length) throw Misuse{"bide sleep " + text + ": write the length as 250ms, 10s, 1h30m or 2d"};
    request.member("sleep_ms", *length);
  }
  return ask(attempt, {"timer", arguments.value("--name").value_or("timer"), request.end_object().take(), {}},
             arguments);
}

}  // namespace bide::verb
