#include "agent/cli/workflow_files.h"

#include <filesystem>

namespace bide::cli {

namespace fs = std::filesystem;

WorkflowPlace find_workflow_files(const Arguments& arguments) {
  WorkflowPlace place{load_config(surroundings_of_process(), arguments.config, arguments.flags).config, arguments.name};
  if (arguments.name.find_first_of("/.") == std::string::npos) return place;
  fs::path path = fs::absolute(arguments.name).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "flows/rollout/"
  const auto stem = [](const fs::path& file) {
    const std::string name = file.filename().string();
    return name.substr(0, name.find('.'));
  };
  if (stem(path) == "main") path = path.parent_path();
  place.name = stem(path);
  place.config.workflows_dir = path.parent_path().string();
  return place;
}

std::string told(const Problem& refused) {
  std::string text = refused.detail;
  if (!refused.hint.empty()) text += ": " + refused.hint;
  if (refused.code == "workflow_unknown") text += " (another folder: --workflows DIR; or name the file, ./NAME.sh)";
  return text;
}

}  // namespace bide::cli
