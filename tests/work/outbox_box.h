// What the tests of the outbox share: a rig whose deliveries go to memory, and once more to a receiver over HTTP; rows
// written by hand, and the lines that are logged meanwhile.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "agent/kernel/outbox.h"
#include "tests/support/rig.h"
#include "tests/work/wire.h"

namespace bide::test {

struct OutboxBox : Rig {
  explicit OutboxBox(work::DelivererOptions options = {}, Mode mode = Mode::inlined) : Rig(mode) {
    deliveries = options;
  }
  void open() {
    if (GENERATE(false, true)) transport.over_http();
    add("flow", [](flow::Context&) { return std::string("null"); });
    (void)start("flow");
    drive();
    transport.forget();
  }
  DeliveryId write(const std::string& url = "http://a.example/", const std::string& body = "{}") {
    return store->write([&](db::Tx& tx) { return row(tx, url, body); });
  }
  // A row whose try after the COMMIT was dropped.
  DeliveryId write_quietly(const std::string& url = "http://a.example/", const std::string& body = "{}") {
    const DeliveryId id = write(url, body);
    (void)fresh->take(1000);
    return id;
  }
  DeliveryId row(db::Tx& tx, const std::string& url, const std::string& body) {
    kernel::NewDelivery made;
    made.destination = url;
    made.request = body;
    made.idem_key = "key-" + std::to_string(++keys);
    return kernel::write_delivery(tx, made, tx.now());
  }
  std::optional<kernel::OutboxRow> read(DeliveryId id) {
    return store->read([&](db::ReadTx& tx) { return kernel::read_delivery(tx, id); });
  }
  void make_due(DeliveryId id) { exec("UPDATE outbox SET next_try_at = 0 WHERE id = " + std::to_string(id.value)); }
  // One pass, and all that it handed out.
  std::int64_t pass() {
    const auto report = sweep->pass();
    deliver();
    for (const auto& duty : report.duties) {
      if (duty.name == "outbox") return duty.done;
    }
    return -1;
  }
  int rows() { return static_cast<int>(number("SELECT count(*) FROM outbox")); }
  int keys = 0;
  Wire transport{Rig::transport};  // hides it
};

// Lines that the process logs meanwhile.
class Logged {
 public:
  explicit Logged(const TempDir& dir) : file_(dir.str("log")), kept_(::dup(2)) {
    const int to = ::open(file_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    ::dup2(to, 2);
    ::close(to);
  }
  ~Logged() { end(); }
  void end() {
    if (kept_ < 0) return;
    ::dup2(kept_, 2);
    ::close(kept_);
    kept_ = -1;
  }
  int lines(const std::string& with) {
    end();
    const std::string text = read_file(file_);
    int found = 0;
    for (std::size_t at = text.find(with); at != std::string::npos; at = text.find(with, at + 1)) ++found;
    return found;
  }

 private:
  std::string file_;
  int kept_;
};

}  // namespace bide::test
