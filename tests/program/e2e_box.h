// Box: a whole agent (`bide serve`) with its own folders, and what a test does with it: programs are written, runs
// started, people decide, the agent is killed and started again. Effects are counted in files outside of it: a program
// finds their folder as $OUT (set in its first lines, not exported) and adds a line to a file there.
// One thread. A failed call of the command line fails the test case. Nothing of a box outlives it.
#pragma once

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace bide::test {

using Json = nlohmann::json;

class Box {
 public:
  // `executable`: another `bide` than the one just built; `workflows`: another folder than the box's own.
  explicit Box(std::string executable = BIDE_EXECUTABLE, std::string workflows = "");
  ~Box();

  // A shell program: `set -eu` comes first, unless its flags are given. TAG in it stands for this box's tag.
  void program(const std::string& name, const std::string& body, const std::string& flags = "set -eu");
  void python(const std::string& name, const std::string& body);

  void serve();       // returns when it answers
  void kill_agent();  // SIGKILL
  void kill_all();    // … to whatever of an attempt lives, holders too
  void stop_agent();  // SIGTERM, and its clean end
  void restart() {
    kill_agent();
    serve();
  }
  Process& agent() { return *agent_; }

  Finished bide(std::vector<std::string> words, const std::string& input = {}) const;
  Json json(std::vector<std::string> words) const;  // with --json
  std::string start(const std::string& workflow, const std::string& input = "{}") const;
  Json show(const std::string& run) const { return json({"show", run}); }
  std::string status(const std::string& run) const { return show(run)["status"]; }
  // Waits until the run has this status; the failure shows the run and its log.
  Json comes_to(const std::string& run, const std::string& status) const;
  // Suspended: the run waits, and no process of an attempt is left.
  void suspended(const std::string& run) const;
  // Failed with this code; gives the whole error.
  Json fails(const std::string& run, const std::string& code) const;
  std::string wait_of(const std::string& run, const std::string& kind = "") const;  // its number, once it is open
  void decide(const std::string& run, const std::string& decision) const;           // approve | deny
  Json sql(const std::string& query) const;                                         // the rows

  std::string out(const std::string& name) const { return dir_.str("out/" + name); }
  std::string text(const std::string& name) const { return read_file(out(name)); }
  int lines(const std::string& name) const;  // how often an effect happened
  void touch(const std::string& name) const { write_file(out(name), ""); }
  std::string socket() const { return dir_.str("s"); }
  std::string data() const { return dir_.str("data"); }
  std::string flows() const { return dir_.str("flows"); }
  const std::string& tag() const { return tag_; }
  // Processes of attempts of this box, and those whose command line holds its tag.
  std::vector<std::string> left() const;
  void nothing_left() const;  // soon

 private:
  std::vector<std::pair<std::string, std::string>> environment() const;
  void executable_file(const std::string& path, const std::string& content) const;
  TempDir dir_;
  const std::string executable_;
  const std::string workflows_;
  const std::string tag_;
  std::optional<Process> agent_;
};

}  // namespace bide::test
