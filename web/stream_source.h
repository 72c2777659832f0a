// Where an answer without an end comes from. The reactor owns one a connection, asks it for bytes when there is room
// for them, and destroys it when the connection ends: whatever it holds (a slot among the streams) is given back then.
// take() and the destructor run on the reactor's thread, or on a pool's before the reactor has it; neither may wait.
#pragma once

#include <cstddef>
#include <string>

namespace bide::web {

class StreamSource {
 public:
  virtual ~StreamSource() = default;
  enum class State {
    open,  // more may come: the reactor asks again at the next bell (Server::ring_streams), or a heartbeat later
    over,  // what was appended is the last of it
  };
  // Appends what there is, about `room` bytes at most; nothing: there is nothing now.
  virtual State take(std::string& out, std::size_t room) = 0;
};

}  // namespace bide::web
