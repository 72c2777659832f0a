// Secrets at the door [D4]: what a request brings in is looked through before its handler sees it. A step's outcome
// that holds a secret is left to its handler, or, of a holder, becomes the failure SecretInResult; what of an attempt
// would be kept or sent on as it is (a message, a child's input) is refused; in all else of an attempt "[secret NAME]"
// stands in its place; what people and apps send is refused: secret_in_input 422. Any thread.
#pragma once

#include <optional>

#include "agent/work/secrets.h"
#include "web/request.h"

namespace bide::web {

// What to answer instead; nullopt: go on with what is left in the request.
[[nodiscard]] std::optional<Response> guard_secrets(work::Secrets& secrets, Request& request);

// {"code":"SecretInResult",…} if the document holds one.
[[nodiscard]] std::optional<std::string> secret_in_result(work::Secrets* secrets, std::string_view document);

}  // namespace bide::web
