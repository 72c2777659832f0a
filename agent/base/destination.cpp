#include "agent/base/destination.h"

namespace bide {

std::optional<std::string> wrong_destination(std::string_view url) {
  if (url.starts_with("http://") || url.starts_with("https://")) return std::nullopt;
  if (!url.starts_with("mqtt://") && !url.starts_with("mqtts://"))
    return "A message goes to a URL that begins with http:// or https://, or for a broker with mqtt:// or mqtts://";
  const std::string_view rest = url.substr(url.find("://") + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const std::size_t at = authority.rfind('@');
  if (at != std::string_view::npos && authority.substr(0, at).find(':') != std::string_view::npos)
    return "A broker's URL holds no password: the agent reads it from the file that mqtt_brokers in bide.toml names";
  return std::nullopt;
}

}  // namespace bide
