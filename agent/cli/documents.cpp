// What several verbs do with documents.
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

std::string read_all(std::istream& in, const std::string& what) {
  std::string text(limits::kDocumentBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw ConfigFault(what + " cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > limits::kDocumentBytes)
    throw ConfigFault(what + " is larger than 1 MiB: give a reference to where the data lies");
  return text;
}

}  // namespace

std::string typed_json(const std::string& text, const char* what, Console& console) {
  std::string document = text;
  std::string name = what;
  if (text == "-") {
    name += " from stdin";
    document = read_all(console.in, name);
  } else if (!text.empty() && text.front() == '@') {
    name += " in " + text.substr(1);
    std::ifstream file(text.substr(1), std::ios::binary);
    if (!file) throw ConfigFault(name + " cannot be read: there is no such file, or it is not ours to read");
    document = read_all(file, name);
  }
  if (const auto bad = json::check(document)) {
    throw ConfigFault(name + " is no JSON: byte " + std::to_string(bad->offset) + ": " + bad->why);
  }
  return document;
}

std::string all_pages(Client& client, const std::string& path, std::size_t most) {
  std::string items;
  std::string cursor;
  std::size_t left = most == 0 ? SIZE_MAX : most;
  std::string next = "null";
  do {
    const std::size_t page = std::min<std::size_t>(left, limits::kPageMax);
    std::string url = path + (path.find('?') == std::string::npos ? "?" : "&") + "limit=" + std::to_string(page);
    if (!cursor.empty()) url += "&cursor=" + percent_encode(cursor);
    const std::string body = accepted(client.get(url)).body;
    const std::string array = json::member(body, "items").value_or("[]");
    const std::size_t got = nlohmann::json::parse(array).size();
    const std::string inner(trim(array.substr(1, array.size() - 2)));
    if (!inner.empty()) items += (items.empty() ? "" : ",") + inner;
    left -= std::min(left, got);
    next = json::member(body, "next").value_or("null");
    cursor = json::string_member(body, "next").value_or(next == "null" ? "" : next);
  } while (left > 0 && !cursor.empty());
  return "{\"items\":[" + items + "],\"next\":" + next + "}";
}

std::string short_time(std::string_view time) {
  if (time.size() != 24 || time[10] != 'T') return std::string(time);
  return std::string(time.substr(0, 10)) + " " + std::string(time.substr(11, 8));
}

void print_json(Console& console, std::string_view document) { console.out << trim(document) << "\n"; }

}  // namespace bide::cli
