#pragma once
// Row-major storage that keeps its memory, and views of it.
#include <boost/align/aligned_allocator.hpp>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace sirenfeed::model {

/// Begins with a cache line: rows of whole packs (model/kernels.h) are then read line by line, not
/// half a line and half of the next, which costs an AVX-512 product a twentieth.
template <class T>
using AlignedVector = std::vector<T, boost::alignment::aligned_allocator<T, 64>>;

/// Borrowed rows: element (r, c) is data[r · stride + c].
template <class T>
struct View {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t stride = 0;

  [[nodiscard]] T* row(std::size_t r) const { return data + r * stride; }
  [[nodiscard]] View slice(std::size_t first_row, std::size_t n_rows) const {
    return {row(first_row), n_rows, cols, stride};
  }
  [[nodiscard]] View columns(std::size_t first_col, std::size_t n_cols) const {
    return {data + first_col, rows, n_cols, stride};
  }
  // NOLINTNEXTLINE(google-explicit-constructor): a mutable view may be read.
  operator View<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }
};

/// A matrix whose memory grows to the largest shape asked of it and is then reused.
template <class T>
class Matrix {
 public:
  /// Contents are undefined afterwards.
  void resize(std::size_t rows, std::size_t cols) {
    rows_ = rows;
    cols_ = cols;
    if (data_.size() < rows * cols) data_.resize(rows * cols);
  }
  void resize_zero(std::size_t rows, std::size_t cols) {
    resize(rows, cols);
    for (std::size_t i = 0; i < rows * cols; ++i) data_[i] = T{};
  }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] std::size_t size() const { return rows_ * cols_; }
  [[nodiscard]] T* data() { return data_.data(); }
  [[nodiscard]] const T* data() const { return data_.data(); }
  [[nodiscard]] T* row(std::size_t r) { return data_.data() + r * cols_; }
  [[nodiscard]] const T* row(std::size_t r) const { return data_.data() + r * cols_; }
  [[nodiscard]] View<T> view() { return {data_.data(), rows_, cols_, cols_}; }
  [[nodiscard]] View<const T> view() const { return {data_.data(), rows_, cols_, cols_}; }

 private:
  AlignedVector<T> data_;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
};

}  // namespace sirenfeed::model
