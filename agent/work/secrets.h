// Secrets: what an operator keeps for workflows, DIR/secrets/NAME (0600) or systemd's credentials, and the folders in
// which attempts find the ones that their manifest names: DIR/attempt-secrets/RUN_EPOCH, 0700, gone with the attempt.
//
// Threads: any. Failures: a secret that is not there, is too short to be found in a text or lies open to others is a
// text that says so; a folder that cannot be made throws [E8].
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/ids.h"
#include "agent/base/mutex.h"
#include "agent/base/secrets.h"

namespace bide::work {

class Secrets {
 public:
  // `credentials`: $CREDENTIALS_DIRECTORY; empty: there is none.
  Secrets(std::string data_dir, std::string credentials, Clock& clock);

  // All that are configured; at most limits::kSecretsFreshMs old.
  [[nodiscard]] std::shared_ptr<const SecretValues> values();

  struct Attempt {
    RunId run;
    std::int64_t epoch = 0;
    auto operator<=>(const Attempt&) const = default;
  };
  struct Missing {
    std::string why;  // "there is no secret API_TOKEN: put it into /var/lib/bide/secrets/API_TOKEN, mode 0600"
  };
  // The folder of an attempt with these secrets in it.
  [[nodiscard]] std::variant<std::string, Missing> hand_out(const std::vector<std::string>& names, Attempt attempt);
  void take_back(Attempt attempt) const;
  // Folders that are there.
  [[nodiscard]] std::vector<Attempt> handed_out() const;

  // Masks what of them stands in a run's log from where the last call ended: a program writes it without us.
  void mask_log(RunId run, const std::string& path);

 private:
  [[nodiscard]] std::variant<std::string, Missing> value_of(const std::string& name) const;
  [[nodiscard]] std::string folder_of(Attempt attempt) const;

  const std::string folder_;
  const std::string credentials_;
  const std::string attempts_;
  Clock& clock_;
  Mutex mutex_;
  std::shared_ptr<const SecretValues> values_ GUARDED_BY(mutex_);
  BootMs read_at_ GUARDED_BY(mutex_) = 0;
  std::map<RunId, std::int64_t> masked_ GUARDED_BY(mutex_);  // bytes of its log that were looked at
};

}  // namespace bide::work
