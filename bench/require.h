#pragma once
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace sirenfeed::bench {

/// The result's value; a benchmark whose set-up fails says why and ends.
template <class T>
T require(base::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace sirenfeed::bench
