#include "agent/work/secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "agent/base/fd.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaskedAtOnce = 1 << 20;  // bytes of a log in memory
constexpr std::size_t kMaskedLogs = 10'000;     // guess

void write_file(const std::string& path, const std::string& value) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  std::size_t done = 0;
  while (fd.valid() && done < value.size()) {
    const ssize_t n = ::write(fd.get(), value.data() + done, value.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (!fd.valid() || done < value.size())
    throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

Secrets::Secrets(std::string data_dir, std::string credentials, Clock& clock)
    : folder_(data_dir + "/secrets"),
      credentials_(std::move(credentials)),
      attempts_(data_dir + "/attempt-secrets"),
      clock_(clock) {}

std::shared_ptr<const SecretValues> Secrets::values() {
  const BootMs now = clock_.boot_ms();
  Lock lock(mutex_);
  if (values_ && now - read_at_ < limits::kSecretsFreshMs) return values_;
  auto read = std::make_shared<SecretValues>();
  std::vector<std::string> folders = {folder_, credentials_};
  // A value that was changed meanwhile is still in the hands of these.
  for (const Attempt& attempt : handed_out()) folders.push_back(folder_of(attempt));
  for (const std::string& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (const auto value = read_secret(it->path())) read->add(it->path().filename(), *value);
    }
  }
  values_ = std::move(read);
  read_at_ = now;
  return values_;
}

std::variant<std::string, Secrets::Missing> Secrets::value_of(const std::string& name) const {
  const std::string own = folder_ + "/" + name;
  struct stat found {};
  const bool is_own = ::stat(own.c_str(), &found) == 0;
  if (is_own && (found.st_mode & 077) != 0)
    return Missing{"the secret " + own + " is open to others: chmod 600 " + own};
  auto value = is_own || credentials_.empty() ? read_secret(own) : read_secret(credentials_ + "/" + name);
  if (!value) return Missing{"there is no secret " + name + ": put it into " + own + ", mode 0600"};
  if (value->size() < limits::kSecretLeast) {
    return Missing{"the secret " + name + " has " + std::to_string(value->size()) +
                   " bytes: it could not be told from other text; at least " + std::to_string(limits::kSecretLeast) +
                   " are needed"};
  }
  return std::move(*value);
}

std::string Secrets::folder_of(Attempt attempt) const {
  return attempts_ + "/" + std::to_string(attempt.run.value) + "_" + std::to_string(attempt.epoch);
}

std::variant<std::string, Secrets::Missing> Secrets::hand_out(const std::vector<std::string>& names, Attempt attempt) {
  std::map<std::string, std::string> values;
  for (const std::string& name : names) {
    auto value = value_of(name);
    if (auto* missing = std::get_if<Missing>(&value)) return std::move(*missing);
    values[name] = std::move(std::get<std::string>(value));
  }
  {
    Lock lock(mutex_);
    values_.reset();  // what this attempt gets is looked for from here on
  }
  take_back(attempt);
  const std::string folder = folder_of(attempt);
  for (const std::string& path : {attempts_, folder}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      throw std::runtime_error("cannot make " + path + ": " + std::strerror(errno));
  }
  for (const auto& [name, value] : values) write_file(folder + "/" + name, value);
  return folder;
}

void Secrets::take_back(Attempt attempt) const {
  std::error_code ignored;
  fs::remove_all(folder_of(attempt), ignored);
}

std::vector<Secrets::Attempt> Secrets::handed_out() const {
  std::vector<Attempt> found;
  std::error_code error;
  for (fs::directory_iterator it(attempts_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    const auto at = name.find('_');
    if (at == std::string::npos) continue;
    const auto run = parse_number(name.substr(0, at));
    const auto epoch = parse_number(name.substr(at + 1));
    if (run && epoch) found.push_back({RunId(*run), *epoch});
  }
  std::sort(found.begin(), found.end());
  return found;
}

void Secrets::mask_log(RunId run, const std::string& path) {
  const auto values = this->values();
  if (values->empty()) return;
  Lock lock(mutex_);                                   // two at once would do the same
  if (masked_.size() >= kMaskedLogs) masked_.clear();  // then they are looked through from their beginning
  const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0) return;
  // One may have been half written at the last look.
  const auto overlap = static_cast<std::int64_t>(values->longest());
  std::int64_t at = std::max<std::int64_t>(masked_[run] - overlap, 0);
  while (at < found.st_size) {
    at = std::max<std::int64_t>(at, ::lseek(fd.get(), at, SEEK_DATA));  // a log that was cut has a hole
    std::string bytes(std::min<std::size_t>(kMaskedAtOnce, static_cast<std::size_t>(found.st_size - at)), '\0');
    const ssize_t n = ::pread(fd.get(), bytes.data(), bytes.size(), at);
    if (n <= 0) return;
    bytes.resize(static_cast<std::size_t>(n));
    // Others only append: what stands there stays there.
    if (values->mask(bytes) && ::pwrite(fd.get(), bytes.data(), bytes.size(), at) != n) return;
    const bool last = at + n >= found.st_size;
    at += last ? n : std::max<std::int64_t>(n - overlap, 1);
  }
  masked_[run] = found.st_size;
}

}  // namespace bide::work
