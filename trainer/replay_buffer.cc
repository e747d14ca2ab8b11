#include "trainer/replay_buffer.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/hash.h"
#include "trainer/byte_io.h"

namespace sirenfeed::trainer {

double ReplayBuffer::Random::uniform() {
  state += base::kSplitMixStep;
  return static_cast<double>(base::mix64(state) >> 11U) * 0x1p-53;
}

std::size_t ReplayBuffer::Random::below(std::size_t n) {
  return static_cast<std::size_t>(uniform() * static_cast<double>(n));
}

ReplayBuffer::ReplayBuffer(const Shape& shape, std::size_t bytes_max, double admit_min,
                           std::uint64_t seed)
    : random{seed},
      shape_(shape),
      rows_max_(std::max<std::size_t>(1, bytes_max / (stride() * sizeof(float)))),
      admit_min_(admit_min),
      admission_{~seed} {}

void ReplayBuffer::add(std::span<const float> c, std::span<const float> label,
                       std::span<const float> weight) {
  SF_CHECK(c.size() == shape_.contexts && label.size() == shape_.tasks &&
           weight.size() == shape_.tasks);
  ++seen_;
  std::size_t row = rows();
  if (row == rows_max_) {
    const double admit =
        std::max(static_cast<double>(rows_max_) / static_cast<double>(seen_), admit_min_);
    if (admission_.uniform() >= admit) return;
    row = admission_.below(rows_max_);
    forget(row);
  } else {
    // By hand, so that memory stays within the bound: a vector would double beyond it.
    if (data_.size() == data_.capacity()) {
      data_.reserve(std::min(rows_max_, std::max<std::size_t>(64, 2 * row)) * stride());
    }
    data_.resize(data_.size() + stride());
  }
  float* to = data_.data() + row * stride();
  to = std::copy(c.begin(), c.end(), to);
  to = std::copy(label.begin(), label.end(), to);
  std::copy(weight.begin(), weight.end(), to);
  index(row);
}

namespace {

std::uint64_t hash_of(std::span<const float> c) {
  return base::xxh3_64({reinterpret_cast<const char*>(c.data()), c.size_bytes()});
}

}  // namespace

void ReplayBuffer::index(std::size_t row) {
  by_features_.emplace(hash_of(c(row)), static_cast<std::uint32_t>(row));
}

void ReplayBuffer::forget(std::size_t row) {
  const auto [begin, end] = by_features_.equal_range(hash_of(c(row)));
  const auto found = std::find_if(begin, end, [&](const auto& held) { return held.second == row; });
  SF_CHECK(found != end);
  by_features_.erase(found);
}

void ReplayBuffer::relabel(std::span<const float> c, std::size_t task) {
  const auto [begin, end] = by_features_.equal_range(hash_of(c));
  std::optional<std::size_t> first;
  for (auto it = begin; it != end; ++it) {
    const std::size_t row = it->second;
    const bool same = std::equal(c.begin(), c.end(), this->c(row).begin());
    if (same && label(row)[task] == 0 && row < first.value_or(row + 1)) first = row;
  }
  if (first) data_[*first * stride() + shape_.contexts + task] = 1;
}

std::size_t ReplayBuffer::rows() const { return data_.size() / stride(); }

std::span<const float> ReplayBuffer::c(std::size_t row) const {
  return std::span(data_).subspan(row * stride(), shape_.contexts);
}

std::span<const float> ReplayBuffer::label(std::size_t row) const {
  return std::span(data_).subspan(row * stride() + shape_.contexts, shape_.tasks);
}

std::span<const float> ReplayBuffer::weight(std::size_t row) const {
  return std::span(data_).subspan(row * stride() + shape_.contexts + shape_.tasks, shape_.tasks);
}

void ReplayBuffer::append_to(std::string& bytes) const {
  put(bytes, random.state);
  put(bytes, admission_.state);
  put(bytes, seen_);
  put_vector(bytes, data_);
}

base::Result<void> ReplayBuffer::restore(std::string_view& bytes) {
  SF_TRY(take(bytes, random.state, "replay buffer"));
  SF_TRY(take(bytes, admission_.state, "replay buffer"));
  SF_TRY(take(bytes, seen_, "replay buffer"));
  SF_TRY(take_vector(bytes, data_, "replay buffer"));
  const std::uint64_t expected = std::min<std::uint64_t>(seen_, rows_max_);
  if (data_.size() != expected * stride()) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "replay buffer of {} values after {} rows, expected {} rows of {}",
                      data_.size(), seen_, expected, stride());
  }
  by_features_.clear();
  for (std::size_t row = 0; row < rows(); ++row) index(row);
  return {};
}

}  // namespace sirenfeed::trainer
