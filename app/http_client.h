#pragma once
// A blocking HTTP/1.1 client for one server: what publish, simulate and the admin commands use.
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sirenfeed::app {

struct HttpResponse {
  unsigned status = 0;
  std::string body;
};

/// Keeps one connection alive and reconnects once when the server closed it. Threads: one.
class HttpClient {
 public:
  /// `url` is http://HOST:PORT, HOST:PORT or [v6]:PORT; anything else is kInvalidArgument.
  static base::Result<HttpClient> make(std::string_view url, std::chrono::milliseconds timeout);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  /// `target` is the path with its query. kUnavailable when no server answers in time.
  base::Result<HttpResponse> request(std::string_view method, std::string_view target,
                                     std::string body = {},
                                     std::string_view content_type = "application/json");

 private:
  struct Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::app
