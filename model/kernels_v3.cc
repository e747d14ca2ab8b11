#include "model/kernels.h"
#include "model/kernels_rows.h"

namespace sirenfeed::model {

const Kernels<float>& float_kernels_v3() { return kKernels<float>; }
const Kernels<double>& double_kernels_v3() { return kKernels<double>; }

template <>
const Kernels<float>& kernels<float>() {
  static const Kernels<float>& best = float_kernels_v4() ? *float_kernels_v4() : float_kernels_v3();
  return best;
}
template <>
const Kernels<double>& kernels<double>() {
  return kKernels<double>;
}

}  // namespace sirenfeed::model
