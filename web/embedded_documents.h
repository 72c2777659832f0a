// Documents of the API that the build put into the program (db/embed.cmake): openapi.json.
#pragma once

#include "db/embedded.h"

namespace bide {

[[nodiscard]] std::span<const EmbeddedFile> embedded_documents();

}  // namespace bide
