// Steps whose effect is in doubt, timed out or ended by a signal, in real shells under a whole agent [E1, E5, E7].
#include <catch2/catch.hpp>

#include "tests/program/e2e_box.h"

namespace bide::test {

using namespace std::chrono_literals;

TEST_CASE("[N110] e2e: a probe that exits with 1 asks a person, 100 runs the step, 0 is its result") {
  Box box;
  for (const std::string code : {"0", "1", "100"}) {
    box.program("doubt" + code, "r=$(bide step pay --probe 'echo probed >> " + box.out("probed" + code) +
                                    "; echo known; exit " + code + "' -- sh -c 'echo paid >> \"$1\"/paid" + code +
                                    "; until [ -e \"$1\"/go ]; do sleep 0.02; done; echo fresh' pay $OUT)\n"
                                    "bide result got=\"$r\"\n");
  }
  const std::string zero = box.start("doubt0");
  const std::string one = box.start("doubt1");
  const std::string hundred = box.start("doubt100");
  eventually([&] { return box.lines("paid0") == 1 && box.lines("paid1") == 1 && box.lines("paid100") == 1; },
             "all three effects have begun");
  box.kill_all();
  box.touch("go");
  box.serve();
  CHECK(box.comes_to(zero, "completed")["result"] == Json{{"got", "known"}});
  CHECK(box.comes_to(hundred, "completed")["result"] == Json{{"got", "fresh"}});
  const std::string question = box.wait_of(one, "reconcile");
  box.suspended(one);
  CHECK(box.lines("paid0") == 1);
  CHECK(box.lines("paid1") == 1);
  CHECK(box.lines("paid100") == 2);
  for (const char* probed : {"probed0", "probed1", "probed100"}) CHECK(box.lines(probed) == 1);
  CHECK(box.bide({"answer", question, "ran", "--result", "\"by hand\""}).exit.code == 0);
  CHECK(box.comes_to(one, "completed")["result"] == Json{{"got", "by hand"}});
  CHECK(box.lines("paid1") == 1);
}

TEST_CASE("[N110] e2e: a probe that names what the script has not exported cannot tell: a person is asked") {
  Box box;
  // Without `sh -u` it looks for nothing, finds nothing, and the order is paid twice.
  const std::string pay =
      "bide step pay --probe 'grep -q \"order-$id\" \"$ledger\" && exit 0; exit 100' -- sh -c 'echo order-7 >> "
      "\"$1\"; until [ -e \"$2\"/go ]; do sleep 0.02; done' pay \"$ledger\" $OUT\nbide result done=1\n";
  box.program("unset", "id=7; ledger=$OUT/unset\n" + pay);
  box.program("exported", "id=7; ledger=$OUT/exported; export id ledger\n" + pay);
  const std::string unset = box.start("unset");
  const std::string exported = box.start("exported");
  eventually([&] { return box.lines("unset") == 1 && box.lines("exported") == 1; }, "both effects have begun");
  box.kill_all();
  box.touch("go");
  box.serve();
  (void)box.comes_to(exported, "completed");
  const std::string question = box.wait_of(unset, "reconcile");
  CHECK(box.lines("unset") == 1);
  CHECK(box.lines("exported") == 1);
  CHECK(box.bide({"answer", question, "ran"}).exit.code == 0);
  (void)box.comes_to(unset, "completed");
  CHECK(box.lines("unset") == 1);
}

TEST_CASE("[N123] e2e: a command that a signal ended has no outcome, by effect class [E7]") {
  Box box;
  for (const std::string signal : {"KILL", "SEGV"}) {
    for (const std::string effect : {"pure", "idempotent", "non_idempotent"}) {
      const std::string name = effect + signal;
      // The first execution dies, a second would not.
      box.program(name, "bide step die --effect " + effect +
                            (effect == "non_idempotent" ? "" : " --retries 1 --backoff 10ms") +
                            " -- sh -c 'echo x >> \"$1\"; [ $(wc -l < \"$1\") -gt 1 ] || kill -" + signal +
                            " $$' die $OUT/" + name + "\nbide result done:=true\n");
    }
  }
  for (const std::string signal : {"KILL", "SEGV"}) {
    for (const std::string effect : {"pure", "idempotent"}) {
      INFO(effect << " " << signal);
      box.comes_to(box.start(effect + signal), "completed");
      CHECK(box.lines(effect + signal) == 2);
    }
    const std::string run = box.start("non_idempotent" + signal);
    const std::string question = box.wait_of(run, "reconcile");
    box.suspended(run);
    CHECK(box.lines("non_idempotent" + signal) == 1);
    CHECK(box.bide({"answer", question, "run"}).exit.code == 0);
    box.comes_to(run, "completed");
    CHECK(box.lines("non_idempotent" + signal) == 2);
  }
}

TEST_CASE("[N123] e2e: a command that ends with an error after our TERM has no outcome, by effect class [E7, X2]") {
  Box box;
  const std::vector<std::string> effects = {"pure", "idempotent", "non_idempotent"};
  // It ends by itself when it is told to, with a code of its own: that is not the step's failure. One that ends well
  // has an outcome.
  const auto command = [](const std::string& name, const std::string& code) {
    return " -- sh -c 'trap \"echo told >> $1/told" + name + "; exit " + code + "\" TERM; echo x >> \"$1\"/" + name +
           "; while :; do sleep 0.02; done' run $OUT\n";
  };
  for (const auto& effect : effects) {
    box.program(effect, "bide step run --effect " + effect + command(effect, "3"));
    box.program("well" + effect, "bide step run --effect " + effect + command("well" + effect, "0"));
  }
  box.program("alone", "bide step run --effect pure -- sh -c 'exit 3'\n");
  for (const auto& effect : effects) {
    INFO(effect);
    const std::string run = box.start(effect);
    const std::string well = box.start("well" + effect);
    eventually([&] { return box.lines(effect) == 1 && box.lines("well" + effect) == 1; }, "both commands run");
    CHECK(box.bide({"cancel", run}).exit.code == 0);
    CHECK(box.bide({"cancel", well}).exit.code == 0);
    box.comes_to(run, "cancelled");
    box.comes_to(well, "cancelled");
    CHECK(box.lines("told" + effect) == 1);
    const Json step = box.json({"journal", run})["items"][0];
    CHECK(step["status"] == (effect == "non_idempotent" ? "needs_reconcile" : "cancelled"));
    CHECK(box.json({"journal", well})["items"][0]["status"] == "completed");
  }
  box.fails(box.start("alone"), "CommandFailed");  // what nobody signalled is a failure
}

TEST_CASE("[N27] e2e: a probe that hangs cannot tell: it is ended, and a person is asked [programs.md]") {
  Box box;
  box.program(
      "doubt",
      "r=$(bide step pay --timeout 3s --probe 'echo x >> " + box.out("probed") +
          "; sleep 300.TAG & sleep 301.TAG' -- sh -c 'echo x >> \"$1\"/paid; [ -e \"$1\"/go ] || sleep 302.TAG' "
          "pay $OUT)\nbide result got=\"$r\"\n");
  const std::string run = box.start("doubt");
  eventually([&] { return box.lines("paid") == 1; }, "the effect has begun");
  box.kill_all();
  box.serve();
  const std::string question = box.wait_of(run, "reconcile");
  box.suspended(run);  // and nothing that the probe started is left
  CHECK(box.lines("probed") == 1);
  CHECK(box.lines("paid") == 1);
  box.touch("go");
  CHECK(box.bide({"answer", question, "run"}).exit.code == 0);
  box.comes_to(run, "completed");
  CHECK(box.lines("paid") == 2);
  CHECK(box.lines("probed") == 1);
}

TEST_CASE("[N124] e2e: a timeout of each effect class, with and without --on-timeout fail [E5]") {
  Box box;
  const std::string hangs = " --timeout 300ms -- sh -c 'echo x >> \"$1\"; sleep 300.TAG & sleep 301.TAG' slow $OUT/";
  box.program("pure", "bide step slow --effect pure" + hangs + "pure || true\necho after >> $OUT/after\n");
  box.program("again", "bide step slow --effect idempotent --retries 1 --backoff 10ms" + hangs + "again\n");
  box.program("doubt", "bide step slow" + hangs + "doubt\nbide result done:=true\n");
  box.program("known", "bide step slow --on-timeout fail" + hangs + "known || true\necho after >> $OUT/after\n");
  box.program("tried", "c=0; bide step slow --try --on-timeout fail" + hangs + "tried || c=$?\nbide result code:=$c\n");
  const std::string doubt = box.start("doubt");
  const std::string pure = box.start("pure");
  const std::string again = box.start("again");
  const std::string known = box.start("known");
  box.fails(pure, "Timeout");
  box.fails(again, "Timeout");
  box.fails(known, "Timeout");
  CHECK(box.comes_to(box.start("tried"), "completed")["result"] == Json{{"code", 124}});
  const std::string question = box.wait_of(doubt, "reconcile");
  box.suspended(doubt);  // and nothing that a step started is left
  CHECK(box.lines("pure") == 1);
  CHECK(box.lines("again") == 2);
  CHECK(box.lines("known") == 1);
  CHECK(box.lines("tried") == 1);
  CHECK(box.lines("doubt") == 1);
  CHECK(box.lines("after") == 0);
  CHECK(box.bide({"answer", question, "ran"}).exit.code == 0);
  box.comes_to(doubt, "completed");
  CHECK(box.lines("doubt") == 1);
}

}  // namespace bide::test
