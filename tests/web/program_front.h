// Program: an attempt of a program on an AgentFront, as its verbs see it; its driver only holds it open.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "agent/base/doorbell.h"
#include "agent/kernel/workflows.h"
#include "tests/support/eventually.h"
#include "tests/web/agent_front.h"

namespace bide::test {

// Holds an attempt open until its end is written, as a program does that runs.
class Holder final : public work::Driver {
 public:
  flow::AttemptOptions options(const kernel::VersionRow&) const override {
    flow::AttemptOptions options;
    options.style = flow::Style::program;
    options.secret = "SECRET";
    return options;
  }
  int max_running(WorkflowId) const override { return 0; }
  void drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow&) override {
    ++attempts;
    while (attempt->closing() == flow::Closing::open && !leave.load()) {
      bell_.wait_for(std::chrono::milliseconds(20));
      attempt->refresh();
    }
    if (leave.load()) {
      (void)attempt->finish({attempt->result().value_or("null"), std::nullopt});
    } else if (attempt->closing() == flow::Closing::ending || attempt->closing() == flow::Closing::cancelled) {
      (void)attempt->finish({});
    }
  }
  std::atomic<int> attempts{0};
  std::atomic<bool> leave{false};

 private:
  mutable Doorbell bell_;
};

struct Program {
  Holder holder;
  AgentFront front;
  RunId run;

  explicit Program(web::ServerOptions options = {}) : front(std::move(options)) {
    front.rig.executor->set_program_driver(&holder);
    front.rig.store->write([&](db::Tx& tx) {
      kernel::StartRun start;
      start.workflow = kernel::ensure_workflow(tx, "prog");
      start.version = kernel::ensure_version(tx, start.workflow, "v1", kernel::WorkflowKind::program, "{}", tx.now());
      start.uid = "PROGRAMPROGRAMPROGRAMPROGRA";
      start.input = "{\"file\": \"a\"}";
      start.created_by = "ada";
      run = std::get<kernel::RunStarted>(kernel::start_run(tx, start, tx.now())).run;
    });
    front.rig.executor->ring();
    eventually([&] { return holder.attempts.load() == 1; }, "the program's attempt runs");
  }
  [[nodiscard]] std::string token(const std::string& secret = "SECRET", int epoch = 1) const {
    return "Authorization: Bearer bat_" + std::to_string(run.value) + "_" + std::to_string(epoch) + "_" + secret +
           "\r\n";
  }
  [[nodiscard]] std::string at(const std::string& operation) const {
    return "/v1/runs/" + std::to_string(run.value) + "/attempt/" + operation;
  }
  HttpAnswer post(const std::string& operation, const std::string& body) const {
    return front.ask("POST", at(operation), body, token());
  }
  // Sends and does not wait for an answer.
  HttpClient open(const std::string& operation, const std::string& body) const {
    HttpClient client = front.client();
    client.send("POST " + at(operation) + " HTTP/1.1\r\nHost: localhost\r\n" + token() +
                "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client;
  }
};

}  // namespace bide::test
