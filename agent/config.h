// Config: what the agent is told, from defaults, then a TOML file, then flags; the later wins, and each value knows
// where it came from. Values only, no threads. ConfigFault: an unknown key or a bad value, with "file:line: " or the
// flag before it, and the nearest key.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/limits.h"
#include "agent/base/log.h"
#include "agent/base/time.h"
#include "db/durability.h"

namespace bide {

struct Config {
  std::string data_dir;       // DIR, absolute
  std::string workflows_dir;  // absolute
  std::string socket;         // path of the Unix socket, absolute
  std::string listen;         // "127.0.0.1:7433", "[::1]:7433"; empty: no TCP
  std::string page_url;       // where people reach the page, ends with /; empty: at what `listen` says
  db::Durability durability = db::Durability::full;
  int workers = 64;                                  // attempts at once, 1 to 1024
  DurationMs remote_lease = limits::kRemoteLeaseMs;  // K1: of a remote worker that is not heard of
  DurationMs inline_sleep = 0;                       // A5: shorter sleeps keep their attempt
  log::Level log_level = log::Level::info;
  std::vector<std::string> allow_targets;  // O6: addresses inside that messages may go to
  std::string mqtt_brokers;                // a file of logins (work/broker.h), absolute; empty: none
  DurationMs park_after = 0;               // O5: a delivery is parked after ten tries, and not before this
  // W9. Lengths of time: 0 is for ever; numbers: 0 is no limit.
  DurationMs keep_runs = 0;         // after their end
  std::int64_t keep_runs_most = 0;  // ended ones
  std::int64_t max_db_bytes = 0;
  DurationMs keep_commands = 0;
  DurationMs keep_audit = 0;
  std::string group_scopes;  // what members of the socket's group may do: "read approve"; empty: nothing
  std::string path;          // PATH of programs, after BIDE_HOME and the folder of bide itself
};

// What defaults depend on. The system's defaults are for uid 0, a user's for all others.
struct Surroundings {
  bool system = false;
  std::function<std::optional<std::string>(const char* name)> variable;  // of the environment; empty counts as absent
  std::string home;  // absolute; of the password file if HOME is not set
  std::string cwd;   // what relative flags start at
};
[[nodiscard]] Surroundings surroundings_of_process();

// $XDG_STATE_HOME/bide, ~/.local/state/bide; /var/lib/bide for the system.
[[nodiscard]] std::string default_data_dir(const Surroundings& around);
// $XDG_RUNTIME_DIR/bide/bide.sock, DIR/bide.sock without one; /run/bide/bide.sock for the system.
[[nodiscard]] std::string default_socket(const Surroundings& around, const std::string& data_dir);
// Read if it is there: $XDG_CONFIG_HOME/bide/bide.toml; /etc/bide/bide.toml for the system.
[[nodiscard]] std::string default_config_file(const Surroundings& around);

// One key as it is in force.
struct Setting {
  std::string key;
  std::string value;   // as it would stand in the file: "relaxed" with its quotes, 64
  std::string source;  // "default", "/etc/bide/bide.toml:12", "--data"
};

struct LoadedConfig {
  Config config;
  std::string file;               // that was read, or empty
  std::vector<Setting> settings;  // all, in the order of the shipped file
};

using Flags = std::vector<std::pair<std::string, std::string>>;  // key and text: {"data_dir", "/srv/bide"}

// The names that flags may set: key and flag ("data_dir", "--data").
struct ConfigFlag {
  const char* key;
  const char* flag;
  const char* value;  // what stands for the value in the help: "DIR"
  const char* help;
};
[[nodiscard]] const std::vector<ConfigFlag>& config_flags();

// `file`: of --config, must be readable; nullopt: default_config_file, if it is there.
[[nodiscard]] LoadedConfig load_config(const Surroundings& around, const std::optional<std::string>& file,
                                       const Flags& flags);
// As load_config, from the file's text.
[[nodiscard]] LoadedConfig parse_config(const Surroundings& around, std::string_view file, std::string_view text,
                                        const Flags& flags);

// The table of `bide serve --print-config`; reads back as a configuration file.
[[nodiscard]] std::string print_config(const LoadedConfig& loaded);

}  // namespace bide
