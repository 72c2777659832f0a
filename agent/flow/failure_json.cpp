#include "agent/flow/failure_json.h"

#include "agent/base/json.h"
#include "agent/base/limits.h"

namespace bide::flow {

std::string error_json(std::string_view code, std::string_view message) {
  return json::Writer()
      .begin_object()
      .member("code", std::string(code))
      .member("message", std::string(message))
      .end_object()
      .take();
}

std::string verb_killed_error() {
  return error_json("VerbKilled",
                    "A verb of bide was killed before it had its answer: the program would have gone on as if it had.");
}

std::optional<std::string> unusable(std::string_view result) {
  if (result.size() > limits::kDocumentBytes) {
    json::Writer w;
    w.begin_object()
        .member("code", "ResultTooLarge")
        .member("message", "The result is over 1 MiB; its first 4096 bytes are kept.");
    return w.member("kept", std::string(result.substr(0, limits::kKeptOfTooLarge))).end_object().take();
  }
  if (const auto refused = json::check(result)) {
    json::Writer w;
    w.begin_object()
        .member("code", "BadResult")
        .member("message",
                "The result is not JSON: " + refused->why + " at byte " + std::to_string(refused->offset) + ".");
    return w.member("kept", std::string(result.substr(0, limits::kKeptOfTooLarge))).end_object().take();
  }
  return std::nullopt;
}

bool effect_happened(std::string_view error) {
  const auto code = json::string_member(error, "code");
  return code == "ResultTooLarge" || code == "BadResult" || code == "SecretInResult";
}

}  // namespace bide::flow
