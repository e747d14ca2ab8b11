#pragma once
// A request and an answer as the handlers see them; Boost.Beast stays in http_session.cc.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sirenfeed::serving {

/// One query parameter; the value is still percent-encoded, so that a bad one's error can name it.
struct QueryParameter {
  std::string name;
  std::string raw_value;
};

struct HttpRequest {
  std::string method;             // "GET", …
  std::string target;             // as sent
  std::vector<std::string> path;  // decoded segments: "/v1/feed/u%201" → {"v1","feed","u 1"}
  std::vector<QueryParameter> query;
  std::string content_type;
  std::string authorization;  // for API keys
  std::string body;
  std::chrono::steady_clock::time_point arrived;                     // end of the body
  std::vector<std::pair<std::string, std::string>> path_parameters;  // set by the router

  /// The value of the path parameter `name`; the route declares it, so it is there.
  [[nodiscard]] const std::string& path_parameter(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // Allow, Retry-After, …
};

/// application/problem+json (RFC 9457): what was wrong, and in which field ("" where it is no
/// field).
[[nodiscard]] HttpResponse problem(int status, std::string_view field, std::string_view detail);
/// The status that an Error's code stands for: kInvalidArgument 400, kNotFound 404, kTooLarge 413,
/// kUnavailable 503, …
[[nodiscard]] HttpResponse problem(const base::Error& error, std::string_view field = "");
/// The reason phrase, e.g. "Not Found".
[[nodiscard]] std::string_view status_title(int status) noexcept;

/// Bytes of a percent-encoded text ('+' is a space only in a query). kInvalidArgument for a broken
/// escape or what is no UTF-8 or holds a control character.
[[nodiscard]] base::Result<std::string> percent_decode(std::string_view text, bool plus_is_space);
/// Splits and decodes "/a/b?x=1" into path and query; the error's message says where.
[[nodiscard]] base::Result<void> parse_target(std::string_view target, HttpRequest& request);

/// One request on its way to an answer. Threads: any; the first answer counts, later ones are
/// dropped.
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const HttpRequest& request() const = 0;
  virtual void respond(HttpResponse response) = 0;
  /// The answer to give when nothing was said by `after`; the default is a 503 at request_deadline.
  virtual void respond_later(std::chrono::milliseconds after,
                             std::function<HttpResponse()> make) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

/// A handler that answers before it returns.
[[nodiscard]] Handler answer_with(std::function<HttpResponse(const HttpRequest&)> handle);

}  // namespace sirenfeed::serving
