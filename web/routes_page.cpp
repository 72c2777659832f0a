// The page's files, as the build put them into the program. Open to all: they hold nothing but the page. The front
// writes the policy that forbids inline scripts, foreign sources, frames and caches on every answer.
#include <algorithm>

#include "agent/base/errors.h"
#include "db/embedded.h"
#include "web/routes.h"

namespace bide::web {
namespace {

std::string content_type(std::string_view name) {
  const std::string_view ending = name.substr(std::min(name.rfind('.'), name.size()));
  if (ending == ".html") return "text/html; charset=utf-8";
  if (ending == ".css") return "text/css; charset=utf-8";
  if (ending == ".js") return "text/javascript; charset=utf-8";
  if (ending == ".svg") return "image/svg+xml";
  throw Bug("the page's file " + std::string(name) + " is of no known type");
}

Response file_response(const EmbeddedFile& file) {
  Response response;
  response.content_type = content_type(file.name);
  response.body = std::string(file.bytes);
  return response;
}

}  // namespace

void add_page_routes(Router& router) {
  for (const EmbeddedFile& file : embedded_page()) {
    const std::string pattern = file.name == "index.html" ? "/" : "/" + std::string(file.name);
    router.open(pattern, [file](Request&) { return file_response(file); });
  }
}

}  // namespace bide::web
