// lay_out(): a version of a program as a read-only folder, made beside its place and renamed into it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "agent/base/fd.h"
#include "agent/work/program_files.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

struct Failed {
  std::string text;
};

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw Failed{what + " " + path + ": " + std::strerror(errno)};
}

void write_file(const std::string& path, const std::string& bytes, int mode) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) fail("cannot make", path);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", path);
    done += static_cast<std::size_t>(n);
  }
  // The folder's name says what is in it: it must not be there before its bytes are.
  if (::fchmod(fd.get(), static_cast<mode_t>(mode)) != 0 || ::fsync(fd.get()) != 0) fail("cannot finish", path);
}

void remove_folder(const fs::path& dir) {
  std::error_code ignored;
  fs::permissions(dir, fs::perms::owner_all, ignored);
  for (fs::recursive_directory_iterator it(dir, ignored), end; it != end; it.increment(ignored)) {
    if (it->is_directory(ignored)) fs::permissions(it->path(), fs::perms::owner_all, ignored);
  }
  fs::remove_all(dir, ignored);
}

void fill(const std::string& dir, const std::vector<kernel::ProgramFile>& files,
          const std::function<std::string(const kernel::ProgramFile&)>& bytes_of) {
  std::vector<std::string> folders{dir};
  for (const auto& file : files) {
    for (auto at = file.path.find('/'); at != std::string::npos; at = file.path.find('/', at + 1)) {
      const std::string folder = dir + "/" + file.path.substr(0, at);
      if (::mkdir(folder.c_str(), 0700) == 0) {
        folders.push_back(folder);
      } else if (errno != EEXIST) {
        fail("cannot make", folder);
      }
    }
    write_file(dir + "/" + file.path, bytes_of(file), file.mode);
  }
  for (auto it = folders.rbegin(); it != folders.rend(); ++it) {
    const Fd fd(::open(it->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid() || ::fchmod(fd.get(), 0555) != 0 || ::fsync(fd.get()) != 0) fail("cannot finish", *it);
  }
}

}  // namespace

std::variant<std::string, LayoutFailed> lay_out(
    const std::string& versions_dir, const std::string& version, const std::vector<kernel::ProgramFile>& files,
    const std::function<std::string(const kernel::ProgramFile&)>& bytes_of) {
  std::string place = versions_dir + "/" + version;
  if (::access(place.c_str(), F_OK) == 0) return place;
  std::error_code ignored;
  fs::create_directories(versions_dir, ignored);
  std::string making = versions_dir + "/.making-XXXXXX";
  if (::mkdtemp(making.data()) == nullptr)
    return LayoutFailed{"cannot make a folder in " + versions_dir + ": " + std::strerror(errno)};
  try {
    fill(making, files, bytes_of);
  } catch (const Failed& failed) {
    remove_folder(making);
    return LayoutFailed{failed.text};
  } catch (...) {
    remove_folder(making);
    throw;
  }
  if (::rename(making.c_str(), place.c_str()) != 0) {
    const int error = errno;
    remove_folder(making);
    // Somebody else was first: the same name is the same files.
    if (::access(place.c_str(), F_OK) != 0) return LayoutFailed{"cannot make " + place + ": " + std::strerror(error)};
  }
  return place;
}

}  // namespace bide::work
