// GET /v1/runs/{id}/export: the whole history of a run as one JSON document, from one snapshot. It is written to a file
// without a name, page by page, and sent from there: memory stays small, whatever the run has gathered.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/kernel/audit_chain.h"
#include "agent/kernel/event_stream.h"
#include "agent/kernel/waits.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/render.h"
#include "web/routes.h"

namespace bide::web {
namespace {

constexpr int kRows = 100;  // read at a time: 100 results of 1 MiB at worst
constexpr std::size_t kWriteBytes = 1 << 20;

// Not every file system makes a file without a name.
Fd nameless_file(const std::string& folder) {
  Fd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid() || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = folder + "/.export-XXXXXX";
  fd = Fd(::mkostemp(path.data(), O_CLOEXEC));
  if (fd.valid()) ::unlink(path.c_str());
  return fd;
}

class Spool {
 public:
  explicit Spool(const std::string& folder) : fd_(nameless_file(folder)) {
    if (!fd_.valid()) throw std::runtime_error("no file for an export: " + std::string(std::strerror(errno)));
  }
  void add(std::string_view text) {
    held_ += text;
    if (held_.size() >= kWriteBytes) write_out();
  }
  [[nodiscard]] FileBytes take() {
    write_out();
    return FileBytes{std::move(fd_), 0, size_};
  }

 private:
  void write_out() {
    std::string_view rest = held_;
    while (!rest.empty()) {
      const ssize_t put = ::write(fd_.get(), rest.data(), rest.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && (errno == ENOSPC || errno == EDQUOT)) throw StorageFull("the disk is full: no export");
      if (put < 0) throw std::runtime_error("an export could not be written: " + std::string(std::strerror(errno)));
      rest.remove_prefix(static_cast<std::size_t>(put));
      size_ += put;
    }
    held_.clear();
  }

  Fd fd_;
  std::string held_;
  std::int64_t size_ = 0;
};

// Pages of rows as one array. `next` writes a page of items into the writer, apart from each other, and says how many
// rows it read.
template <class Rows, class Write>
void add_array(Spool& spool, const char* name, Rows rows, Write write) {
  spool.add(",\n\"" + std::string(name) + "\":[");
  bool first = true;
  while (true) {
    const auto page = rows();
    for (const auto& row : page) {
      json::Writer out;
      write(out, row);
      spool.add(first ? "\n" : ",\n");
      spool.add(out.text());
      first = false;
    }
    if (page.size() < static_cast<std::size_t>(kRows)) break;
  }
  spool.add("]");
}

void write_decision(json::Writer& out, const kernel::AuditRow& row) {
  out.begin_object().member("id", row.id).member("at", format_time(row.at)).member("name", row.name);
  out.member("decided_by", row.decided_by).member("verdict", row.verdict).member_raw("decision", row.decision);
  out.key("why");
  row.why ? out.string(*row.why) : out.null();
  out.end_object();
}

void add_history(Spool& spool, db::ReadTx& tx, RunId run, const std::string& workflow) {
  std::int64_t seq = 0;
  add_array(
      spool, "journal",
      [&] {
        auto page = kernel::journal_page(tx, run, seq, kRows);
        if (!page.empty()) seq = page.back().seq;
        return page;
      },
      [](json::Writer& out, const kernel::StepRow& step) { write_step(out, step); });
  kernel::WaitFilter waits;
  waits.run = run;
  waits.limit = kRows;
  add_array(
      spool, "waits",
      [&] {
        auto page = kernel::list_waits(tx, waits);
        if (!page.empty()) waits.after = page.back().id;
        return page;
      },
      [&](json::Writer& out, const kernel::WaitRow& wait) { write_wait(out, wait, workflow); });
  EventId event;
  add_array(
      spool, "events",
      [&] {
        auto page = kernel::events_after(tx, event, run, kRows);
        if (!page.empty()) event = page.back().id;
        return page;
      },
      [](json::Writer& out, const kernel::EventRow& row) { write_event(out, row); });
  kernel::AuditFilter audit;
  audit.run = run.value;
  audit.limit = kRows;
  add_array(
      spool, "decisions",
      [&] {
        auto page = kernel::list_audit(tx, audit);
        if (!page.empty()) audit.before = page.back().id;
        return page;
      },
      write_decision);
}

Response export_run(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const RunId run(std::get<std::int64_t>(id));
  db::Store& store = ports.commands.store();
  return store.read([&](db::ReadTx& tx) {
    const auto row = kernel::read_run(tx, run);
    if (!row) {
      return problem_response(problem("run_not_found", "there is no run " + std::to_string(run.value), "bide runs"));
    }
    Spool spool(store.directory());
    json::Writer head;
    write_run(head, *row);
    spool.add("{\"bide\":" + json::quote(ports.version) + ",\"exported_at\":" + json::quote(format_time(store.now())) +
              ",\n\"run\":" + head.text());
    add_history(spool, tx, run, row->workflow_name);
    spool.add("\n}\n");
    Response response;
    response.file = spool.take();
    response.with("Content-Disposition", "attachment; filename=\"run-" + std::to_string(run.value) + ".json\"");
    return response;
  });
}

}  // namespace

void add_export_routes(Router& router, Ports& ports) {
  router.get(
      "/v1/runs/{id}/export", kRead, [&ports](Request& request) { return export_run(ports, request); }, Lane::waits);
}

}  // namespace bide::web
