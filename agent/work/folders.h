// Folders that grow old: removing them bit by bit, and copying one in. Plain functions; no lock, no memory of their
// own. What is removed is renamed first, so that nobody meets half of it. Failures: FolderFault, with the path.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace bide::work {

struct FolderFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Removes a file, link or folder with all in it, `entries` at most (what is removed is subtracted). Links are not
// followed; read-only folders of ours are opened first. True: nothing is left (or it was not there). False: go on with
// another call.
bool remove_some(const std::string& path, int& entries);

// Copies a folder to a place that is not there yet: folders, files and links as they are, with mode and time of change,
// and on the disk when it returns. `goes_on` is asked before each entry. False: it said no, and a part is there.
// FolderFault also for what is none of the three (sockets, devices), and for what is deeper than
// limits::kDeepestFolder.
bool copy_folder(const std::string& from, const std::string& to, const std::function<bool()>& goes_on);

}  // namespace bide::work
