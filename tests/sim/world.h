// World: one seed's life of an agent, its users, its disk and its clocks. run() plays it to its end and reports; the
// same seed plays the same life.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/chance.h"
#include "tests/sim/fibers.h"
#include "tests/sim/ledger.h"
#include "tests/sim/process.h"
#include "tests/sim/programs.h"

namespace bide::sim {

struct WorldOptions {
  std::uint64_t seed = 1;
  int hours = 24;          // virtual
  std::int64_t acts = -1;  // mishaps and operators come to an end after so many acts; -1: with the hours
  std::string directory;   // real, kept from seed to seed
  std::string disk_name;   // of the VFS: one a thread
  std::string empty_file;  // a freshly migrated bide.db
  std::string keep_in;     // the file is copied there at the end, or when something was violated
  bool tell = false;       // each act on stderr
};

struct Report {
  std::optional<Violation> violation;
  std::int64_t acts = 0;
  std::string digest;
  Counts counts;
};

[[nodiscard]] flow::ApprovalOptions approval_of(const Op& op);
[[nodiscard]] flow::QuestionOptions question_of(const Op& op);

class World {
 public:
  explicit World(WorldOptions options);
  ~World();
  Report run();

 private:
  friend class ProgramDouble;
  // An attempt that is in the code. One that ends with its process stays in the table: it was interrupted.
  struct Driven {
    Driven(std::map<std::int64_t, int>& all, RunId id, const Process& in) : runs(all), run(id.value), process(in) {
      ++runs[run];
    }
    ~Driven() {
      if (!process.dead()) --runs[run];
    }
    Driven(const Driven&) = delete;
    Driven& operator=(const Driven&) = delete;
    std::map<std::int64_t, int>& runs;
    const std::int64_t run;
    const Process& process;
  };

  // world.cpp: time, and what happens in it
  void act();
  void next_moment();
  void live();
  void bring_to_an_end();
  void start_process();
  void crash();
  void mishap();
  void step_clock();
  void fill_disk();
  void free_disk();
  void tell(const std::string& what);
  void say(const std::string& what) {
    if (options_.tell) tell(what);
  }

  // outside.cpp: what the workflows' code does
  std::string code(flow::Context& context);
  void play(flow::Context& context, const std::vector<Op>& ops);
  void play_one(flow::Context& context, const Op& op);
  std::string play_step(flow::Context& context, const Op& op);
  void check_gave_up(RunId run, const Op& op);
  void check_result(RunId run, const Op& op, const std::string& result);
  std::string execute(RunId run, const Op& op, const flow::EffectInfo& info);
  flow::ProbeAnswer probe(RunId run, const Op& op);
  [[nodiscard]] bool is_fork(RunId run);
  [[nodiscard]] bool is_copied(RunId run, const Op& op);
  void check_answer(RunId run, const std::string& wait, const std::string& result);

  // company.cpp: children, messages, tasks, races, and what takes steps back
  void play_call(flow::Context& context, const Op& op);
  void play_message(flow::Context& context, const Op& op);
  void play_first_of(flow::Context& context, const Op& op);
  void play_task(flow::Context& context, const Op& op);
  std::string task(const std::string& request, const flow::EffectInfo& info);
  std::string undo(const flow::UndoInfo& info);
  work::Answered receive(const work::Envelope& envelope);
  void check_undone(db::ReadTx& tx);
  void check_delivered(db::ReadTx& tx);
  static void check_continued(db::ReadTx& tx);

  // programs.cpp: runs that are programs, and the processes outside
  [[nodiscard]] std::optional<TimeMs> holders_next() const;
  void move_holders();
  [[nodiscard]] kernel::Taken take(RunId run, std::int64_t step, const std::string& nonce,
                                   const kernel::HeldOutcome& outcome);
  void hand_in(const std::string& nonce);
  void kill_holder(Holder& holder);
  void kill_some_holder();
  void lose_programs(bool machine);
  [[nodiscard]] bool holders_are_gone() const;
  [[nodiscard]] bool could_tell(RunId run, const Op& op) const;
  [[nodiscard]] static std::string answered(flow::Attempt& attempt, flow::Outcome outcome);
  [[nodiscard]] std::string program_step(flow::Attempt& attempt, const Op& op, const std::string& branch);
  void let_go(Holder& holder, const std::string& key);
  void play_program(flow::Attempt& attempt, const std::vector<Op>& ops, const std::string& branch);
  void program_op(flow::Attempt& attempt, const Op& op, const std::string& branch);
  void program_branches(flow::Attempt& attempt, const Op& op, const std::string& branch);
  [[nodiscard]] int program(flow::Attempt& attempt);  // its exit code
  void conclude(flow::Attempt& attempt, std::optional<int> exit, bool crashed);
  void check_alone(RunId run);
  [[nodiscard]] bool look_at_dead(RunId run, std::int64_t step, const std::string& nonce);
  void end_holder(const std::string& nonce);

  // operators.cpp: people and apps
  void operate();
  void operate_once();
  void start_run();
  void decide(bool truly);
  void answer_doubt(const kernel::WaitRow& wait);
  void send_signal(bool wanted);
  void cancel();
  void retry();
  void may_begin_anew(std::int64_t run);
  void pause();
  void fork_some_run();
  void resume_all();
  void again();
  std::vector<RunId> live_runs();
  std::optional<work::Answer> told(const std::variant<work::Answer, Problem>& answer);

  // invariants.cpp
  void check();        // cheap: after every act
  void check_whole();  // all rows
  void check_rules();
  void check_steps_at_work();
  void check_end();
  void compare_rows();

  const WorldOptions options_;
  Chance chance_;        // the world's
  Chance agent_chance_;  // the agent's
  test::FakeClock clock_;
  test::VfsShim disk_;
  Fibers fibers_;
  Ledger ledger_;
  std::unique_ptr<ProgramDouble> programs_;
  std::map<std::string, Holder> holders_;  // by nonce, for ever
  std::map<int, Guard> guards_;            // by pid
  int last_pid_ = 1'000;
  std::unique_ptr<Process> process_;

  std::int64_t acts_ = 0;
  TimeMs true_ = 0;  // real time since the world began: no clock shows it
  BootMs boot_base_ = 0;
  TimeMs wall_base_ = 0;
  TimeMs end_ = 0;
  int generation_ = 0;
  int started_ = 0;
  TimeMs operator_at_ = 0;
  TimeMs mishap_at_ = 0;
  bool faults_ = true;
  TimeMs full_until_ = 0;  // 0: the disk has room
  [[nodiscard]] bool cramped() const;
  std::map<std::int64_t, int> driven_;                       // runs whose code is being executed
  std::map<std::pair<std::int64_t, int>, TimeMs> asked_at_;  // true time of a sleep's first asking
  std::int64_t clock_jumps_ = 0;

  struct Command {  // the last one with an Idempotency-Key, and its answer
    kernel::CommandKey key;
    RunId run;
    std::string name, payload;
    std::optional<std::string> answer;
  };
  std::optional<Command> last_command_;

  // The file as it was looked at last: what is settled stays as it is.
  struct RunSeen {
    std::string status;
    std::int64_t epoch = 0;
    std::string end;
  };
  std::map<std::int64_t, RunSeen> runs_seen_;
  std::map<std::int64_t, std::string> steps_seen_;
  std::map<std::int64_t, std::string> waits_seen_;
  std::int64_t events_seen_ = 0;
  std::int64_t events_checked_ = 0;
};

}  // namespace bide::sim
