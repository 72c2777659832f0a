#include "tests/program/fake_agent.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "agent/base/process_tree.h"
#include "tests/support/eventually.h"

namespace bide::test {
namespace {

const std::string kPrefix = "/v1/runs/7/attempt/";
const std::string kOutcomes = "/v1/outcomes/";

std::string header(const std::string& head, const std::string& name) {
  const auto at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const auto from = at + name.size() + 4;
  return head.substr(from, head.find("\r\n", from) - from);
}

}  // namespace

FakeAgent::FakeAgent(Handler handler) : handler_(std::move(handler)) { start(); }

// No guard ends what a verb started here, and verbs do not end by themselves: the test does, by what they carry.
FakeAgent::~FakeAgent() {
  (void)holds_within(std::chrono::seconds(20), [&] { return kill_pass({{}, AttemptMark{socket(), 7, 0}}).empty(); });
  stop();
}

void FakeAgent::start() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
  listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::unlink(socket().c_str());
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 64) != 0) {
    throw std::runtime_error("the fake agent cannot listen");
  }
  stopping_ = false;
  accepting_ = std::thread([this, fd = listener_.get()] { accept_all(fd); });
}

void FakeAgent::stop() {
  if (!accepting_.joinable()) return;
  stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  accepting_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
  }
  for (auto& thread : serving_) thread.join();
  serving_.clear();
  listener_.reset();
  ::unlink(socket().c_str());
}

void FakeAgent::accept_all(int listener) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    {
      const std::lock_guard lock(mutex_);
      connections_.push_back(fd);
    }
    serving_.emplace_back([this, fd] {
      serve(fd);
      const std::lock_guard lock(mutex_);
      connections_.erase(std::find(connections_.begin(), connections_.end(), fd));
      ::close(fd);
    });
  }
}

void FakeAgent::serve(int connection) {
  std::string text;
  std::string head;
  std::size_t length = 0;
  char buffer[65536];
  for (;;) {
    const auto end = text.find("\r\n\r\n");
    if (end != std::string::npos) {
      head = text.substr(0, end + 2);
      const auto value = header(head, "Content-Length");
      length = value.empty() ? 0 : std::stoul(value);
      if (text.size() >= end + 4 + length) {
        text = text.substr(end + 4, length);
        break;
      }
    }
    const ssize_t n = ::recv(connection, buffer, sizeof buffer, 0);
    if (n <= 0) return;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  AgentRequest request;
  request.method = head.substr(0, head.find(' '));
  const auto path_at = request.method.size() + 1;
  const std::string path = head.substr(path_at, head.find(' ', path_at) - path_at);
  request.operation = path.starts_with(kPrefix)     ? path.substr(kPrefix.size())
                      : path.starts_with(kOutcomes) ? path.substr(4)
                                                    : "not ours: " + path;
  request.token = header(head, "Authorization");
  request.has_read = header(head, "Bide-Read") == "true";
  if (!text.empty()) request.body = nlohmann::json::parse(text);
  std::optional<AgentAnswer> answer;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    answer = handler_(request);
  }
  while (answer && answer->status == kLater && !stopping_) {
    ::poll(nullptr, 0, 2);
    const std::lock_guard lock(mutex_);
    answer = handler_(request);
  }
  if (!answer) {  // stays open until either side ends it
    while (::recv(connection, buffer, sizeof buffer, 0) > 0) {
    }
    return;
  }
  if (answer->status == 0) return;
  const std::string body = answer->body.dump();
  const std::string reply = "HTTP/1.1 " + std::to_string(answer->status) + " X\r\nContent-Type: application/json\r\n" +
                            "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  std::size_t sent = 0;
  while (sent < reply.size()) {
    const ssize_t n = ::send(connection, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

std::vector<AgentRequest> FakeAgent::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::vector<AgentRequest> FakeAgent::requests(const std::string& operation) {
  auto all = requests();
  std::erase_if(all, [&](const auto& request) { return request.operation != operation; });
  return all;
}

Command FakeAgent::script(const std::string& text) const {
  const std::string bide = BIDE_EXECUTABLE;
  Command command;
  command.argv = {"sh", "-c", "exec </dev/null; " + text};
  command.cwd = dir_.str();
  command.clear_env = true;
  command.env = {{"PATH", bide.substr(0, bide.rfind('/')) + ":/usr/bin:/bin"},
                 {"BIDE_AGENT", socket()},
                 {"BIDE_RUN", "7"},
                 {"BIDE_ATTEMPT", "bat_7_3_secret"},
                 {"BIDE_INPUT", dir_.str("input")}};
  command.own_group = true;
  return command;
}

AgentAnswer FakeJournal::execute(int id, const char* state) {
  const int n = ++executions_;
  Entry& entry = entries_.at(id);
  entry.nonce = "n" + std::to_string(n);
  entry.outcome.reset();
  return {200,
          {{"state", state},
           {"step", id},
           {"nonce", entry.nonce},
           {"execution", n},
           {"outcome_file", folder + "/" + entry.nonce},
           {"idempotency_key", "key-" + std::to_string(id)}}};
}

AgentAnswer FakeJournal::settled(const std::string& name) {
  return {200, {{"state", "settled"}, {"result", results.at(name)}}};
}

std::optional<AgentAnswer> FakeJournal::of_step(int id, const AgentRequest& request) {
  const auto& body = request.body;
  if (request.operation.ends_with("/hold")) return AgentAnswer{200, {{"state", "execute"}}};
  if (request.operation.ends_with("/await")) return awaited(id);
  if (body.value("verdict", "") == "ran") {
    results[entries_.at(id).name] = body.at("result");
    return settled(entries_.at(id).name);
  }
  if (body.value("verdict", "") == "did_not_run") return execute(id, "hold");
  return std::nullopt;
}

std::optional<AgentAnswer> FakeJournal::awaited(int id) {
  Entry& entry = entries_.at(id);
  if (!entry.outcome) return AgentAnswer{FakeAgent::kLater, {}};
  if (entry.outcome->contains("result")) {
    results[entry.name] = entry.outcome->at("result");
    return settled(entry.name);
  }
  if (entry.outcome->at("unknown") == true || entry.outcome->at("begun") == false) return std::nullopt;
  if (entry.outcome->at("retryable") == true && entry.left-- > 0) return execute(id, "hold");
  if (entry.begun.at("try") == false) return std::nullopt;
  return AgentAnswer{200, {{"state", "failed"}, {"error", entry.outcome->at("error")}}};
}

std::optional<AgentAnswer> FakeJournal::operator()(const AgentRequest& request) {
  const auto& body = request.body;
  if (request.operation == "steps") {
    const std::string name = body.at("name").get<std::string>() + "/" + body.at("key").get<std::string>();
    if (results.contains(name)) return settled(name);
    const int id = static_cast<int>(entries_.size()) + 1;
    entries_[id] = {name, body, body.value("retries", 0)};
    if (const auto probe = probes.find(name); probe != probes.end()) {
      auto answer = execute(id, "probe");
      answer.body["probe"] = probe->second;
      return answer;
    }
    return execute(id, "hold");
  }
  if (request.operation.starts_with("steps/")) return of_step(std::stoi(request.operation.substr(6)), request);
  if (request.operation.starts_with("outcomes/")) {
    for (auto& [id, entry] : entries_) {
      if (request.operation == "outcomes/" + entry.nonce) entry.outcome = body;
    }
    return AgentAnswer{200, {{"state", "recorded"}}};
  }
  if (request.operation == "waits") {
    const auto found = answers.find(body.at("name").get<std::string>());
    if (found == answers.end()) return std::nullopt;
    const std::string outcome = found->second.at("outcome");
    const bool bad = outcome == "denied" || outcome == "changes_requested" || outcome == "expired";
    if (bad && body.at("try") == false) return std::nullopt;
    return AgentAnswer{200, {{"state", "settled"}, {"outcome", outcome}, {"result", found->second.at("result")}}};
  }
  if (request.operation == "values")
    return AgentAnswer{200, {{"state", "settled"}, {"result", "v-" + body.at("name").get<std::string>()}}};
  if (request.operation == "result" || request.operation == "progress") return AgentAnswer{200, {{"state", "ok"}}};
  return std::nullopt;  // end
}

}  // namespace bide::test
