#include "agent/kernel/audit_chain.h"

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/text.h"

namespace bide::kernel {
namespace {

#define BIDE_AUDIT_COLUMNS \
  "id, at, run_id, run_uid, workflow, wait_id, name, digest, decided_by, verdict, decision, why, chain "

AuditRow read_row(db::Query& q) {
  AuditRow row;
  row.id = q.integer(0);
  row.at = q.integer(1);
  row.run = q.integer(2);
  row.run_uid = q.text(3);
  row.workflow = q.text(4);
  row.wait = q.maybe_integer(5);
  row.name = q.text(6);
  if (!q.null(7)) row.digest = q.blob(7);
  row.decided_by = q.text(8);
  row.verdict = q.text(9);
  row.decision = q.text(10);
  row.why = q.maybe_text(11);
  if (!q.null(12)) row.chain = q.blob(12);
  return row;
}

// Every column in a fixed order; texts as JSON strings, so that no two rows have one form.
std::string canonical_form(const AuditRow& row) {
  json::Writer out;
  out.begin_array().number(row.id).number(row.at).number(row.run).string(row.run_uid).string(row.workflow);
  row.wait ? out.number(*row.wait) : out.null();
  out.string(row.name);
  row.digest ? out.string(to_hex(*row.digest)) : out.null();
  out.string(row.decided_by).string(row.verdict).string(row.decision);
  row.why ? out.string(*row.why) : out.null();
  return out.end_array().take();
}

std::string hash_of(const std::string& before, const AuditRow& row) {
  const std::string link = before.empty() ? std::string(32, '\0') : before;
  return sha256(link + canonical_form(row));
}

std::optional<AuditHead> read_mark(db::ReadTx& tx, std::string_view key) {
  db::Query q(tx, "SELECT value FROM meta WHERE key = ?");
  q.bind(key);
  if (!q.next()) return std::nullopt;
  return audit_head_from(q.text(0));
}

void write_mark(db::Tx& tx, std::string_view key, const AuditHead& head) {
  db::Query(tx, "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
      .bind(key, to_text(head))
      .run();
}

constexpr std::string_view kHead = "audit_head";
constexpr std::string_view kBase = "audit_base";  // the last row that retention took

std::optional<std::string> unhex(std::string_view text) {
  std::string percent;
  if (text.size() != 64) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) percent.append("%").append(text.substr(i, 2));
  return percent_decode(percent);
}

}  // namespace

std::string to_text(const AuditHead& head) { return std::to_string(head.id) + ":" + to_hex(head.hash); }

std::optional<AuditHead> audit_head_from(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto id = parse_number(text.substr(0, colon));
  const auto hash = unhex(text.substr(colon + 1));
  if (!id || !hash || hash->size() != 32) return std::nullopt;
  return AuditHead{*id, *hash};
}

AuditHead audit_head(db::ReadTx& tx) {
  db::Query q(tx, "SELECT id, chain FROM approvals_audit ORDER BY id DESC LIMIT 1");
  if (q.next()) return {q.integer(0), q.null(1) ? std::string() : q.blob(1)};
  return read_mark(tx, kBase).value_or(AuditHead{});
}

void chain_audit(db::Tx& tx, std::int64_t id) {
  std::string before;
  {
    db::Query q(tx, "SELECT chain FROM approvals_audit WHERE id < ? ORDER BY id DESC LIMIT 1");
    q.bind(id);
    if (q.next()) {
      if (!q.null(0)) before = q.blob(0);
    } else if (const auto base = read_mark(tx, kBase)) {
      before = base->hash;
    }
  }
  std::string hash;
  {
    db::Query q(tx, "SELECT " BIDE_AUDIT_COLUMNS "FROM approvals_audit WHERE id = ?");
    q.bind(id);
    hash = hash_of(before, read_row(q.one()));
  }
  db::Query(tx, "UPDATE approvals_audit SET chain = ?2 WHERE id = ?1").bind(id, db::Blob{hash}).run();
  write_mark(tx, kHead, {id, hash});
}

std::int64_t keep_chain_base(db::Tx& tx, TimeMs upto, int most) {
  AuditHead base;
  {
    // A clock that was set back leaves rows that are later than those after them: they hold these.
    db::Query q(tx,
                "SELECT id, chain FROM approvals_audit WHERE id = (SELECT coalesce(min(id) FILTER (WHERE at > ?1) - 1, "
                "max(id)) FROM (SELECT id, at FROM approvals_audit ORDER BY id LIMIT ?2))");
    q.bind(upto, most);
    if (!q.next()) return 0;
    base = {q.integer(0), q.null(1) ? std::string() : q.blob(1)};
  }
  if (!base.hash.empty()) write_mark(tx, kBase, base);
  return base.id;
}

namespace {

AuditCheck found(AuditCheck check, AuditCheck::Verdict verdict, std::int64_t row, std::string why) {
  check.verdict = verdict;
  check.row = row;
  check.why = std::move(why);
  return check;
}

// What the file, and who remembers, say of the chain's end.
AuditCheck check_end(db::ReadTx& tx, AuditCheck check, const std::optional<AuditHead>& seen, bool met_seen,
                     std::int64_t first) {
  using Verdict = AuditCheck::Verdict;
  const auto mark = read_mark(tx, kHead);
  if (mark && (mark->id != check.head.id || mark->hash != check.head.hash)) {
    return found(std::move(check), Verdict::tampered, mark->id, "the last decision that was written is not the last");
  }
  if (!mark && check.rows > 0) return found(std::move(check), Verdict::tampered, 0, "the mark of the last one is gone");
  if (!seen || met_seen || seen->id == 0) return check;
  if (seen->id < first) {
    return found(std::move(check), Verdict::cannot_tell, seen->id,
                 "the head that was given is older than what is kept");
  }
  return found(std::move(check), Verdict::tampered, seen->id, "the chain does not go through the head that was given");
}

}  // namespace

AuditCheck check_audit(db::ReadTx& tx, const std::optional<AuditHead>& seen) {
  using Verdict = AuditCheck::Verdict;
  AuditCheck check;
  const AuditHead base = read_mark(tx, kBase).value_or(AuditHead{});
  check.head = base;
  std::string before = base.hash;
  bool met_seen = seen && base.id > 0 && seen->id == base.id && seen->hash == base.hash;
  std::int64_t first = base.id;
  std::int64_t unchained = 0;
  db::Query q(tx, "SELECT " BIDE_AUDIT_COLUMNS "FROM approvals_audit ORDER BY id");
  while (q.next()) {
    const AuditRow row = read_row(q);
    ++check.rows;
    if (first == 0) first = row.id;
    if (!row.chain && check.head.id == base.id && base.id == 0) {
      ++unchained;  // from before there was a chain
      continue;
    }
    if (row.id <= base.id) return found(std::move(check), Verdict::tampered, row.id, "a row that was deleted is back");
    if (check.head.id > 0 && row.id != check.head.id + 1) {  // ids are given in order, and retention takes the oldest
      return found(std::move(check), Verdict::tampered, row.id, "rows before this one are missing");
    }
    if (!row.chain || *row.chain != hash_of(before, row)) {
      return found(std::move(check), Verdict::tampered, row.id, "a row is not what it was when it was written");
    }
    before = *row.chain;
    check.head = {row.id, *row.chain};
    if (seen && seen->id == row.id && seen->hash == *row.chain) met_seen = true;
  }
  if (unchained == check.rows && unchained > 0) {
    if (seen || read_mark(tx, kHead)) {
      return found(std::move(check), Verdict::tampered, first, "no row has a hash any more, and there was a chain");
    }
    return found(std::move(check), Verdict::cannot_tell, first, "no row has a hash: they are from an older bide");
  }
  check = check_end(tx, std::move(check), seen, met_seen, first);
  if (check.verdict == Verdict::whole && unchained > 0) {
    return found(std::move(check), Verdict::cannot_tell, first,
                 "the first " + std::to_string(unchained) + " rows have no hash: they are from an older bide");
  }
  return check;
}

std::vector<AuditRow> list_audit(db::ReadTx& tx, const AuditFilter& filter) {
  std::vector<AuditRow> rows;
  db::Query q(tx, "SELECT " BIDE_AUDIT_COLUMNS
                  "FROM approvals_audit WHERE (?1 = 0 OR id < ?1) AND (?2 IS NULL OR run_id = ?2) AND (?3 IS NULL OR "
                  "decided_by = ?3) AND (?4 IS NULL OR verdict = ?4) ORDER BY id DESC LIMIT ?5");
  q.bind(filter.before, filter.run, filter.decided_by, filter.verdict, filter.limit);
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

}  // namespace bide::kernel
