#include "serving/http_session.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/version.hpp>

#include "base/log.h"

namespace sirenfeed::serving {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

/// What is read and thrown away after an early answer, so that the client sees it rather than a
/// reset.
constexpr std::size_t kDrainBytesMax = 64U << 20U;
constexpr std::chrono::seconds kLingerMax{2};

/// The exchange that handlers hold. It may outlive the connection, which it then answers in vain.
class SessionExchange final : public Exchange {
 public:
  SessionExchange(std::weak_ptr<HttpSession> session, std::uint64_t turn, HttpRequest request)
      : session_(std::move(session)), turn_(turn), request_(std::move(request)) {}
  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    if (const auto session = session_.lock()) session->answer(turn_, std::move(response));
  }
  void respond_later(std::chrono::milliseconds after, std::function<HttpResponse()> make) override {
    if (const auto session = session_.lock()) session->set_deadline(turn_, after, std::move(make));
  }
  HttpRequest& mutable_request() { return request_; }

 private:
  const std::weak_ptr<HttpSession> session_;
  const std::uint64_t turn_;
  HttpRequest request_;
};

struct Outgoing {
  http::response<http::string_body> message;
  std::optional<http::response_serializer<http::string_body>> serializer;
};

HttpResponse overloaded(const HttpConfig& config, std::string_view detail) {
  HttpResponse response = problem(503, "", detail);
  response.headers = {{"Retry-After", std::to_string(config.retry_after.count())}};
  return response;
}

}  // namespace

HttpCore::HttpCore(const HttpConfig& http_config, Router http_router, ServingProbe& http_probe)
    : config(http_config),
      router(std::move(http_router)),
      probe(http_probe),
      workers(http_config.worker_threads) {}

void HttpCore::add(HttpSession* session) {
  base::MutexLock lock(mutex);
  sessions.insert(session);
  probe.connections_open.set(static_cast<double>(sessions.size()));
}

void HttpCore::remove(HttpSession* session) {
  base::MutexLock lock(mutex);
  sessions.erase(session);
  probe.connections_open.set(static_cast<double>(sessions.size()));
}

std::size_t HttpCore::open() const {
  base::MutexLock lock(mutex);
  return sessions.size();
}

void HttpCore::close_all(bool idle_only) {
  std::vector<std::shared_ptr<HttpSession>> open_sessions;
  {
    // A session at its end waits for this lock in its destructor; its weak pointer is empty then.
    base::MutexLock lock(mutex);
    for (HttpSession* session : sessions) {
      if (auto alive = session->weak_from_this().lock()) open_sessions.push_back(std::move(alive));
    }
  }
  for (const auto& session : open_sessions) session->close(idle_only);
}

HttpSession::HttpSession(std::shared_ptr<HttpCore> core, asio::ip::tcp::socket socket)
    : core_(std::move(core)),
      stream_(std::move(socket)),
      deadline_(stream_.get_executor()),
      buffer_(core_->config.header_bytes_max + (64U << 10U)) {
  core_->add(this);
}

HttpSession::~HttpSession() { core_->remove(this); }

template <class Function>
void HttpSession::on_strand(Function function) {
  base::MutexLock lock(core_->post_mutex);
  if (core_->drained) return;
  asio::post(stream_.get_executor(), std::move(function));
}

void HttpSession::start() {
  on_strand([self = shared_from_this()] { self->next_request(); });
}

void HttpSession::refuse() {
  on_strand([self = shared_from_this()] {
    self->refuse_and_close(overloaded(self->core_->config, "connections_max is reached"));
  });
}

void HttpSession::close(bool idle_only) {
  on_strand([self = shared_from_this(), idle_only] {
    if (!idle_only || self->idle_) self->shut();
  });
}

void HttpSession::next_request() {
  if (core_->stopping) return shut();
  idle_ = true;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(core_->config.header_bytes_max));
  parser_->body_limit(core_->config.body_bytes_max);
  if (buffer_.size() > 0) return read_header();
  stream_.expires_after(core_->config.keep_alive_timeout);
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](ErrorCode ec, std::size_t bytes) {
                            if (ec) return self->shut();
                            self->buffer_.commit(bytes);
                            self->read_header();
                          });
}

void HttpSession::read_header() {
  idle_ = false;
  stream_.expires_after(core_->config.header_timeout);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode ec, std::size_t) { self->on_header(ec); });
}

void HttpSession::on_header(ErrorCode ec) {
  if (ec) return fail_read(ec);
  const auto& message = parser_->get();
  if (message.target().size() > core_->config.target_bytes_max) {
    return refuse_and_close(problem(414, "path", "is longer than target_bytes_max"));
  }
  if (!beast::iequals(message[http::field::expect], "100-continue")) return read_body();
  auto continuation = std::make_shared<Outgoing>();
  continuation->message.result(http::status::continue_);
  continuation->message.version(11);
  continuation->serializer.emplace(continuation->message);
  http::async_write(stream_, *continuation->serializer,
                    [self = shared_from_this(), continuation](ErrorCode write_ec, std::size_t) {
                      write_ec ? self->shut() : self->read_body();
                    });
}

void HttpSession::read_body() {
  stream_.expires_after(core_->config.body_timeout);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode ec, std::size_t) { self->on_body(ec); });
}

void HttpSession::on_body(ErrorCode ec) {
  if (ec) return fail_read(ec);
  stream_.expires_never();
  core_->probe.requests.add();
  dispatch();
}

void HttpSession::fail_read(ErrorCode ec) {
  const HttpConfig& config = core_->config;
  if (ec == http::error::header_limit) {
    return refuse_and_close(
        problem(431, "header",
                fmt::format("is larger than header_bytes_max ({})", config.header_bytes_max)));
  }
  if (ec == http::error::body_limit) {
    return refuse_and_close(problem(
        413, "body", fmt::format("is larger than body_bytes_max ({})", config.body_bytes_max)));
  }
  if (ec == beast::error::timeout) {
    core_->probe.timed_out.add();
    return shut();
  }
  if (ec == http::error::end_of_stream ||
      ec.category() != http::make_error_code(http::error::end_of_stream).category()) {
    return shut();  // the client went away, or the socket failed
  }
  if (ec == http::error::partial_message) return shut();
  refuse_and_close(problem(400, "request", "is not HTTP/1.1: " + ec.message()));
}

void HttpSession::refuse_and_close(HttpResponse response) {
  keep_alive_ = false;
  answered_ = true;
  head_ = false;
  ++turn_;
  arrived_ = std::chrono::steady_clock::now();
  write(std::move(response));
}

void HttpSession::dispatch() {
  auto message = parser_->release();
  ++turn_;
  answered_ = false;
  arrived_ = std::chrono::steady_clock::now();
  keep_alive_ = message.keep_alive() && !core_->stopping;
  HttpRequest request;
  request.method = std::string(message.method_string());
  head_ = request.method == "HEAD";
  request.content_type = std::string(message[http::field::content_type]);
  request.authorization = std::string(message[http::field::authorization]);
  request.arrived = arrived_;
  request.body = std::move(message.body());
  // A page of another site must not act with this browser's reach; tools send no such header.
  if (message["Sec-Fetch-Site"] == "cross-site" && request.method != "GET" && !head_) {
    return answer(turn_, problem(403, "", "requests of other sites' pages may only read"));
  }
  if (const auto parsed = parse_target(std::string_view(message.target()), request); !parsed) {
    return answer(turn_, problem(parsed.error()));
  }
  auto found = core_->router.find(request);
  if (auto* response = std::get_if<HttpResponse>(&found)) {
    return answer(turn_, std::move(*response));
  }
  const Route& route = *std::get<const Route*>(found);
  auto exchange = std::make_shared<SessionExchange>(weak_from_this(), turn_, std::move(request));
  arm_deadline(core_->config.request_deadline, nullptr);
  run_handler(route, exchange);
}

void HttpSession::run_handler(const Route& route, const std::shared_ptr<Exchange>& exchange) {
  if (route.inline_on_io) return route.handler(exchange);
  HttpCore& core = *core_;
  if (core.queued.fetch_add(1) >= core.config.request_queue_max) {
    core.queued.fetch_sub(1);
    core.probe.overloaded.add();
    return exchange->respond(overloaded(core.config, "request_queue_max is reached; try again"));
  }
  core.probe.request_queue.set(static_cast<double>(core.queued.load()));
  asio::post(core.workers, [core_ptr = core_.get(), &route, exchange] {
    core_ptr->queued.fetch_sub(1);
    core_ptr->probe.request_queue.set(static_cast<double>(core_ptr->queued.load()));
    const auto waited = std::chrono::steady_clock::now() - exchange->request().arrived;
    if (waited > core_ptr->config.request_deadline) return;  // the deadline has answered
    route.handler(exchange);
  });
}

void HttpSession::arm_deadline(std::chrono::milliseconds after,
                               std::function<HttpResponse()> make) {
  deadline_.expires_after(after);
  // This is also what keeps the connection alive while a handler has the request.
  deadline_.async_wait(
      [self = shared_from_this(), turn = turn_, make = std::move(make)](ErrorCode ec) {
        if (ec || self->turn_ != turn || self->answered_) return;
        self->core_->probe.timed_out.add();
        self->answer(
            turn, make ? make() : overloaded(self->core_->config, "no answer by request_deadline"));
      });
}

void HttpSession::set_deadline(std::uint64_t turn, std::chrono::milliseconds after,
                               std::function<HttpResponse()> make) {
  on_strand([self = shared_from_this(), turn, after, make = std::move(make)]() mutable {
    if (self->turn_ == turn && !self->answered_) self->arm_deadline(after, std::move(make));
  });
}

void HttpSession::answer(std::uint64_t turn, HttpResponse response) {
  on_strand([self = shared_from_this(), turn, response = std::move(response)]() mutable {
    if (self->turn_ != turn || self->answered_) return;
    self->answered_ = true;
    self->deadline_.cancel();
    self->write(std::move(response));
  });
}

void HttpSession::write(HttpResponse response) {
  ServingProbe& probe = core_->probe;
  (response.status >= 500   ? probe.responses_5xx
   : response.status >= 400 ? probe.responses_4xx
                            : probe.responses_2xx)
      .add();
  probe.http_latency.observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - arrived_).count());
  auto outgoing = std::make_shared<Outgoing>();
  auto& message = outgoing->message;
  message.version(11);
  message.result(static_cast<unsigned>(response.status));
  message.reason(beast::string_view(status_title(response.status)));
  message.set(http::field::server, "sirenfeed");
  message.set("X-Content-Type-Options", "nosniff");
  message.set(http::field::cache_control, "no-store");
  if (!response.body.empty()) message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.keep_alive(keep_alive_);
  message.content_length(response.body.size());
  if (!head_) message.body() = std::move(response.body);
  outgoing->serializer.emplace(message);
  outgoing_ = outgoing;
  stream_.expires_after(core_->config.write_timeout);
  http::async_write(
      stream_, *outgoing->serializer,
      [self = shared_from_this()](ErrorCode ec, std::size_t) { self->on_written(ec); });
}

void HttpSession::on_written(ErrorCode ec) {
  outgoing_.reset();
  if (ec) {
    if (ec == beast::error::timeout) core_->probe.timed_out.add();
    return shut();
  }
  keep_alive_ ? next_request() : linger();
}

void HttpSession::linger() {
  // Closing a socket with unread bytes resets it, and the client may lose the answer: read to its
  // end first.
  ErrorCode ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kLingerMax);
  buffer_.clear();
  drain();
}

void HttpSession::drain() {
  stream_.async_read_some(buffer_.prepare(16384),
                          [self = shared_from_this()](ErrorCode ec, std::size_t bytes) {
                            self->drained_bytes_ += bytes;
                            if (ec || self->drained_bytes_ > kDrainBytesMax) return self->shut();
                            self->drain();
                          });
}

void HttpSession::shut() {
  answered_ = true;
  deadline_.cancel();
  ErrorCode ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

}  // namespace sirenfeed::serving
