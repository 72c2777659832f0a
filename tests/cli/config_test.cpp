// The configuration: defaults, then the file, then flags; mistakes name their line and the nearest key.
#include "agent/config.h"

#include <catch2/catch.hpp>
#include <map>

#include "agent/base/errors.h"
#include "tests/support/temp_dir.h"

namespace bide {
namespace {

using Variables = std::map<std::string, std::string>;

Surroundings around(bool system, Variables variables = {}) {
  Surroundings result;
  result.system = system;
  result.home = "/home/ada";
  result.cwd = "/srv/here";
  result.variable = [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return result;
}

std::string fault_of(const std::string& text, const Flags& flags = {}) {
  try {
    (void)parse_config(around(false), "/etc/x.toml", text, flags);
  } catch (const ConfigFault& fault) {
    return fault.what();
  }
  return "none";
}

std::string source_of(const LoadedConfig& loaded, const std::string& key) {
  for (const Setting& setting : loaded.settings) {
    if (setting.key == key) return setting.source;
  }
  return "no such key";
}

TEST_CASE("config: a user's defaults follow the XDG variables, or lie below the home") {
  const Config home = parse_config(around(false), "", "", {}).config;
  CHECK(home.data_dir == "/home/ada/.local/state/bide");
  CHECK(home.workflows_dir == "/home/ada/.config/bide/workflows");
  CHECK(home.socket == "/home/ada/.local/state/bide/bide.sock");
  CHECK(home.listen == "127.0.0.1:7433");
  CHECK(home.durability == db::Durability::full);
  const Surroundings xdg = around(false, {{"XDG_STATE_HOME", "/s"},
                                          {"XDG_CONFIG_HOME", "/c"},
                                          {"XDG_RUNTIME_DIR", "/run/user/7"},
                                          {"XDG_DATA_HOME", "/d"}});
  const Config named = parse_config(xdg, "", "", {}).config;
  CHECK(named.data_dir == "/s/bide");
  CHECK(named.workflows_dir == "/c/bide/workflows");
  CHECK(named.socket == "/run/user/7/bide/bide.sock");
  CHECK(default_config_file(xdg) == "/c/bide/bide.toml");
  CHECK(default_data_dir(around(false, {{"XDG_STATE_HOME", "relative"}})) == "/home/ada/.local/state/bide");
}

TEST_CASE("config: the system's defaults do not depend on variables") {
  const Config config =
      parse_config(around(true, {{"XDG_STATE_HOME", "/s"}, {"XDG_RUNTIME_DIR", "/r"}}), "", "", {}).config;
  CHECK(config.data_dir == "/var/lib/bide");
  CHECK(config.workflows_dir == "/etc/bide/workflows");
  CHECK(config.socket == "/run/bide/bide.sock");
}

TEST_CASE("config: the shipped file holds every key and says what the system's defaults are") {
  const std::string text = test::read_file(std::string(BIDE_SOURCE_DIR) + "/packaging/bide.toml");
  const LoadedConfig shipped = parse_config(around(true), "bide.toml", text, {});
  const LoadedConfig defaults = parse_config(around(true), "", "", {});
  REQUIRE(shipped.settings.size() == 20);
  REQUIRE(defaults.settings.size() == shipped.settings.size());
  for (std::size_t i = 0; i < shipped.settings.size(); ++i) {
    INFO(shipped.settings[i].key);
    CHECK(shipped.settings[i].value == defaults.settings[i].value);
    CHECK(shipped.settings[i].source.rfind("bide.toml:", 0) == 0);
    CHECK(defaults.settings[i].source == "default");
  }
}

TEST_CASE("config: a flag goes before the file, the file before the default, and each says so") {
  const std::string text = "# first line\nworkers = 8\ndata_dir = \"~/bide\"\nlisten = \"none\"\n";
  const LoadedConfig loaded =
      parse_config(around(false), "/etc/x.toml", text, {{"workers", "9"}, {"workflows_dir", "flows/../mine/"}});
  CHECK(loaded.config.workers == 9);
  CHECK(source_of(loaded, "workers") == "--workers");
  CHECK(loaded.config.workflows_dir == "/srv/here/mine");
  CHECK(loaded.config.data_dir == "/home/ada/bide");
  CHECK(source_of(loaded, "data_dir") == "/etc/x.toml:3");
  CHECK(loaded.config.socket == "/home/ada/bide/bide.sock");
  CHECK(loaded.config.listen.empty());
  CHECK(source_of(loaded, "durability") == "default");
}

TEST_CASE("config: mistakes name their place, and the nearest key") {
  CHECK(fault_of("\n\nworker = 8\n") == "/etc/x.toml:3: there is no key \"worker\"; did you mean workers?");
  CHECK(fault_of("zzzzzzzzzz = 8\n") == "/etc/x.toml:1: there is no key \"zzzzzzzzzz\"");
  CHECK(fault_of("workers = \"8\"") == "/etc/x.toml:1: workers is a whole number");
  CHECK(fault_of("socket = 8") == "/etc/x.toml:1: socket is a text in quotes");
  CHECK(fault_of("workers = 0") == "/etc/x.toml:1: workers is a number from 1 to 1024");
  CHECK(fault_of("workers = -3") == "/etc/x.toml:1: workers is a number from 1 to 1024");
  CHECK(fault_of("", {{"workers", "many"}}) == "--workers: workers is a number from 1 to 1024");
  CHECK(fault_of("durability = \"fast\"") == "/etc/x.toml:1: durability is \"full\" or \"relaxed\"");
  CHECK(fault_of("inline_sleep = \"5\"").find("/etc/x.toml:1: inline_sleep is a length of time") == 0);
  CHECK(fault_of("log_level = \"loud\"").find("/etc/x.toml:1: log_level is \"debug\"") == 0);
  CHECK(fault_of("data_dir = \"here\"") == "/etc/x.toml:1: data_dir is relative; write the whole path, or ~/…");
  CHECK(fault_of("mqtt_brokers = \"b.toml\"").find("/etc/x.toml:1: mqtt_brokers is relative") == 0);
  CHECK(fault_of("data_dir = \"\"").find("/etc/x.toml:1: data_dir is empty") == 0);
  CHECK(fault_of("path = \"/bin:.\"").find("/etc/x.toml:1: path is a list of absolute folders") == 0);
  CHECK(fault_of("socket = \"/" + std::string(120, 'x') + "\"").find("/etc/x.toml:1: socket has 121 bytes") == 0);
  CHECK(fault_of("workers = 8\nworkers = 9\n").rfind("/etc/x.toml:2: ", 0) == 0);
  CHECK(fault_of("workers = \n").rfind("/etc/x.toml:1: ", 0) == 0);
  CHECK(fault_of("workers = 8\n") == "none");
}

TEST_CASE("config: addresses to listen on") {
  for (const char* good : {"127.0.0.1:7433", "0.0.0.0:0", "[::1]:65535", "localhost:80", "none", ""}) {
    INFO(good);
    CHECK(fault_of("", {{"listen", good}}) == "none");
  }
  for (const char* bad :
       {"7433", ":7433", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "::1:80", "[::1:80", "box:80"}) {
    INFO(bad);
    CHECK(fault_of("", {{"listen", bad}}).find("--listen: listen is not ADDRESS:PORT") == 0);
  }
}

TEST_CASE("config: where people reach the page is a whole URL") {
  const auto url = [](const std::string& text) {
    return parse_config(around(false), "/etc/x.toml", "page_url = \"" + text + "\"", {}).config.page_url;
  };
  CHECK(url("").empty());
  CHECK(url("https://box.example") == "https://box.example/");
  CHECK(url("http://127.0.0.1:8080/bide/") == "http://127.0.0.1:8080/bide/");
  for (const char* bad : {"box.example", "ftp://box.example/", "https://", "https://a b/", "https://box.example/?a=1",
                          "https://box.example/#wait", "https://me@box.example/"}) {
    INFO(bad);
    CHECK(fault_of("page_url = \"" + std::string(bad) + "\"").find("/etc/x.toml:1: page_url is where people") == 0);
  }
}

TEST_CASE("config: what --print-config shows reads back as the same configuration") {
  const LoadedConfig loaded =
      parse_config(around(false), "/etc/x.toml", "workers = 3\nlisten = \"\"\n", {{"data_dir", "/a \"b\""}});
  const std::string printed = print_config(loaded);
  const LoadedConfig again = parse_config(around(false), "/y.toml", printed, {});
  REQUIRE(again.settings.size() == loaded.settings.size());
  for (std::size_t i = 0; i < again.settings.size(); ++i) CHECK(again.settings[i].value == loaded.settings[i].value);
  CHECK(printed.find("# --data\n") != std::string::npos);
  CHECK(printed.find("# /etc/x.toml:1\n") != std::string::npos);
}

TEST_CASE("config: a file that was named must be there, the usual one need not") {
  const test::TempDir dir;
  const Surroundings here = around(false, {{"XDG_CONFIG_HOME", dir.str()}});
  CHECK(load_config(here, std::nullopt, {}).file.empty());
  CHECK_THROWS_AS(load_config(here, dir.str("none.toml"), {}), ConfigFault);
  test::write_file(dir / "bide/bide.toml", "workers = 5\n");
  CHECK(load_config(here, std::nullopt, {}).config.workers == 5);
}

}  // namespace
}  // namespace bide
