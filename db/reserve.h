// Reserve: DIR/bide.reserve, 1 MiB that is written when there is space and unlinked when the disk is full, so that
// decisions and cancels still find room [C4]. The writer's thread only. Nothing throws: a reserve that cannot be
// made is a false.
#pragma once

#include <string>

namespace bide::db {

class Reserve {
 public:
  explicit Reserve(const std::string& directory) : path_(directory + "/bide.reserve") {}
  // Makes it if it is not there whole. False: no room for it.
  [[nodiscard]] bool make();
  // Unlinks it. True: it was there.
  bool release();

 private:
  std::string path_;
};

}  // namespace bide::db
