#pragma once
// The inner loops of the model, compiled twice: for x86-64-v3 (AVX2) and for x86-64-v4 (AVX-512),
// of which this CPU's better one is taken at run time. Both give the same bits: sums run over 16
// lanes (8 in double) in one fixed order whatever the width of a register, and every product of a
// matrix product is one chain of fused multiply-adds over k.
//
// Plain pointers only: code compiled for v4 must not share inline functions with the rest, or the
// linker might keep the v4 copy for everybody.
#include <cstddef>

namespace sirenfeed::model {

enum class GemmStart {
  kZero,  // C = A·B
  kBias,  // C = bias + A·B, bias [N] for every row
  kAdd,   // C += A·B
};

/// C [rows, cols] from A [rows, k] (element (r, k) at r · row_step + k · k_step) and B [k, cols].
template <class T>
struct GemmArguments {
  const T* a;
  std::size_t row_step;
  std::size_t k_step;
  const T* b;
  std::size_t b_stride;
  T* c;
  std::size_t c_stride;
  std::size_t rows;
  std::size_t cols;
  std::size_t k_count;
  GemmStart start;
  const T* bias;
};

/// Softmax of rows in place. Row r sees its first min(first_visible + r, keys) logits; those after
/// them, up to `padded` (whole packs, see kPackLanes), become 0, and so does a row that sees none.
template <class T>
struct SoftmaxArguments {
  T* logits;
  std::size_t stride;
  std::size_t rows;
  std::size_t first_visible;
  std::size_t keys;
  std::size_t padded;
  T scale;        // logit = scale · x + bias
  const T* bias;  // of the same stride, or null
};

/// Rows of a layer norm. forward: out = x̂ · weight + bias with x̂ = (x − mean) · inverse_std, both
/// kept where their pointers are set. backward: d_x += …, d_weight += …, d_bias += ….
template <class T>
struct NormArguments {
  std::size_t rows;
  std::size_t width;
  const T* weight;
  const T* bias;
  const T* x;  // backward: d_out
  std::size_t x_stride;
  T* out;  // backward: d_x
  std::size_t out_stride;
  T* normalised;   // [rows, width]
  T* inverse_std;  // [rows]
  T* d_weight;
  T* d_bias;
};

/// Rows of heads · turn_width elements; cosine and sine as in model/rotation.h, [rows, turn_width].
template <class T>
struct RotateArguments {
  T* x;
  std::size_t rows;
  std::size_t width;
  std::size_t stride;
  const T* cosine;
  const T* sine;
  std::size_t turn_width;
  const T* rotated;  // backward only, like x
  T* d_turn;         // backward only, [rows, turn_width] += …
};

template <class T>
struct Kernels {
  void (*gemm)(const GemmArguments<T>&);
  void (*softmax)(const SoftmaxArguments<T>&);
  void (*norm_forward)(const NormArguments<T>&);
  void (*norm_backward)(const NormArguments<T>&);
  void (*rotate)(const RotateArguments<T>&);
  void (*rotate_backward)(const RotateArguments<T>&);
  /// One row of whole packs: the logits' gradient g = w · (d_w − Σ w d_w) is added to d_bias (may
  /// be null), and scale · g takes the place of d_w.
  void (*softmax_backward)(const T* weights, T* d_weights, std::size_t padded, T scale, T* d_bias);
  /// gate = σ(x), y = x · gate; gate may be x.
  void (*silu)(const T* x, T* gate, T* y, std::size_t n);
  void (*silu_alone)(const T* x, T* y, std::size_t n);  // without the gate; y may be x
  /// d_x = d_y · (gate + y (1 − gate)), which is d_y · gate · (1 + x (1 − gate)).
  void (*silu_backward)(const T* gate, const T* y, const T* d_y, T* d_x, std::size_t n);
  void (*exp)(const T* x, T* y, std::size_t n);
  void (*sin)(const T* x, T* y, std::size_t n);
  void (*cos)(const T* x, T* y, std::size_t n);
  /// to = x + scale · add.
  void (*add_scaled)(const T* x, const T* add, T scale, T* to, std::size_t n);
  /// to = scale · x; returns Σ x · y.
  T (*scale_and_dot)(const T* x, const T* y, T scale, T* to, std::size_t n);
  /// out [cols, rows] = inᵀ.
  void (*transpose)(const T* in, std::size_t in_stride, std::size_t rows, std::size_t cols, T* out,
                    std::size_t out_stride);
  /// sums [cols] += every row of x.
  void (*add_columns)(const T* x, std::size_t stride, std::size_t rows, std::size_t cols, T* sums);
};

/// Elements of a pack: what the sums' fixed order goes by.
template <class T>
inline constexpr std::size_t kPackLanes = 64 / sizeof(T);

/// n rounded up to whole packs.
template <class T>
[[nodiscard]] constexpr std::size_t padded(std::size_t n) {
  return (n + kPackLanes<T> - 1) / kPackLanes<T> * kPackLanes<T>;
}

/// The best for this CPU; double, which serves the gradient checks, has only the v3 ones.
template <class T>
[[nodiscard]] const Kernels<T>& kernels();
template <>
const Kernels<float>& kernels<float>();
template <>
const Kernels<double>& kernels<double>();

[[nodiscard]] const Kernels<float>& float_kernels_v3();
[[nodiscard]] const Kernels<double>& double_kernels_v3();
/// nullptr where the CPU lacks AVX-512.
[[nodiscard]] const Kernels<float>* float_kernels_v4();

}  // namespace sirenfeed::model
