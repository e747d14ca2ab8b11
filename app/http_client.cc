#include "app/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "base/build_info.h"

namespace sirenfeed::app {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using base::ErrorCode;
using base::fail;

struct HttpClient::Impl {
  std::string host;
  std::string port;
  std::chrono::milliseconds timeout;
  asio::io_context io;
  std::optional<beast::tcp_stream> stream;

  base::Result<void> connect();
  base::Result<HttpResponse> exchange(http::request<http::string_body>& request);
  /// Runs the one operation that was started; its time-out is the stream's.
  void finish() {
    io.restart();
    io.run();
  }
};

base::Result<void> HttpClient::Impl::connect() {
  beast::error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto endpoints = resolver.resolve(host, port, error);
  if (error) {
    return fail(ErrorCode::kUnavailable, "cannot resolve {}: {}", host, error.message());
  }
  stream.emplace(io);
  stream->expires_after(timeout);
  stream->async_connect(endpoints, [&](beast::error_code result, const auto&) { error = result; });
  finish();
  if (error) {
    stream.reset();
    return fail(ErrorCode::kUnavailable, "no server answers at {}:{}: {}", host, port,
                error.message());
  }
  stream->socket().set_option(asio::ip::tcp::no_delay(true), error);
  return {};
}

base::Result<HttpResponse> HttpClient::Impl::exchange(http::request<http::string_body>& request) {
  beast::error_code error;
  stream->expires_after(timeout);
  http::async_write(*stream, request,
                    [&](beast::error_code result, std::size_t) { error = result; });
  finish();
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(std::uint64_t{64} << 20U);
  if (!error) {
    http::async_read(*stream, buffer, parser,
                     [&](beast::error_code result, std::size_t) { error = result; });
    finish();
  }
  if (error) {
    stream.reset();
    return fail(ErrorCode::kUnavailable, "{}:{}: {}", host, port, error.message());
  }
  http::response<http::string_body> response = parser.release();
  if (!response.keep_alive()) stream.reset();
  return HttpResponse{response.result_int(), std::move(response.body())};
}

base::Result<HttpClient> HttpClient::make(std::string_view url, std::chrono::milliseconds timeout) {
  constexpr std::string_view kScheme = "http://";
  std::string_view rest = url;
  if (rest.starts_with(kScheme)) rest.remove_prefix(kScheme.size());
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    if (slash + 1 != rest.size()) {
      return fail(ErrorCode::kInvalidArgument, "{}: expected http://HOST:PORT without a path", url);
    }
    rest.remove_suffix(1);
  }
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected http://HOST:PORT", url);
  }
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  auto impl = std::make_unique<Impl>();
  impl->host = host;
  impl->port = rest.substr(colon + 1);
  impl->timeout = timeout;
  return HttpClient(std::move(impl));
}

base::Result<HttpResponse> HttpClient::request(std::string_view method, std::string_view target,
                                               std::string body, std::string_view content_type) {
  const http::verb verb = http::string_to_verb(method);
  http::request<http::string_body> request{verb, target, 11};
  request.set(http::field::host, impl_->host + ":" + impl_->port);
  request.set(http::field::user_agent, std::string("sirenfeed/") + base::kVersion);
  request.keep_alive(true);
  if (!body.empty()) {
    request.set(http::field::content_type, content_type);
    request.body() = std::move(body);
  }
  request.prepare_payload();
  const bool reused = impl_->stream.has_value();
  if (!reused) SF_TRY(impl_->connect());
  auto response = impl_->exchange(request);
  if (!response && reused) {  // the server may have closed the idle connection
    SF_TRY(impl_->connect());
    response = impl_->exchange(request);
  }
  return response;
}

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

}  // namespace sirenfeed::app
