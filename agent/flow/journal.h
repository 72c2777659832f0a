// Journal: what an attempt knows of its run's entries, and which of them its code has asked for.
// Not thread-safe: Attempt guards it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/process_tree.h"
#include "agent/base/time.h"
#include "agent/flow/ask.h"
#include "agent/kernel/steps.h"

namespace bide::flow {

struct Entry {
  kernel::StepRow row;
  std::string place;       // programs: position without n
  bool stored = false;     // the row was in the file when the attempt began, or its intent is durable
  bool visited = false;    // asked for by this attempt
  bool open = false;       // an operation of this attempt is in progress on it
  bool executing = false;  // its effect runs
  bool starting = false;   // executing, but its intent may not be durable yet: nobody may begin [J1]
  int turn = 0;            // of the connection that waits on it: a newer one of the same verb takes over
  std::string key_uid;     // whose keys it has, if not the run's: a copied entry's, or its compensation's [X4]
  bool charged = false;    // its usage counts in this attempt's sum [J7]
  bool probed = false;     // its probe was asked in this attempt
  bool signalled = false;  // its command was told to end by us: what it says of that is no outcome [E7]
  bool offered = false;    // executing, but its holder is not ready: nothing is written, nothing runs
  bool adopted = false;    // executing under a holder that an earlier attempt began
  bool taking = false;     // what its holder handed in is being recorded
  bool opening = false;    // remote: the request that asked for it first is writing it
  WaitId waits_on;         // remote: what it waits for; invalid: a retry, a task
  bool may_suspend = false;
  ProcessKey holder;                              // who runs its command; pid 0: nobody, or the verb itself
  StepAsk ask;                                    // as this attempt asked
  std::shared_ptr<std::atomic<bool>> superseded;  // tells a riding intent that the outcome carries it [J1]
  BootMs deadline_boot_ms = 0;                    // of the present execution; 0: none
  ProcessKey verb;                                // programs: the verb that asks for it and is not answered yet
  bool told = false;  // rehearsals: settled when this attempt last answered a verb, or before

  [[nodiscard]] bool is_settled() const {
    return row.status == kernel::StepStatus::completed || row.status == kernel::StepStatus::failed;
  }
};

class Journal {
 public:
  explicit Journal(std::vector<kernel::StepRow> rows);

  [[nodiscard]] Entry* find(std::string_view position);
  [[nodiscard]] Entry* by_seq(std::int64_t seq);
  Entry& add(kernel::StepRow row, std::string place);
  [[nodiscard]] std::size_t size() const { return by_seq_.size(); }
  [[nodiscard]] std::int64_t next_seq() { return ++last_seq_; }

  // V3. Another entry of the same place, asked or not, with this request (and caller).
  [[nodiscard]] const Entry* sibling_with(std::string_view place, const Entry* but,
                                          std::string_view request_hash) const;
  [[nodiscard]] const Entry* sibling_from(std::string_view place, const Entry* but, std::string_view caller_hash) const;
  // A loop: it has several entries.
  [[nodiscard]] bool several_at(std::string_view place) const;
  // The entry of this place on which an operation is open, or null.
  [[nodiscard]] Entry* open_at(std::string_view place);
  // A settled non_idempotent entry of an earlier attempt with this request that this one has not asked for.
  [[nodiscard]] const Entry* unasked_with(std::string_view request_hash, std::int64_t epoch) const;
  // J9.
  [[nodiscard]] const Entry* first_unvisited() const;
  [[nodiscard]] const Entry* first_open() const;
  [[nodiscard]] const std::map<std::int64_t, std::unique_ptr<Entry>>& all() const { return by_seq_; }
  // Those that are open or executing, by seq: few, of a run that may have 100 000. What becomes so is told by begins();
  // what is neither any more leaves by itself.
  using Entries = std::map<std::int64_t, Entry*>;
  void begins(Entry& entry) { at_work_.emplace(entry.row.seq, &entry); }
  [[nodiscard]] const Entries& at_work() const;

 private:
  std::map<std::int64_t, std::unique_ptr<Entry>> by_seq_;
  std::map<std::string, Entry*, std::less<>> by_position_;
  std::multimap<std::string, Entry*, std::less<>> by_place_;
  mutable Entries at_work_;
  std::int64_t last_seq_ = 0;
};

}  // namespace bide::flow
