// Rehearsal (a port): whoever tries a program out sees its attempts from here, and says where they end. No part of an
// agent that does work for somebody. The calls come from any thread and may take their time: the verb that is about to
// be answered waits meanwhile, so a program without branches stands still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/ids.h"
#include "agent/kernel/states.h"

namespace bide::flow {

class Rehearsal {
 public:
  virtual ~Rehearsal() = default;

  struct Answering {
    RunId run;
    std::int64_t epoch = 0;
    std::size_t settled = 0;  // entries of the journal
    bool recorded = false;    // one of them was not when this attempt last answered a verb
    // The last entry, by its number, that this attempt has asked for.
    std::int64_t seq = 0;
    kernel::StepKind kind = kernel::StepKind::step;
    std::string name;
  };
  static constexpr std::string_view kGoesOn = "GoesOn";

  // A verb is about to be answered. True: the attempt ends here instead, killed, and the run is driven anew.
  [[nodiscard]] virtual bool ends_at(const Answering& answering) = 0;
  // The program is only replayed: a verb that would do something new, or wait, ends the run with the code GoesOn.
  [[nodiscard]] virtual bool only_replays() const { return false; }
  // All of the attempt waits. True: it is not suspended, time may pass.
  [[nodiscard]] virtual bool stands_still(RunId run) = 0;
  // The program has come to its end by itself, with code 0. True: that is forgotten, and the run is driven anew.
  [[nodiscard]] virtual bool ends_again(RunId run) = 0;
  // The result (JSON) of a step whose command is not run; nullopt: it is run.
  [[nodiscard]] virtual std::optional<std::string> stub_of(std::string_view step) = 0;
};

}  // namespace bide::flow
