#include "model/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

namespace sirenfeed::model {
namespace {

using Values = std::vector<float>;

Values seeded(std::size_t n, std::uint64_t seed, float scale = 1.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  Values values(n);
  for (float& value : values) value = normal(random);
  return values;
}

/// Runs `work` with the kernels of both levels; what it returns must be equal to the last bit.
void expect_equal_bits(const std::function<Values(const Kernels<float>&)>& work, const char* what) {
  const Kernels<float>* const v4 = float_kernels_v4();
  if (v4 == nullptr) GTEST_SKIP() << "this CPU has no AVX-512";
  const Values narrow = work(float_kernels_v3());
  const Values wide = work(*v4);
  ASSERT_EQ(narrow.size(), wide.size());
  EXPECT_EQ(std::memcmp(narrow.data(), wide.data(), narrow.size() * sizeof(float)), 0) << what;
}

TEST(Kernels, ProductsHaveTheSameBitsOnBothLevels) {
  for (const std::size_t rows : {1U, 5U, 12U, 29U}) {
    for (const std::size_t cols : {3U, 16U, 40U, 96U, 131U}) {
      expect_equal_bits(
          [&](const Kernels<float>& kernels) {
            constexpr std::size_t kInner = 300;
            const Values a = seeded(rows * kInner, 1);
            const Values b = seeded(kInner * cols, 2);
            const Values bias = seeded(cols, 3);
            Values c(rows * cols);
            kernels.gemm({a.data(), kInner, 1, b.data(), cols, c.data(), cols, rows, cols, kInner,
                          GemmStart::kBias, bias.data()});
            kernels.gemm({a.data(), 1, rows, b.data(), cols, c.data(), cols, rows, cols, kInner,
                          GemmStart::kAdd, nullptr});
            return c;
          },
          "gemm");
    }
  }
}

TEST(Kernels, RowFunctionsHaveTheSameBitsOnBothLevels) {
  for (const std::size_t width : {8U, 32U, 64U, 83U}) {
    expect_equal_bits(
        [&](const Kernels<float>& kernels) {
          constexpr std::size_t kRows = 7;
          const Values x = seeded(kRows * width, 1);
          const Values weight = seeded(width, 2);
          const Values bias = seeded(width, 3);
          Values out(kRows * width);
          Values normalised(kRows * width);
          Values inverse(kRows);
          Values d_weight(width);
          Values d_bias(width);
          kernels.norm_forward({kRows, width, weight.data(), bias.data(), x.data(), width,
                                out.data(), width, normalised.data(), inverse.data(), nullptr,
                                nullptr});
          kernels.norm_backward({kRows, width, weight.data(), bias.data(), x.data(), width,
                                 out.data(), width, normalised.data(), inverse.data(),
                                 d_weight.data(), d_bias.data()});
          Values scaled(x.size());
          const float dot =
              kernels.scale_and_dot(x.data(), normalised.data(), 0.1F, scaled.data(), x.size());
          for (const Values* part : {&normalised, &inverse, &d_weight, &d_bias, &scaled}) {
            out.insert(out.end(), part->begin(), part->end());
          }
          out.push_back(dot);
          return out;
        },
        "layer norm");
  }
}

TEST(Kernels, ElementFunctionsHaveTheSameBitsOnBothLevels) {
  for (const float scale : {1.0F, 30.0F, 20'000.0F}) {  // the last one beyond the polynomials
    expect_equal_bits(
        [&](const Kernels<float>& kernels) {
          const Values x = seeded(1'003, 1, scale);
          Values out;
          Values y(x.size());
          Values gate(x.size());
          for (const auto function : {kernels.exp, kernels.sin, kernels.cos}) {
            function(x.data(), y.data(), x.size());
            out.insert(out.end(), y.begin(), y.end());
          }
          kernels.silu(x.data(), gate.data(), y.data(), x.size());
          out.insert(out.end(), y.begin(), y.end());
          kernels.silu_backward(gate.data(), y.data(), x.data(), y.data(), x.size());
          out.insert(out.end(), y.begin(), y.end());
          return out;
        },
        "element functions");
  }
}

TEST(Kernels, SoftmaxAndRotationHaveTheSameBitsOnBothLevels) {
  expect_equal_bits(
      [&](const Kernels<float>& kernels) {
        constexpr std::size_t kRows = 23;
        constexpr std::size_t kPadded = 32;
        Values logits = seeded(kRows * kPadded, 1, 4.0F);
        const Values bias = seeded(kRows * kPadded, 2);
        kernels.softmax({logits.data(), kPadded, kRows, 0, 20, kPadded, 0.25F, bias.data()});
        Values d_weights = seeded(kPadded, 3);
        Values d_bias(kPadded);
        kernels.softmax_backward(logits.data() + 9 * kPadded, d_weights.data(), kPadded, 0.25F,
                                 d_bias.data());
        Values x = seeded(kRows * 2 * 24, 4);
        const Values rotated = seeded(x.size(), 5);
        const Values cosine = seeded(kRows * 24, 6);
        const Values sine = seeded(kRows * 24, 7);
        Values d_turn(kRows * 24);
        kernels.rotate({x.data(), kRows, 48, 48, cosine.data(), sine.data(), 24, nullptr, nullptr});
        kernels.rotate_backward({x.data(), kRows, 48, 48, cosine.data(), sine.data(), 24,
                                 rotated.data(), d_turn.data()});
        for (const Values* part : {&d_weights, &d_bias, &x, &d_turn}) {
          logits.insert(logits.end(), part->begin(), part->end());
        }
        return logits;
      },
      "softmax and rotation");
}

TEST(Kernels, FunctionsAreThoseOfTheLibraryWithinTwoUnitsInTheLastPlace) {
  const Kernels<float>& best = kernels<float>();
  for (int i = -8'000; i <= 8'000; ++i) {
    const float x = static_cast<float>(i) * 0.0107F;
    float y = 0;
    best.exp(&x, &y, 1);
    const double want = std::exp(static_cast<double>(x));
    EXPECT_LE(std::abs(static_cast<double>(y) - want), 2.4e-7 * want) << x;
    for (const float angle : {x, 90.0F * x, 1'000.0F * x}) {
      best.sin(&angle, &y, 1);
      EXPECT_LE(std::abs(static_cast<double>(y) - std::sin(static_cast<double>(angle))), 2.4e-7);
      best.cos(&angle, &y, 1);
      EXPECT_LE(std::abs(static_cast<double>(y) - std::cos(static_cast<double>(angle))), 2.4e-7);
    }
  }
}

TEST(Kernels, AnElementsBitsDoNotDependOnItsPlace) {
  const Kernels<float>& best = kernels<float>();
  const Values x = seeded(37, 1);
  const Values y = seeded(37, 2);
  const Values gate = seeded(37, 3);
  Values whole(37);
  Values d_whole(37);
  best.add_scaled(x.data(), y.data(), 0.1F, whole.data(), 37);
  best.silu_backward(gate.data(), y.data(), x.data(), d_whole.data(), 37);
  for (std::size_t i = 0; i < 37; ++i) {
    float one = 0;
    best.add_scaled(&x[i], &y[i], 0.1F, &one, 1);
    EXPECT_EQ(one, whole[i]) << i;
    best.silu_backward(&gate[i], &y[i], &x[i], &one, 1);
    EXPECT_EQ(one, d_whole[i]) << i;
  }
}

TEST(Kernels, SoftmaxRowsSumToOneOverWhatTheySee) {
  constexpr std::size_t kPadded = 32;
  Values logits = seeded(20 * kPadded, 1, 10.0F);
  const Values before = logits;
  kernels<float>().softmax({logits.data(), kPadded, 20, 0, 17, kPadded, 0.5F, nullptr});
  for (std::size_t r = 0; r < 20; ++r) {
    const std::size_t visible = std::min<std::size_t>(r, 17);
    double whole = 0;
    for (std::size_t j = 0; j < visible; ++j) {
      whole += std::exp(0.5 * static_cast<double>(before[r * kPadded + j]));
    }
    for (std::size_t j = 0; j < kPadded; ++j) {
      const double want =
          j < visible ? std::exp(0.5 * static_cast<double>(before[r * kPadded + j])) / whole : 0;
      EXPECT_NEAR(static_cast<double>(logits[r * kPadded + j]), want, 1e-6) << r << " " << j;
    }
  }
}

}  // namespace
}  // namespace sirenfeed::model
