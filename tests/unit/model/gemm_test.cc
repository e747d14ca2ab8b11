#include "model/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sirenfeed::model {
namespace {

Matrix<float> seeded(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> matrix;
  matrix.resize(rows, cols);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix.data()[i] = normal(random);
  return matrix;
}

TEST(Gemm, EqualsTheNaiveProductForEveryTail) {
  for (std::size_t m = 1; m <= 9; m += 2) {
    for (const std::size_t n : {1U, 3U, 8U, 13U, 16U, 27U, 40U}) {
      for (const std::size_t k : {0U, 1U, 5U, 33U}) {
        const Matrix<float> a = seeded(m, k, 1);
        const Matrix<float> b = seeded(k, n, 2);
        const Matrix<float> bias = seeded(1, n, 3);
        Matrix<float> c = seeded(m, n, 4);
        Matrix<float> transposed;
        transposed.resize(k, m);
        transpose(a.view(), transposed.view());
        Matrix<float> sum = c;
        gemm(left(a.view()), b.view(), sum.view(), GemmStart::kAdd);
        Matrix<float> with_bias = c;
        gemm(left_transposed<float>(transposed.view()), b.view(), with_bias.view(),
             GemmStart::kBias, bias.data());
        for (std::size_t r = 0; r < m; ++r) {
          for (std::size_t o = 0; o < n; ++o) {
            double product = 0;
            for (std::size_t i = 0; i < k; ++i) {
              product += static_cast<double>(a.row(r)[i]) * static_cast<double>(b.row(i)[o]);
            }
            const double added = product + static_cast<double>(c.row(r)[o]);
            const double biased = product + static_cast<double>(bias.data()[o]);
            ASSERT_TRUE(std::abs(static_cast<double>(sum.row(r)[o]) - added) <= 1e-4);
            ASSERT_TRUE(std::abs(static_cast<double>(with_bias.row(r)[o]) - biased) <= 1e-4);
          }
        }
      }
    }
  }
}

TEST(Gemm, ARowsBitsDoNotDependOnItsNeighbours) {
  const Matrix<float> a = seeded(11, 37, 5);
  const Matrix<float> b = seeded(37, 43, 6);
  Matrix<float> whole;
  whole.resize(11, 43);
  gemm(left(a.view()), b.view(), whole.view(), GemmStart::kZero);
  for (std::size_t first = 0; first < 11; ++first) {
    for (std::size_t rows = 1; first + rows <= 11; ++rows) {
      Matrix<float> part;
      part.resize(rows, 43);
      gemm(left(a.view().slice(first, rows)), b.view(), part.view(), GemmStart::kZero);
      for (std::size_t i = 0; i < part.size(); ++i) {
        ASSERT_EQ(part.data()[i], whole.row(first)[i]) << first << " " << rows;
      }
    }
  }
}

TEST(Transpose, FillsWhatLiesPastTheInputWithZero) {
  const Matrix<float> in = seeded(3, 10, 7);
  Matrix<float> out = seeded(10, 8, 8);
  transpose(in.view(), out.view());
  for (std::size_t r = 0; r < 10; ++r) {
    for (std::size_t c = 0; c < 8; ++c) {
      EXPECT_EQ(out.row(r)[c], c < 3 ? in.row(c)[r] : 0.0F);
    }
  }
}

}  // namespace
}  // namespace sirenfeed::model
