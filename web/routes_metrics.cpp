// /metrics in OpenMetrics 1.0. No run, wait or name that users give is a label: the number of series is
// fixed.
#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/time.h"
#include "agent/kernel/metrics.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

// Writes families in order. A counter's samples end in _total.
class Exposition {
 public:
  Exposition& family(std::string_view name, std::string_view type, std::string_view help, std::string_view unit = {}) {
    name_ = std::string(name);
    total_ = type == "counter" ? "_total" : "";
    out_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
    if (!unit.empty()) out_.append("# UNIT ").append(name).append(" ").append(unit).append("\n");
    out_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    return *this;
  }
  Exposition& sample(std::int64_t value, std::string_view label = {}, std::string_view of = {}) {
    return sample_text(std::to_string(value), label, of);
  }
  Exposition& seconds(DurationMs length) {
    const std::string digits = std::to_string(1000 + length % 1000);
    return sample_text(std::to_string(length / 1000) + "." + digits.substr(1), {}, {});
  }
  Exposition& info(std::string_view label, std::string_view of) {
    total_ = "_info";
    return sample_text("1", label, of);
  }
  [[nodiscard]] std::string take() { return std::move(out_.append("# EOF\n")); }

 private:
  Exposition& sample_text(const std::string& value, std::string_view label, std::string_view of) {
    out_.append(name_).append(total_);
    if (!label.empty()) out_.append("{").append(label).append("=\"").append(of).append("\"}");
    out_.append(" ").append(value).append("\n");
    return *this;
  }
  std::string out_;
  std::string name_;
  std::string total_;
};

void write_runs(Exposition& out, const kernel::Metrics& m, TimeMs now) {
  const auto runs = [&m](kernel::RunStatus status) {
    const auto found = m.runs.find(status);
    return found == m.runs.end() ? 0 : found->second;
  };
  out.family("bide_runs", "gauge", "Runs by state; ended are all that are kept, failed are among them.");
  for (const auto status :
       {kernel::RunStatus::queued, kernel::RunStatus::running, kernel::RunStatus::waiting, kernel::RunStatus::failed}) {
    out.sample(runs(status), "state", to_text(status));
  }
  out.sample(m.runs_ended, "state", "ended").sample(m.runs_paused, "state", "paused");
  out.family("bide_waits_pending", "gauge", "What waits for a person, by kind.");
  for (const char* kind : {"approval", "question", "reconcile"}) {
    const auto found = m.waits.find(kind);
    out.sample(found == m.waits.end() ? 0 : found->second, "kind", kind);
  }
  out.family("bide_oldest_wait_seconds", "gauge", "How long the oldest of these waits; 0: none does.", "seconds");
  out.seconds(m.oldest_wait_at ? std::max<DurationMs>(0, now - *m.oldest_wait_at) : 0);
}

void write_outbox(Exposition& out, const kernel::Metrics& m, TimeMs now) {
  out.family("bide_outbox_rows", "gauge", "Deliveries that have not gone out.");
  out.sample(m.outbox, "state", "due").sample(m.outbox_parked, "state", "parked");
  out.family("bide_outbox_lag_seconds", "gauge", "Age of the oldest delivery that is not parked.", "seconds");
  out.seconds(m.outbox_oldest_at ? std::max<DurationMs>(0, now - *m.outbox_oldest_at) : 0);
  out.family("bide_audit_rows", "gauge", "Decisions that the audit keeps.").sample(m.decisions);
}

void write_store(Exposition& out, const db::StoreHealth& health) {
  out.family("bide_wal_bytes", "gauge", "Size of the write-ahead log.", "bytes").sample(health.wal_bytes);
  out.family("bide_commits", "counter", "Commits since the start.");
  out.sample(static_cast<std::int64_t>(health.commits));
  out.family("bide_jobs", "counter", "Transactions since the start; by commits: how many share one.");
  out.sample(static_cast<std::int64_t>(health.jobs));
  out.family("bide_writer_queue", "gauge", "Transactions that wait for the writer.");
  out.sample(static_cast<std::int64_t>(health.queued_jobs));
  out.family("bide_storage_full", "gauge", "1: the disk is full, nothing new is taken.").sample(health.storage_full);
  out.family("bide_foreign_writer_seen", "gauge", "1: another program wrote into the file.");
  out.sample(health.foreign_writer_seen);
}

void write_sweep(Exposition& out, const work::Sweep& sweep) {
  out.family("bide_sweep_passes", "counter", "Passes of the sweep.").sample(static_cast<std::int64_t>(sweep.passes()));
  out.family("bide_sweep_errors", "counter", "Duties of the sweep that failed.");
  out.sample(static_cast<std::int64_t>(sweep.errors()));
}

Response metrics(Ports& ports, Request&) {
  db::Store& store = ports.commands.store();
  const TimeMs now = store.now();
  const kernel::Metrics m = store.read([](db::ReadTx& tx) { return kernel::read_metrics(tx); });
  Exposition out;
  out.family("bide_build", "info", "The agent's version.").info("version", ports.version);
  write_runs(out, m, now);
  write_outbox(out, m, now);
  write_store(out, store.health());
  out.family("bide_clock_held", "gauge", "1: the clock is behind the file's, timers rest.");
  out.sample(store.clock().held());
  out.family("bide_clock_steps", "counter", "Times the wall clock jumped by over a minute, or was accepted elsewhere.");
  out.sample(static_cast<std::int64_t>(store.clock().steps()));
  out.family("bide_draining", "gauge", "1: nothing is claimed, an operator lets the agent run dry.");
  out.sample(ports.commands.executor().door().is_shut());
  write_sweep(out, ports.commands.sweep());
  if (ports.streams != nullptr) {
    const StreamCounts streams = ports.streams->counts();
    out.family("bide_streams", "gauge", "Readers of events.").sample(streams.open);
    out.family("bide_streams_refused", "counter", "Readers beyond the bound.");
    out.sample(static_cast<std::int64_t>(streams.refused));
  }
  Response response;
  response.content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
  response.body = out.take();
  return response;
}

}  // namespace

void add_metrics_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/metrics", kRead, with(metrics));
}

}  // namespace bide::web
