#include "agent/verb/spill.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "agent/base/hash.h"
#include "agent/base/json.h"

namespace bide::verb {
namespace {

// A whole file, mapped.
class Mapped {
 public:
  explicit Mapped(int fd) {
    struct stat found {};
    if (fd < 0 || ::fstat(fd, &found) != 0) return;
    there_ = true;
    size_ = static_cast<std::size_t>(found.st_size);
    if (size_ > 0) bytes_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes_ == MAP_FAILED) there_ = false;
  }
  ~Mapped() {
    if (bytes_ != nullptr && bytes_ != MAP_FAILED) ::munmap(bytes_, size_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  [[nodiscard]] bool there() const { return there_; }
  [[nodiscard]] std::string_view text() const {
    return size_ == 0 || !there_ ? std::string_view() : std::string_view(static_cast<const char*>(bytes_), size_);
  }

 private:
  bool there_ = false;
  std::size_t size_ = 0;
  void* bytes_ = nullptr;
};

// Hands the whole of the file to `take`, if it is what was recorded; else the run ends.
template <class Take>
void take_file(const Attempt& attempt, std::string_view result, const std::string& path, Take take) {
  const std::string about = json::member(result, "spilled").value_or("{}");
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const Mapped file(fd.get());
  if (!file.there() || to_hex(sha256(file.text())) != json::string_member(about, "sha256")) {
    attempt.end_run("OutputLost", "the output of a step (" +
                                      std::to_string(json::int_member(about, "bytes").value_or(0)) + " bytes) is in " +
                                      path + ", and that is " + (file.there() ? "not what was recorded" : "not there"));
  }
  take(file.text());
}

}  // namespace

bool Spill::begin(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string above = folder.substr(0, folder.rfind('/'));
  for (const std::string& one : {above, folder}) {
    if (::mkdir(one.c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  path_ = path;
  fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return fd_.valid();
}

bool Spill::write(std::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool Spill::finish() {
  const std::string folder = path_.substr(0, path_.rfind('/'));
  const Fd around(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd above(::open(folder.substr(0, folder.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::fsync(fd_.get()) != 0 || !around.valid() || !above.valid()) return false;
  ::fsync(around.get());
  ::fsync(above.get());
  const Mapped file(fd_.get());
  if (!file.there()) return false;
  sha256_ = to_hex(sha256(file.text()));
  fd_.reset();
  return true;
}

std::optional<std::string> Spill::secret_in(const SecretValues& secrets) const {
  if (secrets.empty() || !fd_.valid()) return std::nullopt;
  return secrets.find(Mapped(fd_.get()).text());
}

void Spill::drop() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
  fd_.reset();
}

std::string Spill::document(std::string_view begins) const {
  const auto slash = path_.rfind('/', path_.rfind('/') - 1);
  json::Writer out;
  out.begin_object().key("spilled").begin_object().member("file", path_.substr(slash + 1));
  out.member("sha256", sha256_).member("bytes", bytes_).end_object();
  return out.member("begins", begins).end_object().take();
}

std::string spilled_file(std::string_view result, std::string_view reply) {
  if (!result.starts_with("{\"spilled\":")) return "";
  const auto folder = json::string_member(reply, "outputs");
  const auto file = json::string_member(json::member(result, "spilled").value_or("{}"), "file");
  return folder && file ? *folder + "/" + *file : "";
}

void print_result(const Attempt& attempt, std::string_view result, std::string_view reply) {
  const std::string path = spilled_file(result, reply);
  if (path.empty()) return print(plain(result));
  take_file(attempt, result, path, [](std::string_view bytes) { print(bytes); });
}

std::string result_text(const Attempt& attempt, std::string_view result, std::string_view reply) {
  const std::string path = spilled_file(result, reply);
  if (path.empty()) return plain(result);
  std::string text;
  take_file(attempt, result, path, [&](std::string_view bytes) { text = std::string(bytes); });
  return text;
}

}  // namespace bide::verb
