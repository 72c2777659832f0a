#include "agent/flow/nondeterminism.h"

#include <utility>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/flow/request_difference.h"

namespace bide::flow {
namespace {

struct Guess {
  std::string words;
  const Entry* nearest = nullptr;  // the entry that the attempted one may be
  std::string sentence;            // says all of it: stands in place of the message
};

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

bool asks_for(const Entry& entry, const Attempted& attempted, std::string_view hash) {
  return entry.row.kind == attempted.kind && entry.row.name == attempted.ask.name &&
         entry.row.effect == attempted.ask.effect && entry.row.request_hash == hash;
}

// What an edit of the code would look like from here: only the attempted entry is known, not the ones after it.
Guess guess_at(const Replayed& replayed, const Entry* recorded, const Attempted& attempted) {
  if (recorded == nullptr) return {};
  const kernel::StepRow& row = recorded->row;
  const std::string number = std::to_string(row.seq);
  if (attempted.position.empty())
    return {"removed? " + quoted(row.name) + " (entry " + number + ") is not asked for any more.", recorded};
  const std::string hash = sha256(json::canonical(attempted.ask.request));
  const bool same_kind = row.kind == attempted.kind;
  const bool moved = same_kind && row.request_hash == hash && row.effect == attempted.ask.effect;
  if (moved && row.position != attempted.position) return {"", recorded};  // the message says it all
  if (same_kind && row.name == attempted.ask.name && row.request_hash == hash)
    return {"another effect? It was " + std::string(to_text(row.effect)) + " and is " +
                std::string(to_text(attempted.ask.effect)) + ".",
            recorded};
  if (same_kind && row.name == attempted.ask.name) {
    const std::string difference = request_difference(row.name, row.request, attempted.ask.request);
    if (difference.empty())
      return {"another request? " + quoted(row.name) + " was asked with " + row.request + ".", recorded};
    return {"another request? " + difference + ".", recorded, difference + "."};
  }
  for (const auto& [seq, entry] : replayed.journal.all()) {
    if (seq <= row.seq || entry->place != recorded->place || !asks_for(*entry, attempted, hash)) continue;
    return {"removed? " + quoted(row.name) + " (entry " + number + ") was before it and is not asked for any more.",
            entry.get()};
  }
  if (same_kind && row.request_hash == hash && row.effect == attempted.ask.effect)
    return {"renamed? " + quoted(row.name) + " is " + quoted(attempted.ask.name) + " now.", recorded};
  return {"inserted before " + number + "? " + quoted(attempted.ask.name) + " is new, and " + quoted(row.name) +
              " was recorded here.",
          recorded};
}

void write_entry(json::Writer& w, const kernel::StepRow& row) {
  w.begin_object().member("seq", row.seq).member("position", row.position);
  w.member("kind", std::string(to_text(row.kind))).member("name", row.name);
  w.member("effect", std::string(to_text(row.effect))).member_raw("request", row.request).end_object();
}

// Of "branch/kind/name/key/n", decoded.
std::string part_of(std::string_view position, int index) {
  for (; index > 0; --index) {
    const auto slash = position.find('/');
    if (slash == std::string_view::npos) return "";
    position.remove_prefix(slash + 1);
  }
  const auto part = position.substr(0, position.find('/'));
  return percent_decode(part).value_or(std::string(part));
}

}  // namespace

std::string moved_request(std::string_view done, std::string_view asked) {
  static constexpr std::pair<int, std::string_view> kParts[] = {{3, "key"}, {2, "name"}, {0, "branch"}};
  for (const auto& [index, what] : kParts) {
    const std::string was = part_of(done, index);
    const std::string is = part_of(asked, index);
    if (was == is) continue;
    const std::string head = "the " + std::string(what) + " of " + part_of(asked, 2) + " ";
    if (was.empty() || is.empty())
      return head + "was " + (was.empty() ? "not given" : was) + " and is " + (is.empty() ? "not given" : is);
    return head + was_and_is(was, is);
  }
  return "it was " + std::string(done) + " and is " + std::string(asked);
}

std::string nondeterminism(const Replayed& replayed, const Entry* recorded, const Attempted& attempted,
                           std::string_view message) {
  const Guess guess = guess_at(replayed, recorded, attempted);
  json::Writer w;
  w.begin_object().member("code", "NonDeterminism");
  const std::string plain = std::string(message) + (guess.words.empty() ? "" : " " + guess.words);
  w.member("message", guess.sentence.empty() ? plain : guess.sentence);
  if (!replayed.version.empty()) w.member("version", replayed.version);
  if (recorded != nullptr) {
    w.key("recorded");
    write_entry(w, recorded->row);
  }
  w.key("attempted").begin_object();
  w.member("position", attempted.position).member("kind", std::string(to_text(attempted.kind)));
  w.member("name", attempted.ask.name).member("effect", std::string(to_text(attempted.ask.effect)));
  w.member_raw("request", attempted.ask.request).end_object();
  if (guess.nearest != nullptr && guess.nearest != recorded) {
    w.key("nearest");
    write_entry(w, guess.nearest->row);
  }
  if (!guess.words.empty()) w.member("guess", guess.words);
  const std::string run = std::to_string(replayed.run.value);
  std::string hint = "put the old code back and: bide retry " + run;
  if (recorded != nullptr)
    hint += "; or go on with the new code from before it: bide fork " + run + " --from " +
            std::to_string(recorded->row.seq - 1) + " --latest";
  w.member("hint", hint);
  return w.end_object().take();
}

}  // namespace bide::flow
