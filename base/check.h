#pragma once
// SF_CHECK guards invariants of our own code, in every build: it prints the condition and aborts.
// Input from outside is never checked with it; that is what Result is for.
namespace sirenfeed::base {
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
}  // namespace sirenfeed::base

#define SF_CHECK(condition)                                            \
  do {                                                                 \
    if (!(condition)) [[unlikely]] {                                   \
      ::sirenfeed::base::check_failed(#condition, __FILE__, __LINE__); \
    }                                                                  \
  } while (false)
