// Strong integer ids. A RunId cannot be passed where a StepId is meant.
// Ids are positive; 0 means "none". An id that has left the file never comes back with another meaning [D2].
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace bide {

template <class Tag>
struct Id {
  std::int64_t value = 0;
  constexpr Id() = default;
  constexpr explicit Id(std::int64_t v) : value(v) {}
  [[nodiscard]] constexpr bool valid() const { return value > 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

using WorkflowId = Id<struct WorkflowTag>;
using VersionId = Id<struct VersionTag>;
using RunId = Id<struct RunTag>;
using StepId = Id<struct StepTag>;
using WaitId = Id<struct WaitTag>;
using SignalId = Id<struct SignalTag>;
using EventId = Id<struct EventTag>;
using DeliveryId = Id<struct DeliveryTag>;  // a row of the outbox
using WebhookId = Id<struct WebhookTag>;
using ProcessId = Id<struct ProcessTag>;  // a row of `processes`, not a pid

}  // namespace bide

template <class Tag>
struct std::hash<bide::Id<Tag>> {
  std::size_t operator()(const bide::Id<Tag>& id) const noexcept { return std::hash<std::int64_t>{}(id.value); }
};
