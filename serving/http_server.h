#pragma once
// HTTP/1.1 on Boost.Beast: io threads read, parse and write; worker threads run the handlers. Also
// what `train` serves its /metrics with.
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "serving/config.h"
#include "serving/probe.h"
#include "serving/router.h"

namespace sirenfeed::serving {

/// Owns its threads. Every limit is one of HttpConfig; over them: 413, 414, 431, 503 with
/// Retry-After, or the connection is closed (time-outs, connections_max after a 503).
class HttpServer {
 public:
  /// Binds and starts. kUnavailable names the address and the remedy when the port is in use.
  static base::Result<std::unique_ptr<HttpServer>> start(const HttpConfig& config, Router router,
                                                         ServingProbe& probe);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Accepts no more, lets requests under way finish within `grace`, closes the rest. Idempotent.
  void stop(std::chrono::milliseconds grace = std::chrono::milliseconds(2000));
  [[nodiscard]] std::uint16_t port() const;
  /// "http://127.0.0.1:8080", "http://[::1]:8080"
  [[nodiscard]] std::string url() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::serving
