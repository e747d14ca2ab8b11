#pragma once
// Which handler answers a method and path.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serving/http_message.h"

namespace sirenfeed::serving {

/// Scopes of API keys; every route says which one it needs.
enum class Scope { kPublic, kRead, kWrite, kAdmin };

struct Route {
  std::string method;
  std::string pattern;  // "/v1/feed/{user}": a {name} matches one non-empty segment
  Handler handler;
  Scope scope = Scope::kRead;
  bool inline_on_io = false;  // quick and never waiting: answered even when the workers are busy
};

/// Immutable after construction. Threads: any. HEAD is answered by GET's route.
class Router {
 public:
  explicit Router(std::vector<Route> routes);
  /// The route, with request.path_parameters filled in; or the 404 or 405 (with Allow) to send.
  [[nodiscard]] std::variant<const Route*, HttpResponse> find(HttpRequest& request) const;
  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
  std::vector<std::vector<std::string>> segments_;  // of each route's pattern
};

}  // namespace sirenfeed::serving
