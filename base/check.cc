#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sirenfeed::base {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "sirenfeed: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace sirenfeed::base
