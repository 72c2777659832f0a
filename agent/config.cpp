#include "agent/config.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <sys/un.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/kernel/principal.h"
#include "agent/work/targets.h"

namespace bide {
namespace {

constexpr const char* kDefaultListen = "127.0.0.1:7433";
constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string below(const std::optional<std::string>& folder, const std::string& fallback, const char* rest) {
  return folder.value_or(fallback) + rest;
}
// XDG: a relative path in these variables is to be ignored.
std::optional<std::string> folder_variable(const Surroundings& around, const char* name) {
  auto value = around.variable(name);
  if (!value || value->front() != '/') return std::nullopt;
  return value;
}
std::string default_workflows_dir(const Surroundings& around) {
  if (around.system) return "/etc/bide/workflows";
  return below(folder_variable(around, "XDG_CONFIG_HOME"), around.home + "/.config", "/bide/workflows");
}

// Where a text comes from decides how it is read: a relative path is one of the folder where a flag was typed.
struct Place {
  const Surroundings& around;
  bool flag = false;
};

// Each reader puts a text into the Config; what it returns is what is wrong, or empty.
std::string read_path(std::string& out, const Place& place, const std::string& text) {
  std::string path = text;
  if (path.rfind("~/", 0) == 0) path = place.around.home + path.substr(1);
  if (path.empty()) return "is empty; it is the path of a file or folder";
  if (path.find('\0') != std::string::npos) return "holds a NUL character";
  if (path.front() != '/') {
    if (!place.flag) return "is relative; write the whole path, or ~/…";
    path = place.around.cwd + "/" + path;
  }
  path = std::filesystem::path(path).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  out = path;
  return {};
}

std::string read_socket(Config& out, const Place& place, const std::string& text) {
  std::string wrong = read_path(out.socket, place, text);
  if (!wrong.empty()) return wrong;
  if (out.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return "has " + std::to_string(out.socket.size()) + " bytes; the kernel takes " +
           std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " for a socket's path";
  }
  return {};
}

bool is_address(const std::string& host) {
  unsigned char buffer[sizeof(in6_addr)];
  if (host == "localhost" || ::inet_pton(AF_INET, host.c_str(), buffer) == 1) return true;
  if (host.size() < 3 || host.front() != '[' || host.back() != ']') return false;
  return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), buffer) == 1;
}

std::string read_listen(Config& out, const Place&, const std::string& text) {
  out.listen = text == "none" ? "" : text;
  if (out.listen.empty()) return {};
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_number(std::string_view(text).substr(colon + 1));
  if (!port || *port > 65535 || !is_address(text.substr(0, colon))) {
    return "is not ADDRESS:PORT, such as \"127.0.0.1:7433\" or \"[::1]:7433\"; \"none\" is no TCP at all";
  }
  return {};
}

std::string read_page_url(Config& out, const Place&, const std::string& text) {
  if (text.empty()) return {};
  const auto url = work::parse_url(text);
  const bool whole = std::holds_alternative<work::Url>(url) && text.find_first_of("?#") == std::string::npos;
  if (!whole) return "is where people reach the page, such as \"https://box.example/\"; empty: the address of listen";
  out.page_url = text.ends_with('/') ? text : text + "/";
  return {};
}

std::string read_durability(Config& out, const Place&, const std::string& text) {
  if (text != "full" && text != "relaxed") return "is \"full\" or \"relaxed\"";
  out.durability = text == "full" ? db::Durability::full : db::Durability::relaxed;
  return {};
}

std::string read_workers(Config& out, const Place&, const std::string& text) {
  const auto number = parse_number(text);
  if (!number || *number < 1 || *number > limits::kWorkersMost) {
    return "is a number from 1 to " + std::to_string(limits::kWorkersMost);
  }
  out.workers = static_cast<int>(*number);
  return {};
}

std::string read_inline_sleep(Config& out, const Place&, const std::string& text) {
  const auto length = parse_duration(text);
  if (!length) return "is a length of time, such as \"1s\" or \"250ms\"";
  out.inline_sleep = *length;
  return {};
}

std::string read_remote_lease(Config& out, const Place&, const std::string& text) {
  const auto length = parse_duration(text);
  if (!length || *length < limits::kLeastRemoteLeaseMs)
    return "is a length of time, " + format_duration(limits::kLeastRemoteLeaseMs) + " or more, such as \"30s\"";
  out.remote_lease = *length;
  return {};
}

// Rules with spaces or commas between them.
std::string read_allow_targets(Config& out, const Place&, const std::string& text) {
  std::string spaced = text;
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  std::istringstream rules(spaced);
  for (std::string rule; rules >> rule;) {
    if (!work::is_allow_rule(rule))
      return "is a list of addresses, such as \"127.0.0.1:9000 10.0.0.0/8\"; " + json::quote(rule) + " is none";
    out.allow_targets.push_back(rule);
  }
  return {};
}
std::string show_allow_targets(const Config& config) {
  std::string text;
  for (const std::string& rule : config.allow_targets) text += (text.empty() ? "" : " ") + rule;
  return text;
}

std::string read_mqtt_brokers(Config& out, const Place& place, const std::string& text) {
  return text.empty() ? "" : read_path(out.mqtt_brokers, place, text);
}

std::string read_park_after(Config& out, const Place&, const std::string& text) {
  const auto length = parse_duration(text);
  if (!length) return "is a length of time, such as \"30m\" or \"2d\"";
  out.park_after = *length;
  return {};
}

// A length of time, or "forever": 0.
std::string read_keep(DurationMs& out, const std::string& text, DurationMs least) {
  const auto length = text == "forever" ? std::optional<DurationMs>(0) : parse_duration(text);
  if (!length) return "is a length of time, such as \"30d\" or \"12h\", or \"forever\"";
  if (text != "forever" && *length < least) return "is " + format_duration(least) + " or more, or \"forever\"";
  out = *length;
  return {};
}
std::string show_keep(DurationMs length) { return length == 0 ? "forever" : format_duration(length); }

std::string read_most(std::int64_t& out, const std::string& text) {
  const auto number = parse_number(text);
  if (!number) return "is a number from 0 on; 0 is no limit";
  out = *number;
  return {};
}

std::string read_max_db_bytes(Config& out, const Place&, const std::string& text) {
  std::string wrong = read_most(out.max_db_bytes, text);
  if (!wrong.empty()) return wrong;
  if (out.max_db_bytes > 0 && out.max_db_bytes < limits::kLeastMaxDbBytes)
    return "is 0, no limit, or " + std::to_string(limits::kLeastMaxDbBytes) + " and more";
  return {};
}

constexpr std::pair<const char*, log::Level> kLevels[] = {
    {"debug", log::Level::debug}, {"info", log::Level::info}, {"warn", log::Level::warn}, {"error", log::Level::error}};

std::string read_log_level(Config& out, const Place&, const std::string& text) {
  for (const auto& [name, level] : kLevels) {
    if (text != name) continue;
    out.log_level = level;
    return {};
  }
  return "is \"debug\", \"info\", \"warn\" or \"error\"";
}

std::string read_group_scopes(Config& out, const Place&, const std::string& text) {
  std::istringstream words(text);
  out.group_scopes.clear();
  for (std::string word; words >> word;) {
    if (kernel::scopes_from(word) == 0 || word == "attempt") return "is some of read start approve work admin";
    out.group_scopes += (out.group_scopes.empty() ? "" : " ") + word;
  }
  return {};
}

std::string read_programs_path(Config& out, const Place&, const std::string& text) {
  std::istringstream folders(text);
  int count = 0;
  for (std::string folder; std::getline(folders, folder, ':'); ++count) {
    if (folder.empty() || folder.front() != '/') return "is a list of absolute folders with ':' between them";
  }
  if (count == 0 || text.back() == ':') return "is a list of absolute folders with ':' between them";
  out.path = text;
  return {};
}

struct Key {
  const char* name;
  bool number;  // an integer in the file, else a string
  std::string (*read)(Config&, const Place&, const std::string& text);
  std::string (*show)(const Config&);
};

// The order in which they are read: the default of the socket depends on data_dir.
const Key kKeys[] = {
    {"data_dir", false, [](Config& c, const Place& p, const std::string& t) { return read_path(c.data_dir, p, t); },
     [](const Config& c) { return c.data_dir; }},
    {"workflows_dir", false,
     [](Config& c, const Place& p, const std::string& t) { return read_path(c.workflows_dir, p, t); },
     [](const Config& c) { return c.workflows_dir; }},
    {"socket", false, read_socket, [](const Config& c) { return c.socket; }},
    {"listen", false, read_listen, [](const Config& c) { return c.listen.empty() ? std::string("none") : c.listen; }},
    {"page_url", false, read_page_url, [](const Config& c) { return c.page_url; }},
    {"durability", false, read_durability,
     [](const Config& c) { return std::string(c.durability == db::Durability::full ? "full" : "relaxed"); }},
    {"workers", true, read_workers, [](const Config& c) { return std::to_string(c.workers); }},
    {"inline_sleep", false, read_inline_sleep, [](const Config& c) { return format_duration(c.inline_sleep); }},
    {"remote_lease", false, read_remote_lease, [](const Config& c) { return format_duration(c.remote_lease); }},
    {"log_level", false, read_log_level,
     [](const Config& c) { return std::string(kLevels[static_cast<std::size_t>(c.log_level)].first); }},
    {"allow_targets", false, read_allow_targets, show_allow_targets},
    {"mqtt_brokers", false, read_mqtt_brokers, [](const Config& c) { return c.mqtt_brokers; }},
    {"park_after", false, read_park_after, [](const Config& c) { return format_duration(c.park_after); }},
    {"keep_runs", false,
     [](Config& c, const Place&, const std::string& t) { return read_keep(c.keep_runs, t, limits::kLeastKeepRunsMs); },
     [](const Config& c) { return show_keep(c.keep_runs); }},
    {"keep_runs_most", true,
     [](Config& c, const Place&, const std::string& t) { return read_most(c.keep_runs_most, t); },
     [](const Config& c) { return std::to_string(c.keep_runs_most); }},
    {"max_db_bytes", true, read_max_db_bytes, [](const Config& c) { return std::to_string(c.max_db_bytes); }},
    {"keep_commands", false,
     [](Config& c, const Place&, const std::string& t) {
       return read_keep(c.keep_commands, t, limits::kKeepCommandsMs);
     },
     [](const Config& c) { return show_keep(c.keep_commands); }},
    {"keep_audit", false,
     [](Config& c, const Place&, const std::string& t) { return read_keep(c.keep_audit, t, limits::kLeastKeepRunsMs); },
     [](const Config& c) { return show_keep(c.keep_audit); }},
    {"group_scopes", false, read_group_scopes, [](const Config& c) { return c.group_scopes; }},
    {"path", false, read_programs_path, [](const Config& c) { return c.path; }},
};

std::string default_of(const std::string& key, const Surroundings& around, const Config& so_far) {
  if (key == "data_dir") return default_data_dir(around);
  if (key == "workflows_dir") return default_workflows_dir(around);
  if (key == "socket") return default_socket(around, so_far.data_dir);
  if (key == "listen") return kDefaultListen;
  if (key == "durability") return "full";
  if (key == "workers") return "64";
  if (key == "inline_sleep") return format_duration(limits::kInlineSleepMs);
  if (key == "remote_lease") return format_duration(limits::kRemoteLeaseMs);
  if (key == "log_level") return "info";
  if (key == "page_url" || key == "allow_targets" || key == "mqtt_brokers") return "";
  if (key == "park_after") return format_duration(limits::kParkAfterMs);
  if (key == "keep_runs") return format_duration(limits::kKeepRunsMs);
  if (key == "keep_runs_most" || key == "max_db_bytes") return "0";
  if (key == "keep_commands") return format_duration(limits::kKeepCommandsMs);
  if (key == "keep_audit") return "forever";
  if (key == "group_scopes") return "";
  if (key == "path") return kDefaultPath;
  throw Bug("no default for the key " + key);
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.emplace_back(key.name);
  return names;
}

std::string where(std::string_view file, const toml::source_region& at) {
  return std::string(file) + ":" + std::to_string(at.begin.line);
}

// What the file says about a key: its text and its place.
struct Written {
  std::string text;
  std::string source;
};

std::optional<Written> written(const toml::table& table, std::string_view file, const Key& key) {
  const toml::node* node = table.get(key.name);
  if (node == nullptr) return std::nullopt;
  const std::string source = where(file, node->source());
  if (key.number && node->is_integer()) {
    const std::int64_t value = **node->as_integer();
    return Written{std::to_string(value), source};
  }
  if (!key.number && node->is_string()) return Written{**node->as_string(), source};
  throw ConfigFault(source + ": " + key.name + " is " + (key.number ? "a whole number" : "a text in quotes"));
}

void check_keys(const toml::table& table, std::string_view file) {
  const std::vector<std::string> names = key_names();
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = nearest(name, names);
    throw ConfigFault(where(file, key.source()) + ": there is no key " + json::quote(name) +
                      (near.empty() ? "" : "; did you mean " + near + "?"));
  }
}

toml::table parse_toml(std::string_view file, std::string_view text) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigFault(where(file, error.source()) + ": " + std::string(error.description()));
  }
}

std::string read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) throw ConfigFault(file + ": cannot be read: " + std::strerror(errno));
  return text.str();
}

std::string flag_of(const std::string& key) {
  for (const ConfigFlag& flag : config_flags()) {
    if (key == flag.key) return flag.flag;
  }
  throw Bug("no flag sets " + key);
}

}  // namespace

Surroundings surroundings_of_process() {
  Surroundings around;
  around.system = ::geteuid() == 0;
  around.variable = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
  around.home = around.variable("HOME").value_or("");
  if (around.home.empty() || around.home.front() != '/') {
    const passwd* entry = ::getpwuid(::geteuid());
    around.home = entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "/";
  }
  std::error_code failed;
  around.cwd = std::filesystem::current_path(failed).string();
  return around;
}

std::string default_data_dir(const Surroundings& around) {
  if (around.system) return "/var/lib/bide";
  return below(folder_variable(around, "XDG_STATE_HOME"), around.home + "/.local/state", "/bide");
}

std::string default_socket(const Surroundings& around, const std::string& data_dir) {
  if (around.system) return "/run/bide/bide.sock";
  const auto runtime = folder_variable(around, "XDG_RUNTIME_DIR");
  return runtime ? *runtime + "/bide/bide.sock" : data_dir + "/bide.sock";
}

std::string default_config_file(const Surroundings& around) {
  if (around.system) return "/etc/bide/bide.toml";
  return below(folder_variable(around, "XDG_CONFIG_HOME"), around.home + "/.config", "/bide/bide.toml");
}

const std::vector<ConfigFlag>& config_flags() {
  static const std::vector<ConfigFlag> flags = {
      {"data_dir", "--data", "DIR", "folder of the file and all that belongs to it"},
      {"workflows_dir", "--workflows", "DIR", "folder of the program workflows"},
      {"socket", "--socket", "PATH", "the Unix socket"},
      {"listen", "--listen", "ADDR:PORT", "TCP for the page and for apps; none switches it off"},
      {"durability", "--durability", "MODE",
       "full (each commit is synced) or relaxed (power loss may take the last ones)"},
      {"workers", "--workers", "N", "attempts at once"},
      {"inline_sleep", "--inline-sleep", "D", "shorter sleeps keep their attempt running"},
      {"log_level", "--log-level", "LEVEL", "debug, info, warn or error"},
  };
  return flags;
}

LoadedConfig parse_config(const Surroundings& around, std::string_view file, std::string_view text,
                          const Flags& flags) {
  const toml::table table = parse_toml(file, text);
  check_keys(table, file);
  LoadedConfig loaded;
  loaded.file = file;
  for (const Key& key : kKeys) {
    std::string value = default_of(key.name, around, loaded.config);
    std::string source = "default";
    if (auto in_file = written(table, file, key)) std::tie(value, source) = std::tie(in_file->text, in_file->source);
    bool flag = false;
    for (const auto& [name, given] : flags) {
      if (name != key.name) continue;
      std::tie(value, source, flag) = std::make_tuple(given, flag_of(name), true);
    }
    const std::string wrong = key.read(loaded.config, Place{around, flag}, value);
    if (!wrong.empty()) throw ConfigFault(source + ": " + key.name + " " + wrong);
    const std::string shown = key.show(loaded.config);
    loaded.settings.push_back({key.name, key.number ? shown : json::quote(shown), source});
  }
  return loaded;
}

LoadedConfig load_config(const Surroundings& around, const std::optional<std::string>& file, const Flags& flags) {
  if (file) {
    std::string path;
    const std::string wrong = read_path(path, Place{around, true}, *file);
    if (!wrong.empty()) throw ConfigFault("--config: the file's name " + wrong);
    return parse_config(around, path, read_file(path), flags);
  }
  const std::string usual = default_config_file(around);
  std::error_code failed;
  if (std::filesystem::exists(usual, failed)) return parse_config(around, usual, read_file(usual), flags);
  LoadedConfig loaded = parse_config(around, "", "", flags);
  return loaded;
}

std::string print_config(const LoadedConfig& loaded) {
  std::size_t widest = 0;
  for (const Setting& setting : loaded.settings)
    widest = std::max(widest, setting.key.size() + 3 + setting.value.size());
  std::string out = loaded.file.empty() ? "" : "# " + loaded.file + "\n";
  for (const Setting& setting : loaded.settings) {
    std::string line = setting.key + " = " + setting.value;
    line.resize(widest, ' ');
    out += line + "  # " + setting.source + "\n";
  }
  return out;
}

}  // namespace bide
