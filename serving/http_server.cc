#include "serving/http_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <vector>

#include "base/log.h"
#include "serving/http_session.h"

namespace sirenfeed::serving {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::ErrorCode;
using base::fail;

namespace {

base::Result<tcp::endpoint> endpoint_of(const HttpConfig& config) {
  std::string host = config.address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost") host = "127.0.0.1";
  boost::system::error_code ec;
  const auto address = asio::ip::make_address(host, ec);
  if (ec) {
    return fail(ErrorCode::kInvalidArgument,
                "http.address: '{}' is no IPv4 or IPv6 address, e.g. 127.0.0.1, 0.0.0.0 or [::1]",
                config.address);
  }
  return tcp::endpoint(address, config.port);
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

base::Error listen_error(const tcp::endpoint& endpoint, const boost::system::error_code& ec) {
  if (ec == asio::error::address_in_use) {
    return {ErrorCode::kUnavailable,
            fmt::format("http: {} is in use by another process: stop it, or choose another address "
                        "with --http HOST:PORT",
                        text_of(endpoint))};
  }
  if (ec == asio::error::access_denied) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("http: {} needs more rights (ports below 1024 do): choose another with "
                        "--http HOST:PORT",
                        text_of(endpoint))};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("http: cannot listen on {}: {}; choose an address of this machine with "
                      "--http HOST:PORT",
                      text_of(endpoint), ec.message())};
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(std::shared_ptr<HttpCore> http_core)
      : core(std::move(http_core)),
        work(asio::make_work_guard(core->io)),
        acceptor(core->io),
        retry(core->io) {}

  base::Result<void> listen(const tcp::endpoint& endpoint);
  void accept();
  void on_accepted(tcp::socket socket);

  std::shared_ptr<HttpCore> core;
  asio::executor_work_guard<asio::io_context::executor_type> work;  // until nothing is posted
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  tcp::endpoint local;
  std::vector<std::jthread> threads;
  bool stopped = false;
};

base::Result<void> HttpServer::Impl::listen(const tcp::endpoint& endpoint) {
  boost::system::error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return fail(listen_error(endpoint, ec));
  local = acceptor.local_endpoint(ec);
  return {};
}

void HttpServer::Impl::accept() {
  acceptor.async_accept(
      asio::make_strand(core->io), [this](boost::system::error_code ec, tcp::socket socket) {
        if (ec == asio::error::operation_aborted || core->stopping) return;
        if (!ec) {
          on_accepted(std::move(socket));
          return accept();
        }
        // Out of file descriptors, mostly: waiting is the only thing that helps.
        base::log_warning("http: cannot accept a connection: {}; trying again", ec.message());
        retry.expires_after(std::chrono::milliseconds(100));
        retry.async_wait([this](boost::system::error_code wait_ec) {
          if (!wait_ec) accept();
        });
      });
}

void HttpServer::Impl::on_accepted(tcp::socket socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  core->probe.connections.add();
  const std::size_t open = core->open();
  const std::size_t most = core->config.connections_max;
  if (open >= most) core->probe.connections_refused.add();
  if (open >= most + 64) return;  // even refusals are bounded: close without a word
  const auto session = std::make_shared<HttpSession>(core, std::move(socket));
  open >= most ? session->refuse() : session->start();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { stop(); }

base::Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpConfig& config, Router router,
                                                            ServingProbe& probe) {
  SF_TRY(config.validate());
  SF_ASSIGN(const tcp::endpoint endpoint, endpoint_of(config));
  auto impl = std::make_unique<Impl>(std::make_shared<HttpCore>(config, std::move(router), probe));
  SF_TRY(impl->listen(endpoint));
  impl->accept();
  for (std::size_t i = 0; i < config.io_threads; ++i) {
    impl->threads.emplace_back([core = impl->core] { core->io.run(); });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

void HttpServer::stop(std::chrono::milliseconds grace) {
  Impl& impl = *impl_;
  if (impl.stopped) return;
  impl.stopped = true;
  HttpCore& core = *impl.core;
  core.stopping = true;
  asio::post(core.io, [&impl] {
    boost::system::error_code ignored;
    impl.acceptor.close(ignored);
    impl.retry.cancel();
  });
  core.close_all(/*idle_only=*/true);
  const auto end = std::chrono::steady_clock::now() + grace;
  while (core.open() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    core.close_all(/*idle_only=*/true);
  }
  core.close_all(/*idle_only=*/false);
  core.workers.join();
  {
    base::MutexLock lock(core.post_mutex);
    core.drained = true;
  }
  impl.work.reset();
  impl.threads.clear();  // run() returns once every operation has ended
}

std::uint16_t HttpServer::port() const { return impl_->local.port(); }

std::string HttpServer::url() const { return "http://" + text_of(impl_->local); }

}  // namespace sirenfeed::serving
