#include "serving/router.h"

#include <set>

#include "base/check.h"

namespace sirenfeed::serving {

namespace {

bool is_parameter(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

std::vector<std::string> split_pattern(const std::string& pattern) {
  std::vector<std::string> segments;
  std::size_t begin = 1;
  while (true) {
    const std::size_t slash = pattern.find('/', begin);
    segments.push_back(pattern.substr(begin, slash == pattern.npos ? slash : slash - begin));
    if (slash == pattern.npos) return segments;
    begin = slash + 1;
  }
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_parameter(pattern[i]) ? path[i].empty() : pattern[i] != path[i]) return false;
  }
  return true;
}

}  // namespace

Router::Router(std::vector<Route> routes) : routes_(std::move(routes)) {
  for (const Route& route : routes_) {
    SF_CHECK(!route.pattern.empty() && route.pattern[0] == '/');
    segments_.push_back(split_pattern(route.pattern));
  }
}

std::variant<const Route*, HttpResponse> Router::find(HttpRequest& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::set<std::string> allowed;
  for (std::size_t r = 0; r < routes_.size(); ++r) {
    if (!matches(segments_[r], request.path)) continue;
    if (routes_[r].method != method) {
      allowed.insert(routes_[r].method);
      if (routes_[r].method == "GET") allowed.insert("HEAD");
      continue;
    }
    request.path_parameters.clear();
    for (std::size_t i = 0; i < segments_[r].size(); ++i) {
      const std::string& name = segments_[r][i];
      if (is_parameter(name)) {
        request.path_parameters.emplace_back(name.substr(1, name.size() - 2), request.path[i]);
      }
    }
    return &routes_[r];
  }
  if (allowed.empty()) {
    return problem(404, "path", "there is nothing here; docs/openapi.yaml lists the routes");
  }
  std::string list;
  for (const std::string& name : allowed) list += (list.empty() ? "" : ", ") + name;
  HttpResponse response = problem(405, "method", "this path answers " + list);
  response.headers.emplace_back("Allow", list);
  return response;
}

}  // namespace sirenfeed::serving
