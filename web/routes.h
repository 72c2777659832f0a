// The routes, by resource. Each reads its request, calls one command or reads one snapshot, and renders what came.
// They decide nothing that the kernel decides.
#pragma once

#include "web/once_after.h"
#include "web/ports.h"
#include "web/router.h"

namespace bide::web {

void add_run_routes(Router& router, Ports& ports);          // /v1/runs
void add_wait_routes(Router& router, Ports& ports);         // /v1/waits, decisions ahead of their question
void add_event_routes(Router& router, Ports& ports);        // /v1/events
void add_log_routes(Router& router, Ports& ports);          // marks in a run's log
void add_attempt_routes(Router& router, Ports& ports);      // /v1/runs/{id}/attempt/
void add_holder_routes(Router& router, Ports& ports);       // /v1/outcomes
void add_remote_routes(Router& router, Ports& ports);       // /v1/workflows, /v1/attempts
void add_link_routes(Router& router, Ports& ports);         // /decide/{token}
void add_task_routes(Router& router, Ports& ports);         // /v1/tasks
void add_agent_routes(Router& router, Ports& ports);        // sweep, health, info, errors, the page's session
void add_outbox_routes(Router& router, Ports& ports);       // /v1/outbox
void add_webhook_routes(Router& router, Ports& ports);      // /v1/webhooks
void add_environment_routes(Router& router, Ports& ports);  // /v1/environments
void add_many_routes(Router& router, Ports& ports);         // /v1/runs/actions, /v1/missions
void add_catalog_routes(Router& router, Ports& ports);      // /v1/workflows
void add_audit_routes(Router& router, Ports& ports);        // /v1/audit
void add_metrics_routes(Router& router, Ports& ports);      // /metrics
void add_export_routes(Router& router, Ports& ports);       // /v1/runs/{id}/export
void add_token_routes(Router& router, Ports& ports);        // /v1/tokens
void add_doctor_routes(Router& router, Ports& ports);       // /v1/doctor
void add_openapi_routes(Router& router);                    // /openapi.json
void add_page_routes(Router& router);                       // /, /page.css, /page.js …

inline void add_routes(Router& router, Ports& ports) {
  add_run_routes(router, ports);
  add_wait_routes(router, ports);
  add_event_routes(router, ports);
  add_log_routes(router, ports);
  add_attempt_routes(router, ports);
  if (ports.holders != nullptr) add_holder_routes(router, ports);
  if (ports.remotes != nullptr) add_remote_routes(router, ports);
  if (ports.remote_tasks != nullptr) add_task_routes(router, ports);
  add_link_routes(router, ports);
  add_agent_routes(router, ports);
  if (ports.deliveries != nullptr) {
    add_outbox_routes(router, ports);
    add_webhook_routes(router, ports);
  }
  if (ports.environments != nullptr) add_environment_routes(router, ports);
  add_many_routes(router, ports);
  add_catalog_routes(router, ports);
  add_audit_routes(router, ports);
  add_metrics_routes(router, ports);
  add_export_routes(router, ports);
  add_token_routes(router, ports);
  add_doctor_routes(router, ports);
  add_openapi_routes(router);
  add_page_routes(router);
  wrap_once_after(router, ports);
}

}  // namespace bide::web
