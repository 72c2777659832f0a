#include "agent/work/programs.h"

#include <filesystem>
#include <stdexcept>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/kernel/moves.h"

namespace bide::work {

namespace fs = std::filesystem;

Programs::Programs(db::Store& store, ProgramFiles& files, std::string versions_dir)
    : store_(store), files_(files), versions_dir_(std::move(versions_dir)) {}

// While a tree is looked up and stored. What the file has of it is read on the writer: what retention deletes was
// deleted before that, or is left alone because this stands there.
class Programs::Finding {
 public:
  Finding(Programs& programs, const std::string& version) : programs_(programs) {
    const BootMs now = programs.store_.system_clock().boot_ms();
    Lock lock(programs_.mutex_);
    ++programs_.finding_;
    std::erase_if(programs_.found_, [&](const auto& found) { return found.second + limits::kFoundMs <= now; });
    programs_.found_[version] = now;
  }
  ~Finding() {
    Lock lock(programs_.mutex_);
    --programs_.finding_;
  }
  Finding(const Finding&) = delete;
  Finding& operator=(const Finding&) = delete;

 private:
  Programs& programs_;
};

bool Programs::found_lately(const std::string& version) const {
  const BootMs now = store_.system_clock().boot_ms();
  Lock lock(mutex_);
  const auto it = found_.find(version);
  return it != found_.end() && it->second + limits::kFoundMs > now;
}

bool Programs::storing() const {
  Lock lock(mutex_);
  return finding_ > 0;
}

std::optional<Problem> Programs::store_bytes(const ProgramTree& tree) {
  std::vector<std::pair<std::string, std::string>> batch;
  std::size_t size = 0;
  const auto flush = [&] {
    if (batch.empty()) return;
    store_.write([&](db::Tx& tx) {
      for (const auto& [hash, bytes] : batch) kernel::add_program_bytes(tx, hash, bytes);
    });
    batch.clear();
    size = 0;
  };
  const auto missing = store_.write([&](db::Tx& tx) {
    std::vector<kernel::ProgramFile> files;
    for (const kernel::ProgramFile& file : tree.files) {
      if (!kernel::has_program_bytes(tx, file.sha256)) files.push_back(file);
    }
    return files;
  });
  for (const kernel::ProgramFile& file : missing) {
    auto bytes = files_.bytes(tree, file);
    if (const auto* refused = std::get_if<Problem>(&bytes)) return *refused;
    size += std::get<std::string>(bytes).size();
    batch.emplace_back(file.sha256, std::move(std::get<std::string>(bytes)));
    if (size >= limits::kDocumentBytes) flush();
  }
  flush();
  return std::nullopt;
}

std::variant<Startable, Problem> Programs::find(const std::string& name) {
  const auto read = files_.read(name);
  if (const auto* refused = std::get_if<Problem>(&read)) return *refused;
  const auto& tree = std::get<ProgramTree>(read);
  if (driver_ != nullptr) {
    if (auto why = driver_->refuses(tree.manifest.run_as)) return problem("workflow_refused", tree.name + ": " + *why);
  }
  const Finding finding(*this, tree.version);
  Startable found;
  const auto known = store_.write([&](db::Tx& tx) { return kernel::find_version(tx, tree.name, tree.version); });
  if (known) {
    found.version = *known;
    found.workflow = store_.read([&](db::ReadTx& tx) { return kernel::read_version(tx, *known)->workflow; });
  } else {
    if (auto refused = store_bytes(tree)) return *refused;
    found = store_.write([&](db::Tx& tx) {
      Startable made;
      made.workflow = kernel::ensure_workflow(tx, tree.name);
      made.version = kernel::ensure_version(tx, made.workflow, tree.version, kernel::WorkflowKind::program,
                                            manifest_json(tree.manifest, tree.entry), tx.now());
      for (const kernel::ProgramFile& file : tree.files) kernel::add_program_file(tx, made.version, file);
      return made;
    });
  }
  found.deadline = tree.manifest.run_deadline_ms;
  found.input_schema = tree.manifest.input_schema;
  if (driver_ != nullptr) driver_->set_max_running(found.workflow, tree.manifest.max_running);
  return found;
}

bool Programs::move_accepted(const ProgramTree& tree) {
  constexpr std::int64_t kAtOnce = 500;  // rows of a transaction, as retention has it
  if (tree.manifest.accepts.empty()) return false;
  const auto runs =
      store_.read([&](db::ReadTx& tx) { return kernel::movable_runs(tx, tree.name, tree.manifest.accepts, kAtOnce); });
  if (runs.empty()) return false;
  const auto found = find(tree.name);  // pinned first
  const auto* newest = std::get_if<Startable>(&found);
  if (newest == nullptr) return false;
  return store_.write([&](db::Tx& tx) {
    bool moved = false;
    for (const RunId run : runs) moved = kernel::move_run(tx, run, newest->version, tx.now()) || moved;
    return moved;
  });
}

bool Programs::learn_limits() {
  if (driver_ == nullptr) return false;
  bool changed = false;
  for (const kernel::WorkflowSummary& workflow :
       store_.read([](db::ReadTx& tx) { return kernel::list_workflows(tx); })) {
    if (workflow.kind != kernel::WorkflowKind::program) continue;
    int limit = 0;
    const auto there = files_.read(workflow.name);
    if (const auto* tree = std::get_if<ProgramTree>(&there)) {
      limit = tree->manifest.max_running;
      changed = move_accepted(*tree) || changed;
    } else {
      const auto pinned = store_.read([&](db::ReadTx& tx) {
        const auto id = kernel::find_version(tx, workflow.name, workflow.newest_version);
        return id ? kernel::read_version(tx, *id) : std::nullopt;
      });
      if (pinned) limit = manifest_of_json(pinned->manifest).max_running;
    }
    if (driver_->set_max_running(workflow.id, limit)) changed = true;
  }
  return changed;
}

ProgramHome Programs::lay_out(const kernel::VersionRow& version) {
  const std::string entry = json::string_member(version.manifest, "entry").value_or("main");
  ProgramHome home;
  home.folder = versions_dir_ + "/" + version.version;
  home.main = home.folder + "/" + entry;
  if (fs::exists(home.folder)) return home;
  const auto files = store_.read([&](db::ReadTx& tx) { return kernel::program_files(tx, version.id); });
  const auto laid = work::lay_out(versions_dir_, version.version, files, [&](const kernel::ProgramFile& file) {
    return store_.read([&](db::ReadTx& tx) { return kernel::program_bytes(tx, file.sha256); });
  });
  if (const auto* failed = std::get_if<LayoutFailed>(&laid)) throw std::runtime_error(failed->text);
  home.folder = std::get<std::string>(laid);
  home.main = home.folder + "/" + entry;
  return home;
}

}  // namespace bide::work
