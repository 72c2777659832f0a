// PushBox: a rig whose tasks of the function "shrink" are called at a URL, through the outbox [K8].
//   PushBox box;
//   box.rig.add("chore", …); box.open(); box.answer(200, "1"); const RunId run = box.rig.start("chore"); box.go();
#pragma once

#include <memory>
#include <string>

#include "agent/work/remote_tasks.h"
#include "tests/support/rig.h"
#include "tests/work/wire.h"

namespace bide::test {

struct PushBox {
  Rig rig;
  std::unique_ptr<work::RemoteTasks> remote;
  Wire transport{rig.transport};

  PushBox() {
    rig.deliveries.emplace();
    rig.add_task("local", [](const std::string& request, const flow::EffectInfo&) { return request; });
  }
  // Once the workflows are added.
  void open() {
    rig.restart();
    wire();
    remote->set_function({"shrink", "https://app.example/shrink"}, "ada");
  }
  // After each restart.
  void wire() {
    remote = std::make_unique<work::RemoteTasks>(*rig.store, rig.random, *rig.executor, *rig.feed);
    remote->learn();
    rig.deliverer->set_task_answered([this](db::Tx& tx, DeliveryId id, int status, const std::string& body) {
      remote->answered(tx, id, status, body);
    });
    rig.sweep->add("undispatched", [this](TimeMs now) { return remote->push(now); });
  }
  void answer(int status, const std::string& body) {
    transport.answers([status, body](const work::Envelope&) {
      work::Answered answered = MemoryTransport::status(status);
      answered.body = body;
      return answered;
    });
  }
  // The run asks, the task is pushed, and the endpoint answers.
  void go() {
    rig.drive();
    (void)rig.sweep->pass();
    (void)rig.deliver();
    rig.drive();
  }
};

}  // namespace bide::test
