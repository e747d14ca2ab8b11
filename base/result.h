#pragma once
// How expected failures travel: a value or an Error. Nothing in Sirenfeed throws across a folder.
#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace sirenfeed::base {

enum class ErrorCode {
  kInvalidArgument,  // the caller's value is wrong: wrong use, bad configuration
  kDecode,           // bytes that are not what they should be
  kNotFound,
  kAlreadyExists,
  kUnavailable,  // a broker or peer that may come back: retry
  kStorage,      // disk full, read-only, I/O error
  kLocked,       // another process owns the folder
  kCorrupt,      // check-sum, shape or log/state mismatch: a human must decide
  kTooLarge,     // over a named limit
  kClosed,       // stopped while waiting
  kInternal,
};

/// The code's name in snake_case, as it appears in logs and in the API.
[[nodiscard]] const char* error_code_name(ErrorCode code) noexcept;

/// What failed and what the reader can do about it. `message` names the thing (file, line, offset,
/// field, limit) and what was expected.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorCode::kDecode, "{}:{}: expected a number", file, line);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// Hands an error up unchanged: `return fail(result.error());`
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace sirenfeed::base

/// Evaluates a Result expression; on failure returns its error from the enclosing function.
#define SF_TRY(expression)                                              \
  do {                                                                  \
    if (auto sf_try_result = (expression); !sf_try_result) {            \
      return ::sirenfeed::base::fail(std::move(sf_try_result).error()); \
    }                                                                   \
  } while (false)

#define SF_CONCAT_INNER(a, b) a##b
#define SF_CONCAT(a, b) SF_CONCAT_INNER(a, b)
#define SF_ASSIGN_INNER(tmp, target, expression)            \
  auto tmp = (expression);                                  \
  if (!tmp) {                                               \
    return ::sirenfeed::base::fail(std::move(tmp).error()); \
  }                                                         \
  target = *std::move(tmp)
/// `SF_ASSIGN(auto log, EmbeddedLog::open(config));`
#define SF_ASSIGN(target, expression) \
  SF_ASSIGN_INNER(SF_CONCAT(sf_assign_, __COUNTER__), target, expression)
