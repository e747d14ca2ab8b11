// Compiled for x86-64-v4, whatever the rest of the build is for (model/CMakeLists.txt).
#include "model/kernels.h"
#include "model/kernels_rows.h"

namespace sirenfeed::model {

const Kernels<float>* float_kernels_v4() {
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl");
  return has ? &kKernels<float> : nullptr;
}

}  // namespace sirenfeed::model
