#pragma once
// One connection: reads a request, has it handled, writes the answer, again. Included only by the
// http_*.cc files, which alone know Boost.Beast.
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "serving/config.h"
#include "serving/http_message.h"
#include "serving/probe.h"
#include "serving/router.h"

namespace sirenfeed::serving {

class HttpSession;

/// What all connections share. Lives as long as the last of them; the io_context drains before it
/// goes, so that no late answer meets a dead one.
struct HttpCore {
  HttpCore(const HttpConfig& config, Router router, ServingProbe& probe);
  const HttpConfig config;
  const Router router;
  ServingProbe& probe;
  boost::asio::io_context io;
  boost::asio::thread_pool workers;
  std::atomic<std::size_t> queued = 0;  // handed to `workers` and not begun
  std::atomic<bool> stopping = false;   // finish the request under way, then close

  void add(HttpSession* session) SF_EXCLUDES(mutex);
  void remove(HttpSession* session) SF_EXCLUDES(mutex);
  [[nodiscard]] std::size_t open() const SF_EXCLUDES(mutex);
  /// Asks every connection to close: the idle ones only, or all.
  void close_all(bool idle_only) SF_EXCLUDES(mutex);

  mutable base::Mutex mutex;
  std::unordered_set<HttpSession*> sessions SF_GUARDED_BY(mutex);
  /// Answers from other threads are posted to `io` under this lock and never after `drained`.
  base::Mutex post_mutex;
  bool drained SF_GUARDED_BY(post_mutex) = false;
};

/// Threads: everything runs on the stream's strand, but for answer(), which any thread may call.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(std::shared_ptr<HttpCore> core, boost::asio::ip::tcp::socket socket);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  void start();
  /// One connection too many: a 503, then close.
  void refuse();
  /// From any thread; `turn` tells an answer to an earlier request from the current one.
  void answer(std::uint64_t turn, HttpResponse response);
  void set_deadline(std::uint64_t turn, std::chrono::milliseconds after,
                    std::function<HttpResponse()> make);
  void close(bool idle_only);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using ErrorCode = boost::beast::error_code;

  template <class Function>
  void on_strand(Function function);
  void next_request();
  void read_header();
  void on_header(ErrorCode ec);
  void read_body();
  void on_body(ErrorCode ec);
  void dispatch();
  void run_handler(const Route& route, const std::shared_ptr<Exchange>& exchange);
  void arm_deadline(std::chrono::milliseconds after, std::function<HttpResponse()> make);
  /// An error of reading: the answer for it, then close; nothing for a client that went away.
  void fail_read(ErrorCode ec);
  void refuse_and_close(HttpResponse response);
  void write(HttpResponse response);
  void on_written(ErrorCode ec);
  void linger();
  void drain();
  void shut();

  const std::shared_ptr<HttpCore> core_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::shared_ptr<void> outgoing_;  // message and serializer while they are written
  std::uint64_t turn_ = 0;          // number of the request under way
  bool answered_ = true;            // its answer was begun
  bool head_ = false;
  bool keep_alive_ = true;
  bool idle_ = true;
  std::size_t drained_bytes_ = 0;
  std::chrono::steady_clock::time_point arrived_;
};

}  // namespace sirenfeed::serving
