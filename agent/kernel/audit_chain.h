// The chain of decisions [A7]: each row of the audit holds the SHA-256 of its predecessor's hash and of itself in a
// canonical form, so that a row that is changed, removed or put in later breaks every hash after it. Where the chain
// ends stands in `meta`, and from time to time in the log, which nobody who can write the file has to be able to write:
// whoever makes the whole chain anew does not have that head any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/tx.h"

namespace bide::kernel {

struct AuditHead {
  std::int64_t id = 0;  // of the last row; 0: there is none
  std::string hash;     // 32 raw bytes
};
// "12:9f86d0…", as it stands in the log; nullopt: not such a text.
[[nodiscard]] std::string to_text(const AuditHead& head);
[[nodiscard]] std::optional<AuditHead> audit_head_from(std::string_view text);

// Gives the row that was inserted last its hash.
void chain_audit(db::Tx& tx, std::int64_t row);
// Before retention deletes: the last of the oldest rows that were written until `upto`, of which there are `most` at
// most and no later one among them; 0: none. The chain begins after it then.
[[nodiscard]] std::int64_t keep_chain_base(db::Tx& tx, TimeMs upto, int most);
[[nodiscard]] AuditHead audit_head(db::ReadTx& tx);

struct AuditCheck {
  enum class Verdict { whole, tampered, cannot_tell };
  Verdict verdict = Verdict::whole;
  std::string why;        // empty: whole
  std::int64_t rows = 0;  // that were looked at
  std::int64_t row = 0;   // the first one that does not fit
  AuditHead head;
};
// Goes through the whole chain. `seen`: a head from the log, through which the chain must still go. cannot_tell: rows
// from before there was a chain, or `seen` is older than what is kept.
[[nodiscard]] AuditCheck check_audit(db::ReadTx& tx, const std::optional<AuditHead>& seen);

struct AuditRow {
  std::int64_t id = 0;
  TimeMs at = 0;
  std::int64_t run = 0;
  std::string run_uid;
  std::string workflow;
  std::optional<std::int64_t> wait;
  std::string name;
  std::optional<std::string> digest;  // raw bytes
  std::string decided_by;
  std::string verdict;
  std::string decision;  // JSON
  std::optional<std::string> why;
  std::optional<std::string> chain;  // raw bytes
};
struct AuditFilter {
  std::optional<std::int64_t> run;
  std::optional<std::string> decided_by;
  std::optional<std::string> verdict;
  std::int64_t before = 0;  // 0: from the newest
  int limit = 50;
};
// Newest first.
[[nodiscard]] std::vector<AuditRow> list_audit(db::ReadTx& tx, const AuditFilter& filter);

}  // namespace bide::kernel
