// EventLines: events of runs as lines for a person, and what is asked of that person now. One thread.
// `get` fetches a document of the agent by its path; what it throws goes through.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/time.h"

namespace bide::cli {

class EventLines {
 public:
  using Get = std::function<std::string(const std::string& path)>;
  using Say = std::function<void(const std::string& line)>;
  // `names_runs`: several runs are told of, and each line says of which.
  EventLines(Get get, Say say, bool names_runs) : get_(std::move(get)), say_(std::move(say)), names_runs_(names_runs) {}

  void tell(std::string_view event);
  // Tells of the steps of a run that began since the last call.
  void tell_steps(std::int64_t run);

  // An approval that was told of and is not decided yet: the latest one.
  struct Question {
    std::string wait;  // its number
    std::string asks;
    std::string etag;
  };
  [[nodiscard]] const std::optional<Question>& question() const { return question_; }

 private:
  struct Run {
    std::string workflow;
    bool started = false;
    std::int64_t seq = 0;                     // of the journal, as far as it is known
    std::map<std::int64_t, TimeMs> begun_at;  // by the step's id
  };
  void say(std::int64_t run, const std::string& line);
  Run& known(std::int64_t run);
  void tell_step(std::int64_t run, std::string_view kind, std::string_view event, std::string_view payload);
  void tell_wait(std::int64_t run, std::string_view kind, std::string_view payload);
  void tell_asked(std::int64_t run, const std::string& id, const std::string& what, const std::string& wait);
  std::string lasted(std::int64_t run, std::string_view event);
  // Steps after those that are known; `tell`: says that they began.
  void learn_steps(std::int64_t run, bool tell);

  const Get get_;
  const Say say_;
  const bool names_runs_;
  std::map<std::int64_t, Run> runs_;
  std::optional<Question> question_;
};

}  // namespace bide::cli
