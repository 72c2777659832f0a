#include "agent/work/audit_log.h"

#include <algorithm>

#include "agent/base/limits_api.h"
#include "agent/base/log.h"
#include "agent/kernel/audit_chain.h"

namespace bide::work {

std::int64_t AuditLog::pass() {
  const BootMs now = store_.system_clock().boot_ms();
  if (said_at_ && now - *said_at_ < limits::kAuditHeadMs) return 0;
  return say();
}

std::optional<DurationMs> AuditLog::look() {
  const auto head = store_.read([](db::ReadTx& tx) { return kernel::audit_head(tx); });
  if (head.id == said_ || head.hash.empty()) return std::nullopt;
  if (!said_at_) return 0;
  return std::max<DurationMs>(1, *said_at_ + limits::kAuditHeadMs - store_.system_clock().boot_ms());
}

std::int64_t AuditLog::say() {
  const auto head = store_.read([](db::ReadTx& tx) { return kernel::audit_head(tx); });
  if (head.id == said_ || head.hash.empty()) return 0;
  log::info("audit.head", {{"head", kernel::to_text(head)}});
  said_ = head.id;
  said_at_ = store_.system_clock().boot_ms();
  return 1;
}

}  // namespace bide::work
