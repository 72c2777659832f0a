#include "agent/flow/nondeterminism.h"

#include "agent/base/json.h"

namespace bide::flow {

std::string nondeterminism(RunId run, const Entry* recorded, const Attempted& attempted, std::string_view message) {
  json::Writer w;
  w.begin_object().member("code", "NonDeterminism").member("message", std::string(message));
  if (recorded != nullptr) {
    w.key("recorded").begin_object();
    w.member("position", recorded->row.position).member("kind", std::string(to_text(recorded->row.kind)));
    w.member("name", recorded->row.name).member("effect", std::string(to_text(recorded->row.effect)));
    w.member_raw("request", recorded->row.request).end_object();
  }
  w.key("attempted").begin_object();
  w.member("position", attempted.position).member("kind", std::string(to_text(attempted.kind)));
  w.member("name", attempted.ask.name).member("effect", std::string(to_text(attempted.ask.effect)));
  w.member_raw("request", attempted.ask.request).end_object();
  w.member("hint", "put the old code back and: bide retry " + std::to_string(run.value));
  return w.end_object().take();
}

}  // namespace bide::flow
