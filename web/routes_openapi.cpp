// /openapi.json: the API as a document. It is kept by hand in web/openapi.json, a line an operation; a test holds it to
// the table of routes in both directions, and every answer that the tests see to its schemas.
#include "agent/base/errors.h"
#include "web/embedded_documents.h"
#include "web/routes.h"

namespace bide::web {

void add_openapi_routes(Router& router) {
  for (const EmbeddedFile& file : embedded_documents()) {
    router.open("/" + std::string(file.name), [file](Request&) { return json_response(200, std::string(file.bytes)); });
  }
}

}  // namespace bide::web
