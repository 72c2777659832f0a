// The routes, by resource. Each reads its request, calls one command or reads one snapshot, and renders what came.
// They decide nothing that the kernel decides.
#pragma once

#include "web/ports.h"
#include "web/router.h"

namespace bide::web {

void add_run_routes(Router& router, Ports& ports);          // /v1/runs
void add_wait_routes(Router& router, Ports& ports);         // /v1/waits, decisions ahead of their question
void add_event_routes(Router& router, Ports& ports);        // /v1/events
void add_attempt_routes(Router& router, Ports& ports);      // /v1/runs/{id}/attempt/
void add_holder_routes(Router& router, Ports& ports);       // /v1/outcomes
void add_agent_routes(Router& router, Ports& ports);        // sweep, health, info, errors, the page's session
void add_outbox_routes(Router& router, Ports& ports);       // /v1/outbox
void add_webhook_routes(Router& router, Ports& ports);      // /v1/webhooks
void add_environment_routes(Router& router, Ports& ports);  // /v1/environments
void add_page_routes(Router& router);                       // /, /page.css, /page.js …

inline void add_routes(Router& router, Ports& ports) {
  add_run_routes(router, ports);
  add_wait_routes(router, ports);
  add_event_routes(router, ports);
  add_attempt_routes(router, ports);
  if (ports.holders != nullptr) add_holder_routes(router, ports);
  add_agent_routes(router, ports);
  if (ports.deliveries != nullptr) {
    add_outbox_routes(router, ports);
    add_webhook_routes(router, ports);
  }
  if (ports.environments != nullptr) add_environment_routes(router, ports);
  add_page_routes(router);
}

}  // namespace bide::web
