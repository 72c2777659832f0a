#include "agent/verb/help.h"

#include <algorithm>
#include <iterator>

namespace bide::verb {
namespace {

struct Help {
  std::string_view verb;
  std::string_view text;
};

constexpr std::string_view kPlace = R"(
Where it stands in the journal:
  --key K                   tells the items of a loop apart; the same in every attempt
  --branch B                else BIDE_BRANCH, which children inherit
)";

constexpr Help kHelp[] = {
    {"step", R"(run a command once, and print its recorded output at every replay
Usage: bide step [NAME] [OPTIONS] -- COMMAND [ARGUMENT…]

What it does to the world:
  --effect E                pure | idempotent | non_idempotent (the default): what may be run again after a crash
  --probe CMD               asked after a crash: 0 it ran (stdout is the result), 100 it did not run, else it cannot
                            tell. By sh -u, in the folder of the step, with what the script exports
  --probe-absent N          another code than 100
  --assume JSON             the result if a person says that it ran; else {"assumed":true}
If it fails:
  --retries N               tries after the first one; the same entry and key
  --backoff D               between two tries; else 1s, doubling, at most 5 min
  --no-retry-on LIST        exit codes that another try would only repeat, as in 2,75
  --timeout D               ends it with all its processes
  --on-timeout fail         a non_idempotent one that was ended counts as failed, else it is in doubt
  --try                     hand a final failure to the script: the command's code, 124 for a timeout
If the run ends failed or cancelled:
  --compensate CMD          takes the step back, by sh -u, in this folder; its stdout is in the file $BIDE_RESULT. Those
                            of completed steps run last first; one must bear to be run again (BIDE_IDEMPOTENCY_KEY)
  --export NAME             a variable that CMD gets as it is now; may be given several times
Secrets, which the manifest names (secrets = ["TOKEN"]; all are files in $BIDE_SECRETS):
  --secret NAME             in the environment of this command alone; never in its arguments
  --secret-result           what it prints is one: the journal does not keep it, and the command runs again in each
                            attempt; for pure and idempotent ones
Its stdin:
  --stdin                   read whole, part of the request
  --no-stdin                /dev/null
Its stdout:
  --max-output S            more than S (512K, 5M, 1G, the most and what holds without it) is a failure. What is over
                            1 MiB lies in a file of the agent, with its hash in the journal

Examples:
  bide step fetch --effect idempotent --retries 3 -- curl -fsS https://example.org/f
  bide step rent --export h --compensate 'give-back "$h"' -- rent "$h"
  export order; bide step pay --key "$order" --probe 'paid "$order"' -- pay "$order"
)"},
    {"each", R"(a step for each line of a list; what is done already is printed again without a process
Usage: bide each [NAME] --key-from FILE|- [-P N] [OPTIONS of bide step] -- COMMAND [ARGUMENT…]

Each line is the step's key, and stands for {} in the command. -P runs so many at once; their outputs are printed in
the list's order. An item that finally fails ends the run. --key, --stdin and --try are not for a list.
  --branch B                else BIDE_BRANCH, which children inherit

Examples:
  ls in > list; bide each convert --key-from list -P 4 --effect idempotent -- convert in/{} out/{}.png
)"},
    {"wait", R"(wait for a person, a signal, or the first of several: hours or days, no process is kept
Usage: bide wait approval TEXT [--name N] [--timeout D] [--default approved|denied] [--quorum N]
                               [--not-initiator] [--data JSON] [--json] [--try]
       bide wait question TEXT [--name N] [--option A …] [--schema FILE] [--timeout D] [--default JSON]
                               [--data JSON] [--json] [--try]
       bide wait signal NAME [--timeout D] [--json] [--try]
       bide wait any [--approval TEXT …] [--question TEXT …] [--signal NAME …] [--timer D] [--name N] [--try]

approval prints the decision as JSON, question the answer (a string raw, else JSON), signal its payload,
any {"won":NAME,"value":…}: the first that is settled, the others are closed with it. A second approval of a
group is called approval-2; a timer is the deadline of all.
Denied, changes requested and expired end the run, or with --try are the codes 10, 11 and 12.

Examples:
  bide wait approval "Install $sum?" --timeout 2d
  keep=$(bide wait question 'Which one?' --option old --option new)
  bide wait any --approval 'Ship it?' --signal stop --timer 1h
)"},
    {"sleep", R"(sleep for a time; no process is kept
Usage: bide sleep LENGTH | bide sleep --until TIME [--name N]

Examples:
  bide sleep 1h30m
  bide sleep --until 2027-01-31T08:00:00Z
)"},
    {"call", R"(run another workflow as a child of this run, and print its result
Usage: bide call WORKFLOW [--input JSON|@FILE|-] [--name N] [--json] [--try]

A child that does not complete ends this run with its code; with --try its error is printed, and the code is 1,
7 cancelled, 10 denied, 11 changes requested or 12 expired. A run that ends failed or cancelled cancels its children.

Examples:
  sum=$(bide call measure --input "{\"host\": \"$h\"}" --key "$h")
)"},
    {"send", R"(send a message through the outbox: it leaves after its commit, again and again under one key
Usage: bide send URL [--data JSON|@FILE|-] [--name N]

The run does not wait for the delivery; bide outbox shows what has not gone out.
mqtt://HOST/TOPIC and mqtts://HOST/TOPIC go to a broker: delivered when it has acknowledged (QoS 1).

Examples:
  bide send https://example.org/hook --data '{"done": true}'
  bide send mqtts://broker.example/fleet/box-17 --data '{"done": true}'
)"},
    {"value", R"(a value that is the same at every replay
Usage: bide value now | uuid | random | tmpdir

tmpdir is a folder in the workspace: the same path in every attempt, with what earlier ones left in it.
)"},
    {"state", R"(what the run says of itself: others see it with bide show, each change is an event
Usage: bide state set NAME VALUE [--json]
       bide state get NAME [--default V] [--json]

VALUE is a text, or JSON with --json. get prints what this run has set so far: a branch its own, else the main
branch's; the main branch the last of all.

Examples:
  bide state set phase copying
  n=$(bide state get n --default 0)
)"},
    {"continue-as-new",
     R"(end this run completed, and begin a new one of the same workflow: a loop keeps a short journal
Usage: bide continue-as-new [--input JSON|@FILE|-]

Does not return. Without --input the new run has the same input. Unread signals go along.

Examples:
  bide continue-as-new --input "{\"n\": $((n + 1))}"
)"},
    {"input", R"(the run's input, or a part of it
Usage: bide input [NAME | /a/pointer | .a.path] [--default V] [--json]

Examples:
  url=$(bide input url)
  bide input /hosts/0
)"},
    {"result", R"(the run's result; the last one wins
Usage: bide result NAME=TEXT NAME:=JSON NAME:=@FILE …
       bide result JSON | bide result --text TEXT | bide result -

Examples:
  bide result installed="$sum" files:=3 list:=@list.json
)"},
    {"progress", R"(say how far it is, for those who watch; not in the journal
Usage: bide progress [PERCENT] [TEXT]

Examples:
  bide progress 40 "copying"
)"},
};

}  // namespace

std::string_view help_of(std::string_view verb) {
  const auto found =
      std::find_if(std::begin(kHelp), std::end(kHelp), [&](const Help& help) { return help.verb == verb; });
  return found == std::end(kHelp) ? std::string_view() : found->text;
}

std::string_view place_help(std::string_view verb) {
  return verb == "input" || verb == "result" || verb == "progress" || verb == "continue-as-new" || verb == "each"
             ? std::string_view()
             : kPlace;
}

}  // namespace bide::verb
