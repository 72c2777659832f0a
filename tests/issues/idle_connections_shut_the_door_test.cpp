// Connections that said nothing could take all descriptors of the agent (their bound was 2048, the usual limit is
// 1024): the socket was shut with the port, no guard could be spawned, and every program of the box stood still. The
// limit is raised at the start, the bounds of connections leave what the agent itself needs, and idle ones make room.
#include <netinet/in.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <list>

#include "tests/program/e2e_box.h"
#include "tests/support/http_client.h"

using namespace bide;
using namespace bide::test;

namespace {

// `bide` under a limit of 256 descriptors, and with a port.
std::string limited_bide(const TempDir& dir) {
  write_file(dir / "bide",
             "#!/bin/sh\nulimit -n 256\n"
             "for word do shift; [ \"$word\" = none ] && word=127.0.0.1:0; set -- \"$@\" \"$word\"; done\n"
             "exec '" +
                 std::string(BIDE_EXECUTABLE) + "' \"$@\"\n");
  REQUIRE(::chmod(dir.str("bide").c_str(), 0755) == 0);
  return dir.str("bide");
}

int port_of(const Box& box) {
  const std::string url = box.sql("SELECT value FROM meta WHERE key = 'page_url'").dump();
  const auto at = url.find("127.0.0.1:");
  REQUIRE(at != std::string::npos);
  return std::stoi(url.substr(at + 10));
}

}  // namespace

TEST_CASE("[E8] issue: connections that say nothing take neither the socket nor the descriptors of programs") {
  const TempDir dir;
  Box box(limited_bide(dir));
  box.program("two", "bide step one -- true\nulimit -n > $OUT/limit\nbide step two -- true\nbide result ok:=true\n");
  const int port = port_of(box);
  std::list<HttpClient> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(HttpClient::tcp(port));
  const std::string run = box.start("two");
  box.comes_to(run, "completed");
  for (int i = 0; i < 20; ++i) REQUIRE(box.bide({"runs"}).exit.code == 0);
}
