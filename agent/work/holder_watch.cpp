#include "agent/work/holder_watch.h"

#include <poll.h>

#include <algorithm>
#include <csignal>

namespace bide::work {
namespace {

constexpr int kEndLooks = 30;  // some 5 s; then it is not ours to kill: the sweep goes on looking [W7]

}  // namespace

Holder HolderWatch::holder_of(const flow::Attempt::OpenCall& call) const {
  return Holder{attempt_.run().id, call.step, call.nonce, call.holder};
}

bool HolderWatch::look() {
  for (const auto& call : attempt_.open_calls()) {
    if (!call.executing || call.holder.pid == 0 || is_alive(call.holder)) continue;
    // It hands in before it ends: asked again now that it is dead, or what it left behind would be ended for nothing.
    if (!attempt_.executes(call.step, call.nonce)) continue;
    switch (holders_.look(holder_of(call))) {
      case Holders::Found::alive:
      case Holders::Found::lingers: break;
      case Holders::Found::handed_in: attempt_.ring(); break;
      case Holders::Found::gone:
        if (!call.adopted) return false;
        attempt_.holder_gone(call.step, call.nonce);
        break;
    }
  }
  return true;
}

bool HolderWatch::lives(const flow::Attempt::OpenCall& call) {
  if (!call.executing) return false;
  if (call.holder.pid != 0) return is_alive(call.holder);
  return call.verb.pid == 0 || is_alive(call.verb);
}

int HolderWatch::alive() const {
  const auto calls = attempt_.open_calls();
  return static_cast<int>(std::count_if(calls.begin(), calls.end(), lives));
}

int HolderWatch::alive_but_undo() const {
  const auto calls = attempt_.open_calls();
  return static_cast<int>(
      std::count_if(calls.begin(), calls.end(), [](const auto& call) { return !call.undoes && lives(call); }));
}

bool HolderWatch::without_holder() const {
  const auto calls = attempt_.open_calls();
  return std::any_of(calls.begin(), calls.end(),
                     [](const auto& call) { return call.executing && call.holder.pid == 0; });
}

void HolderWatch::terminate() {
  for (const auto& call : attempt_.open_calls()) {
    const ProcessKey& root = call.holder.pid != 0 ? call.holder : call.verb;
    // Of a later process of that number the children are not ours.
    if (!call.executing || call.undoes || root.pid == 0 || !is_alive(root)) continue;
    attempt_.will_signal(call.step);
    for (const ProcessInfo& process : descendants(root.pid)) signal_process(process.key, SIGTERM);
  }
}

void HolderWatch::end() {
  for (const auto& call : attempt_.open_calls()) {
    if (!call.executing || call.undoes || call.holder.pid == 0) continue;
    const Holder holder = holder_of(call);
    int wait = limits::kEndLookMs;
    for (int look = 0; !holders_.end(holder) && look < kEndLooks;
         ++look, wait = std::min(wait * 2, limits::kEndLookMostMs))
      ::poll(nullptr, 0, wait);
  }
}

bool HolderWatch::executes_under(const ProcessKey& holder) const {
  const auto calls = attempt_.open_calls();
  return std::any_of(calls.begin(), calls.end(),
                     [&](const auto& call) { return call.executing && call.holder == holder; });
}

}  // namespace bide::work
