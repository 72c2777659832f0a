#include "agent/work/delivery.h"

#include <fcntl.h>
#include <httplib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "agent/base/limits.h"
#include "agent/work/exchange.h"
#include "agent/work/reach.h"
#include "agent/work/tls.h"

namespace bide::work {
namespace {

// What httplib reads and writes through: our connection, with our deadline, and a cap on what comes back.
class ExchangeStream final : public httplib::Stream {
 public:
  ExchangeStream(Exchange& exchange, std::size_t most) : exchange_(exchange), most_(most) {}
  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    if (at_ == buffer_.size()) {
      buffer_.resize(4'096);
      const long got = exchange_.read(buffer_.data(), buffer_.size());
      buffer_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      at_ = 0;
      if (got <= 0) return got;
      total_ += buffer_.size();
      if (too_large()) return -1;
    }
    const std::size_t taken = std::min(size, buffer_.size() - at_);
    std::copy_n(buffer_.data() + at_, taken, to);
    at_ += taken;
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const char* from, size_t size) override {
    std::size_t done = 0;
    while (done < size) {
      const long put = exchange_.write(from + done, size - done);
      if (put < 0) return -1;
      done += static_cast<std::size_t>(put);
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return exchange_.fd(); }
  [[nodiscard]] bool too_large() const { return total_ > most_; }

 private:
  Exchange& exchange_;
  const std::size_t most_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::size_t total_ = 0;
};

// httplib writes the request and reads the answer; it neither resolves nor connects. It closes the descriptor that it
// is given, so it gets a copy of its own.
class PinnedClient final : public httplib::ClientImpl {
 public:
  PinnedClient(const Url& url, Exchange& exchange, std::size_t most)
      : ClientImpl(url.host, url.port), exchange_(exchange), most_(most) {
    set_url_encode(false);  // the target goes out as it was written
    set_decompress(false);
    set_follow_location(false);
    set_keep_alive(false);
  }
  [[nodiscard]] bool too_large() const { return too_large_; }

 private:
  bool create_and_connect_socket(Socket& socket, httplib::Error& error) override {
    socket.sock = ::fcntl(exchange_.fd(), F_DUPFD_CLOEXEC, 0);
    if (socket.sock >= 0) return true;
    error = httplib::Error::Connection;
    return false;
  }
  bool process_socket(const Socket&, std::function<bool(httplib::Stream&)> use) override {
    ExchangeStream stream(exchange_, most_);
    const bool well = use(stream);
    too_large_ = stream.too_large();
    return well;
  }

  Exchange& exchange_;
  const std::size_t most_;
  bool too_large_ = false;
};

Answered failed(std::string why) { return {Answered::Kind::failed, 0, std::move(why), {}}; }
Answered never(std::string why) { return {Answered::Kind::never, 0, std::move(why), {}}; }

}  // namespace

struct HttpTransport::Impl {
  Impl(Clock& given, Resolver& names, const HttpTransportOptions& chosen)
      : clock(given),
        reach{given, names, chosen.own, chosen.has_network},
        context(make_tls_context(chosen.ca_file)),
        closing(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  [[nodiscard]] std::optional<Answered> connect(Exchange& exchange, const std::vector<Address>& addresses,
                                                BootMs deadline);
  [[nodiscard]] Answered ask(Exchange& exchange, const Url& url, const Envelope& envelope) const;
  [[nodiscard]] Answered trouble_of(const Exchange& exchange) const;

  Clock& clock;
  const Reach reach;
  const TlsContext context;
  const Fd closing;
};

std::optional<Answered> HttpTransport::Impl::connect(Exchange& exchange, const std::vector<Address>& addresses,
                                                     BootMs deadline) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const BootMs now = clock.boot_ms();  // a dead address leaves time for the next
    const BootMs until = now + (deadline - now) / static_cast<BootMs>(addresses.size() - i);
    if (exchange.connect(addresses[i], until)) return std::nullopt;
    if (exchange.trouble() == Exchange::Trouble::closing) break;
  }
  return trouble_of(exchange);
}

Answered HttpTransport::Impl::trouble_of(const Exchange& exchange) const {
  switch (exchange.trouble()) {
    case Exchange::Trouble::closing: return {Answered::Kind::interrupted, 0, exchange.error(), {}};
    case Exchange::Trouble::unreachable: return reach.unreachable(exchange.error());
    case Exchange::Trouble::none: return failed("the receiver hung up without an answer");
    case Exchange::Trouble::failed:
    case Exchange::Trouble::late: break;
  }
  return failed(exchange.error());
}

Answered HttpTransport::Impl::ask(Exchange& exchange, const Url& url, const Envelope& envelope) const {
  PinnedClient client(url, exchange, envelope.most_answer);
  httplib::Request request;
  request.method = "POST";
  request.path = url.target;
  request.headers.emplace("Host", url.authority);
  for (const auto& [name, value] : envelope.headers) request.headers.emplace(name, value);
  request.body = envelope.body;
  Answered answer{Answered::Kind::answered, 0, {}, {}};
  request.response_handler = [&](const httplib::Response& head) {
    answer.status = head.status;
    answer.retry_after = head.get_header_value("Retry-After");
    return true;
  };
  std::string body;  // the stream has a cap
  request.content_receiver = [&body](const char* bytes, std::size_t size, std::uint64_t, std::uint64_t) {
    body.append(bytes, size);
    return true;
  };
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  const bool whole = client.send(request, response, error);
  if (whole) answer.retry_after = response.get_header_value("Retry-After");
  answer.body = std::move(body);
  if (whole) answer.status = response.status;  // the handler is not asked where no body comes (204)
  if (whole || (client.too_large() && answer.status != 0)) return answer;  // only the head counts
  if (client.too_large()) return failed("the head of the answer is too large");
  if (exchange.trouble() == Exchange::Trouble::none && answer.status != 0)
    return failed("the answer " + std::to_string(answer.status) + " was cut off");
  return trouble_of(exchange);
}

HttpTransport::HttpTransport(Clock& clock, Resolver& resolver, const HttpTransportOptions& options)
    : impl_(std::make_unique<Impl>(clock, resolver, options)) {}
HttpTransport::~HttpTransport() = default;

Answered HttpTransport::send(const Envelope& envelope) {
  const auto parsed = parse_url(envelope.url);
  if (const auto* wrong = std::get_if<std::string>(&parsed)) return never(*wrong);
  const Url& url = std::get<Url>(parsed);
  const BootMs deadline = impl_->clock.boot_ms() + envelope.deadline;
  const auto found = impl_->reach.addresses_of(url, envelope.allow, deadline);
  if (const auto* wrong = std::get_if<Answered>(&found)) return *wrong;
  Exchange exchange(impl_->clock, deadline, impl_->closing.get());
  if (auto wrong = impl_->connect(exchange, std::get<std::vector<Address>>(found), deadline)) return *wrong;
  if (url.tls && !exchange.secure(impl_->context.get(), url)) return impl_->trouble_of(exchange);
  return impl_->ask(exchange, url, envelope);
}

void HttpTransport::close() {
  const std::uint64_t one = 1;
  (void)!::write(impl_->closing.get(), &one, sizeof one);
}

}  // namespace bide::work
