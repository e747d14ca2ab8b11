#include "serving/http_message.h"

#include <simdjson.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/check.h"

namespace sirenfeed::serving {

using base::ErrorCode;
using base::fail;

const std::string& HttpRequest::path_parameter(std::string_view name) const {
  const auto found = std::find_if(path_parameters.begin(), path_parameters.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  // The route declares every path parameter that its handler reads.
  SF_CHECK(found != path_parameters.end());
  return found->second;
}

std::string_view status_title(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return status < 400 ? "OK" : "Error";
  }
}

namespace {

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

/// Boost.JSON writes strings as they are; an answer must be UTF-8 whatever the caller sent.
std::string printable(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  return out;
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kDecode:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
      return 409;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kUnavailable:
    case ErrorCode::kLocked:
    case ErrorCode::kClosed:
    case ErrorCode::kStorage:
      return 503;
    case ErrorCode::kCorrupt:  // what is stored is damaged: nothing that the caller could change
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

HttpResponse problem(int status, std::string_view field, std::string_view detail) {
  boost::json::object body;
  body["type"] = "about:blank";
  body["title"] = status_title(status);
  body["status"] = status;
  body["detail"] = printable(detail);
  if (!field.empty()) body["field"] = printable(field);
  HttpResponse response{.status = status,
                        .content_type = "application/problem+json",
                        .body = boost::json::serialize(body),
                        .headers = {}};
  if (status == 503 || status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse problem(const base::Error& error, std::string_view field) {
  if (field.empty() && error.code == ErrorCode::kInvalidArgument) {
    // Our messages begin with the field's name and a colon.
    const std::size_t colon = error.message.find(':');
    if (colon != std::string::npos && error.message.find(' ') > colon) {
      field = std::string_view(error.message).substr(0, colon);
    }
  }
  return problem(status_of(error.code), field, error.message);
}

base::Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '+' && plus_is_space) {
      out += ' ';
    } else if (c != '%') {
      out += c;
    } else {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return fail(ErrorCode::kInvalidArgument, "'%' at byte {} is not followed by two hex digits",
                    i);
      }
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  if (!is_utf8(out)) return fail(ErrorCode::kInvalidArgument, "does not decode to UTF-8");
  for (const char c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return fail(ErrorCode::kInvalidArgument, "holds a control character");
    }
  }
  return out;
}

base::Result<void> parse_target(std::string_view target, HttpRequest& request) {
  request.target = target;
  if (target.empty() || target[0] != '/') {
    return fail(ErrorCode::kInvalidArgument, "path: must begin with '/'");
  }
  target = target.substr(0, target.find('#'));
  const std::size_t question = target.find('?');
  std::string_view path = target.substr(1, question == target.npos ? target.npos : question - 1);
  while (true) {
    const std::size_t slash = path.find('/');
    auto segment = percent_decode(path.substr(0, slash), false);
    if (!segment) return fail(ErrorCode::kInvalidArgument, "path: {}", segment.error().message);
    request.path.push_back(*std::move(segment));
    if (slash == path.npos) break;
    path.remove_prefix(slash + 1);
  }
  if (question == target.npos) return {};
  std::string_view query = target.substr(question + 1);
  while (!query.empty()) {
    const std::size_t ampersand = query.find('&');
    const std::string_view pair = query.substr(0, ampersand);
    if (!pair.empty()) {
      const std::size_t equals = pair.find('=');
      auto name = percent_decode(pair.substr(0, equals), true);
      if (!name) return fail(ErrorCode::kInvalidArgument, "query: {}", name.error().message);
      request.query.push_back({*std::move(name), equals == pair.npos
                                                     ? std::string()
                                                     : std::string(pair.substr(equals + 1))});
    }
    if (ampersand == query.npos) break;
    query.remove_prefix(ampersand + 1);
  }
  return {};
}

Handler answer_with(std::function<HttpResponse(const HttpRequest&)> handle) {
  return [handle = std::move(handle)](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(handle(exchange->request()));
  };
}

}  // namespace sirenfeed::serving
