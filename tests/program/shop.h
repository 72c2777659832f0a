// The examples of packaging/examples/ in a scratch agent, with stand-ins for the world outside. A gate in front of a
// command of theirs notes that it was begun and holds it until the test says go: the moment to kill something.
#pragma once

#include <string>
#include <vector>

#include "tests/program/e2e_box.h"

namespace bide::test {

struct Shop {
  Box box;

  // Copies what belongs to an example (NAME, NAME.ext, NAME.toml) into the box's workflows.
  void take(const std::string& name) const;
  // A command that comes first in the example's PATH; OUT in it stands for the folder of effects.
  void stand_in(const std::string& example, const std::string& command, const std::string& script) const;
  // `command` of the example adds a line to NAME, then waits for the file "go" and does what it does.
  void gate(const std::string& example, const std::string& command) const;
  // Waits until it was begun, and so many steps outlive the agent from here on.
  void begun(const std::string& name, int times = 1) const;
  void held(int steps) const;
  void go() const { box.touch("go"); }
  // As gate(), inside of a shell command that is part of an input.
  [[nodiscard]] std::string gated(const std::string& name, const std::string& command) const;
  // Each step of the run was executed once.
  void each_step_once(const std::string& run) const;
  [[nodiscard]] Json result(const std::string& run) const { return box.comes_to(run, "completed")["result"]; }
};

}  // namespace bide::test
