#pragma once
// Softmax, layer norm and rotation, row by row; and the table of all kernels.
// Only for kernels_v3.cc and kernels_v4.cc: all of it has internal linkage and is compiled for the
// includer's CPU level (see model/kernels.h).
#include "model/kernels_elements.h"
#include "model/kernels_gemm.h"

namespace sirenfeed::model {
namespace {

template <class T>
SF_INLINE T row_dot(const T* x, const T* y, std::size_t n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  Pack<T> lanes = Pack<T>::all(T{});
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    lanes = Pack<T>::fma(Pack<T>::load(x + i), Pack<T>::load(y + i), lanes);
  }
  T total = sum(lanes);
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}
template <class T>
SF_INLINE T row_sum(const T* x, std::size_t n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  Pack<T> lanes = Pack<T>::all(T{});
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) lanes = lanes + Pack<T>::load(x + i);
  T total = sum(lanes);
  for (; i < n; ++i) total += x[i];
  return total;
}

template <class T>
T scale_and_dot_kernel(const T* x, const T* y, T scale, T* to, std::size_t n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  const Pack<T> factor = Pack<T>::all(scale);
  Pack<T> lanes = Pack<T>::all(T{});
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Pack<T> v = Pack<T>::load(x + i);
    lanes = Pack<T>::fma(v, Pack<T>::load(y + i), lanes);
    (v * factor).store(to + i);
  }
  T total = sum(lanes);
  for (; i < n; ++i) {
    total += x[i] * y[i];
    to[i] = scale * x[i];
  }
  return total;
}

template <class T>
void softmax_kernel(const SoftmaxArguments<T>& s) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  for (std::size_t r = 0; r < s.rows; ++r) {
    T* row = s.logits + r * s.stride;
    const std::size_t visible = s.first_visible + r < s.keys ? s.first_visible + r : s.keys;
    for (std::size_t j = visible; j < s.padded; ++j) row[j] = T{};
    if (visible == 0) continue;
    const std::size_t seen = (visible + kLanes - 1) / kLanes * kLanes;
    const Pack<T> scale = Pack<T>::all(s.scale);
    // Keys out of sight inside the last pack repeat the first logit: they change no maximum.
    const T first = s.scale * row[0] + (s.bias == nullptr ? T{} : s.bias[r * s.stride]);
    Pack<T> top = Pack<T>::all(first);
    for (std::size_t j = 0; j < seen; j += kLanes) {
      Pack<T> logit = Pack<T>::load(row + j) * scale;
      if (s.bias != nullptr) logit = logit + Pack<T>::load(s.bias + r * s.stride + j);
      logit.store(row + j);
      if (j + kLanes > visible) {
        for (std::size_t hidden = visible; hidden < seen; ++hidden) row[hidden] = first;
        logit = Pack<T>::load(row + j);
      }
      top = Pack<T>::max(top, logit);
    }
    const Pack<T> highest = Pack<T>::all(largest(top));
    Pack<T> lanes = Pack<T>::all(T{});
    for (std::size_t j = 0; j < seen; j += kLanes) {
      Pack<T> e = exp_pack(Pack<T>::load(row + j) - highest);
      e.store(row + j);
      if (j + kLanes > visible) {
        for (std::size_t hidden = visible; hidden < seen; ++hidden) row[hidden] = T{};
        e = Pack<T>::load(row + j);
      }
      lanes = lanes + e;
    }
    const Pack<T> per_sum = Pack<T>::all(T{1} / sum(lanes));
    for (std::size_t j = 0; j < seen; j += kLanes) {
      (Pack<T>::load(row + j) * per_sum).store(row + j);
    }
  }
}

template <class T>
void softmax_backward_kernel(const T* weights, T* d_weights, std::size_t n, T scale, T* d_bias) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  const Pack<T> along = Pack<T>::all(row_dot(d_weights, weights, n));
  const Pack<T> factor = Pack<T>::all(scale);
  for (std::size_t j = 0; j < n; j += kLanes) {
    const Pack<T> g = Pack<T>::load(weights + j) * (Pack<T>::load(d_weights + j) - along);
    if (d_bias != nullptr) (Pack<T>::load(d_bias + j) + g).store(d_bias + j);
    (g * factor).store(d_weights + j);
  }
}

// ----------------------------------------------------------------------------------- layer norm

template <class T>
void norm_forward_kernel(const NormArguments<T>& n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  const T per_width = T{1} / static_cast<T>(n.width);
  for (std::size_t r = 0; r < n.rows; ++r) {
    const T* row = n.x + r * n.x_stride;
    T* out = n.out + r * n.out_stride;
    const T mean = row_sum(row, n.width) * per_width;
    const Pack<T> means = Pack<T>::all(mean);
    Pack<T> squares = Pack<T>::all(T{});
    std::size_t c = 0;
    for (; c + kLanes <= n.width; c += kLanes) {
      const Pack<T> centred = Pack<T>::load(row + c) - means;
      squares = Pack<T>::fma(centred, centred, squares);
    }
    T square = sum(squares);
    for (; c < n.width; ++c) square += (row[c] - mean) * (row[c] - mean);
    const T variance = square * per_width;
    T inverse_std{};
    if constexpr (sizeof(T) == 4) {
      inverse_std = 1.0F / __builtin_sqrtf(variance + 1e-5F);
    } else {
      inverse_std = 1.0 / __builtin_sqrt(variance + 1e-5);
    }
    if (n.inverse_std != nullptr) n.inverse_std[r] = inverse_std;
    T* kept = n.normalised == nullptr ? nullptr : n.normalised + r * n.width;
    const Pack<T> scale = Pack<T>::all(inverse_std);
    c = 0;
    for (; c + kLanes <= n.width; c += kLanes) {
      const Pack<T> normalised = (Pack<T>::load(row + c) - means) * scale;
      if (kept != nullptr) normalised.store(kept + c);
      Pack<T>::fma(normalised, Pack<T>::load(n.weight + c), Pack<T>::load(n.bias + c))
          .store(out + c);
    }
    for (; c < n.width; ++c) {
      const T normalised = (row[c] - mean) * inverse_std;
      if (kept != nullptr) kept[c] = normalised;
      out[c] = normalised * n.weight[c] + n.bias[c];
    }
  }
}

/// With g = d_out · weight: d_x += (g − mean(g) − x̂ · mean(g · x̂)) · inverse_std.
template <class T>
void norm_backward_kernel(const NormArguments<T>& n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  const T per_width = T{1} / static_cast<T>(n.width);
  for (std::size_t r = 0; r < n.rows; ++r) {
    const T* d_out = n.x + r * n.x_stride;
    const T* normalised = n.normalised + r * n.width;
    T* d_x = n.out + r * n.out_stride;
    Pack<T> means = Pack<T>::all(T{});
    Pack<T> alongs = Pack<T>::all(T{});
    std::size_t c = 0;
    for (; c + kLanes <= n.width; c += kLanes) {
      const Pack<T> d = Pack<T>::load(d_out + c);
      const Pack<T> x = Pack<T>::load(normalised + c);
      const Pack<T> g = d * Pack<T>::load(n.weight + c);
      means = means + g;
      alongs = Pack<T>::fma(g, x, alongs);
      Pack<T>::fma(d, x, Pack<T>::load(n.d_weight + c)).store(n.d_weight + c);
      (d + Pack<T>::load(n.d_bias + c)).store(n.d_bias + c);
    }
    T mean = sum(means);
    T along = sum(alongs);
    for (; c < n.width; ++c) {
      const T g = d_out[c] * n.weight[c];
      mean += g;
      along += g * normalised[c];
      n.d_weight[c] += d_out[c] * normalised[c];
      n.d_bias[c] += d_out[c];
    }
    mean *= per_width;
    along *= per_width;
    const T inverse_std = n.inverse_std[r];
    c = 0;
    for (; c + kLanes <= n.width; c += kLanes) {
      const Pack<T> g = Pack<T>::load(d_out + c) * Pack<T>::load(n.weight + c);
      const Pack<T> centred =
          g - Pack<T>::all(mean) - Pack<T>::load(normalised + c) * Pack<T>::all(along);
      Pack<T>::fma(centred, Pack<T>::all(inverse_std), Pack<T>::load(d_x + c)).store(d_x + c);
    }
    for (; c < n.width; ++c) {
      d_x[c] += inverse_std * (d_out[c] * n.weight[c] - mean - normalised[c] * along);
    }
  }
}

// ------------------------------------------------------------------------------------- rotation

template <class T>
void rotate_kernel(const RotateArguments<T>& a) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  for (std::size_t r = 0; r < a.rows; ++r) {
    const T* cosine = a.cosine + r * a.turn_width;
    const T* sine = a.sine + r * a.turn_width;
    for (std::size_t head = 0; head < a.width; head += a.turn_width) {
      T* x = a.x + r * a.stride + head;
      std::size_t i = 0;
      for (; i + kLanes <= a.turn_width; i += kLanes) {
        const Pack<T> v = Pack<T>::load(x + i);
        Pack<T>::fma(v.swapped(), Pack<T>::load(sine + i), v * Pack<T>::load(cosine + i))
            .store(x + i);
      }
      for (; i < a.turn_width; i += 2) {
        const T even = x[i];
        const T odd = x[i + 1];
        x[i] = odd * sine[i] + even * cosine[i];
        x[i + 1] = even * sine[i + 1] + odd * cosine[i + 1];
      }
    }
  }
}

template <class T>
void rotate_backward_kernel(const RotateArguments<T>& a) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  for (std::size_t r = 0; r < a.rows; ++r) {
    const T* cosine = a.cosine + r * a.turn_width;
    const T* sine = a.sine + r * a.turn_width;
    T* d_turn = a.d_turn + r * a.turn_width;
    for (std::size_t head = 0; head < a.width; head += a.turn_width) {
      T* d = a.x + r * a.stride + head;
      const T* rotated = a.rotated + r * a.stride + head;
      std::size_t i = 0;
      for (; i + kLanes <= a.turn_width; i += kLanes) {
        const Pack<T> g = Pack<T>::load(d + i);
        Pack<T>::fma(g, Pack<T>::load(rotated + i).swapped(), Pack<T>::load(d_turn + i))
            .store(d_turn + i);
        (g * Pack<T>::load(cosine + i) - g.swapped() * Pack<T>::load(sine + i)).store(d + i);
      }
      for (; i < a.turn_width; i += 2) {
        const T even = d[i];
        const T odd = d[i + 1];
        d_turn[i] += even * rotated[i + 1];
        d_turn[i + 1] += odd * rotated[i];
        d[i] = even * cosine[i] - odd * sine[i];
        d[i + 1] = odd * cosine[i + 1] - even * sine[i + 1];
      }
    }
  }
}

/// Eight by eight in registers: pairs, quarters and halves change places.
SF_INLINE void transpose_block(const float* in, std::size_t in_stride, float* out,
                               std::size_t out_stride) {
  using Vec = float __attribute__((vector_size(32)));
  Vec a[8];
  for (std::size_t i = 0; i < 8; ++i) __builtin_memcpy(&a[i], in + i * in_stride, sizeof a[i]);
  Vec b[8];
  for (std::size_t i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (std::size_t i = 0; i < 8; i += 4) {
    a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    a[i + 2] = __builtin_shufflevector(b[i + 1], b[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 3] = __builtin_shufflevector(b[i + 1], b[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (std::size_t i = 0; i < 8; ++i) __builtin_memcpy(out + i * out_stride, &b[i], sizeof b[i]);
}

template <class T>
void transpose_kernel(const T* in, std::size_t in_stride, std::size_t rows, std::size_t cols,
                      T* out, std::size_t out_stride) {
  constexpr std::size_t kBlock = 8;
  for (std::size_t r = 0; r < rows; r += kBlock) {
    for (std::size_t c = 0; c < cols; c += kBlock) {
      if constexpr (sizeof(T) == 4) {
        if (r + kBlock <= rows && c + kBlock <= cols) {
          transpose_block(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
          continue;
        }
      }
      const std::size_t r_end = rows < r + kBlock ? rows : r + kBlock;
      const std::size_t c_end = cols < c + kBlock ? cols : c + kBlock;
      for (std::size_t i = r; i < r_end; ++i) {
        for (std::size_t j = c; j < c_end; ++j) out[j * out_stride + i] = in[i * in_stride + j];
      }
    }
  }
}

template <class T>
constexpr Kernels<T> kKernels = {
    gemm_kernel<T>,
    softmax_kernel<T>,
    norm_forward_kernel<T>,
    norm_backward_kernel<T>,
    rotate_kernel<T>,
    rotate_backward_kernel<T>,
    softmax_backward_kernel<T>,
    silu_kernel<T>,
    silu_alone_kernel<T>,
    silu_backward_kernel<T>,
    exp_kernel<T>,
    sin_kernel<T>,
    cos_kernel<T>,
    add_scaled_kernel<T>,
    scale_and_dot_kernel<T>,
    transpose_kernel<T>,
    add_columns_kernel<T>,
};

}  // namespace
}  // namespace sirenfeed::model