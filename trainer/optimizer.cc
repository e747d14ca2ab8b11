#include "trainer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "trainer/byte_io.h"

namespace sirenfeed::trainer {

namespace {

// Eight partial sums in fixed places, so that the compiler may vectorise without fast-math.
double square_sum(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double v = values[i + lane];
      lanes[lane] += v * v;
    }
  }
  for (; i < values.size(); ++i) lanes[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double rate_share(const OptimizerConfig& config, std::uint64_t step) {
  const auto t = static_cast<double>(step);
  const auto warmup = static_cast<double>(config.warmup_steps);
  if (t < warmup) return t / warmup;
  const auto steps = static_cast<double>(config.dense_rate_steps);
  const double floor = config.dense_rate_floor;
  switch (config.dense_rate_schedule) {
    case RateSchedule::kConstant:
      break;
    case RateSchedule::kWarmupCosine: {
      const double progress = std::min(1.0, (t - warmup) / steps);
      return floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    }
    case RateSchedule::kInverseSqrt:
      return std::max(floor, std::min(1.0, std::sqrt(steps / t)));
  }
  return 1.0;
}

Adam::Adam(const model::ParameterLayout& layout, const OptimizerConfig& config)
    : config_(config), mean_(layout.size), square_(layout.size) {
  for (const model::TensorSpec& tensor : layout.tensors) {
    if (!tensor.trained) continue;
    if (!trained_.empty() && trained_.back().end == tensor.offset) {
      trained_.back().end += tensor.size;
    } else {
      trained_.push_back({tensor.offset, tensor.offset + tensor.size});
    }
  }
}

double Adam::norm(std::span<const float> gradient) const {
  SF_CHECK(gradient.size() == mean_.size());
  double sum = 0;
  for (const Range& range : trained_) {
    sum += square_sum(gradient.subspan(range.begin, range.end - range.begin));
  }
  return std::sqrt(sum);
}

void Adam::step(std::span<float> parameters, std::span<const float> gradient, double norm) {
  SF_CHECK(parameters.size() == mean_.size() && gradient.size() == mean_.size());
  SF_CHECK(std::isfinite(norm));
  ++steps_;
  const auto t = static_cast<double>(steps_);
  // p −= rate · m̂/(√v̂ + ε) with the bias corrections pulled out of the loop.
  const double root = std::sqrt(1.0 - std::pow(config_.beta2, t));
  const auto rate = static_cast<float>(config_.dense_rate * rate_share(config_, steps_) * root /
                                       (1.0 - std::pow(config_.beta1, t)));
  const auto epsilon = static_cast<float>(config_.epsilon * root);
  const auto clip = static_cast<float>(norm > config_.clip_norm ? config_.clip_norm / norm : 1.0);
  const auto beta1 = static_cast<float>(config_.beta1);
  const auto beta2 = static_cast<float>(config_.beta2);
  const float rest1 = 1.0F - beta1;
  const float rest2 = 1.0F - beta2;
  float* const p = parameters.data();
  const float* const g0 = gradient.data();
  float* const m = mean_.data();
  float* const v = square_.data();
  for (const Range& range : trained_) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const float g = g0[i] * clip;
      m[i] = beta1 * m[i] + rest1 * g;
      v[i] = beta2 * v[i] + rest2 * g * g;
      p[i] -= rate * m[i] / (std::sqrt(v[i]) + epsilon);
    }
  }
}

void Adam::append_to(std::string& bytes) const {
  put(bytes, steps_);
  put_vector(bytes, mean_);
  put_vector(bytes, square_);
}

base::Result<void> Adam::restore(std::string_view& bytes) {
  const std::size_t size = mean_.size();
  SF_TRY(take(bytes, steps_, "optimiser"));
  SF_TRY(take_vector(bytes, mean_, "optimiser"));
  SF_TRY(take_vector(bytes, square_, "optimiser"));
  if (mean_.size() != size || square_.size() != size) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "optimiser state has {} and {} elements, expected {}", mean_.size(),
                      square_.size(), size);
  }
  return {};
}

RowAdagrad::RowAdagrad(const OptimizerConfig& config)
    : rate_(config.row_rate),
      epsilon_(config.row_epsilon),
      half_life_ms_(config.row_half_life_days * static_cast<double>(base::kMsPerDay)) {}

void RowAdagrad::add(float square, base::UnixMs last_ms) {
  Row& row = *rows_.append();
  row.square = square;
  row.last_ms = last_ms;
}

void RowAdagrad::cover(const model::EmbeddingTable& table, base::UnixMs now_ms) {
  while (rows_.size() < table.size()) add(0.0F, now_ms);
}

void RowAdagrad::step(model::EmbeddingTable& table, std::uint32_t index,
                      std::span<const float> gradient, base::UnixMs now_ms) {
  SF_CHECK(index < table.size() && gradient.size() == table.width());
  if (index >= rows_.size()) cover(table, now_ms);
  Row& state = *rows_.writable(index);
  const double mean_square = square_sum(gradient) / static_cast<double>(gradient.size());
  const base::UnixMs elapsed = now_ms - state.last_ms;
  double g_sum = state.square;
  if (elapsed > 0 && g_sum > 0) {
    g_sum *= std::exp2(-static_cast<double>(elapsed) / half_life_ms_);
  }
  g_sum += mean_square;
  state.square = static_cast<float>(g_sum);
  state.last_ms = std::max(state.last_ms, now_ms);
  const auto scale = static_cast<float>(rate_ / (std::sqrt(g_sum) + epsilon_));
  const std::span<float> row = table.row_at(index);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] -= scale * gradient[i];
}

// The last row takes the number of the erased one.
void RowAdagrad::erase(model::EmbeddingTable& table, std::uint32_t index) {
  const std::uint32_t moved = table.erase(table.key_at(index));
  if (moved != index) *rows_.writable(index) = *rows_.at(moved);
  rows_.remove_last();
}

std::size_t RowAdagrad::expire(model::EmbeddingTable& table, base::UnixMs before_ms) {
  std::size_t expired = 0;
  // From the end, so that the row which takes an erased one's number was looked at already.
  for (auto index = static_cast<std::uint32_t>(rows_.size()); index-- > 0;) {
    if (rows_.at(index)->last_ms >= before_ms) continue;
    erase(table, index);
    ++expired;
  }
  return expired;
}

std::size_t RowAdagrad::evict(model::EmbeddingTable& table, std::size_t count,
                              std::span<const model::Key> kept) {
  struct Entry {
    base::UnixMs last_ms;
    model::Key key;
    std::uint32_t index;
  };
  std::vector<model::Key> sorted(kept.begin(), kept.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<Entry> entries;
  entries.reserve(rows_.size());
  for (std::uint32_t index = 0; index < rows_.size(); ++index) {
    const model::Key key = table.key_at(index);
    if (std::binary_search(sorted.begin(), sorted.end(), key)) continue;
    entries.push_back({rows_.at(index)->last_ms, key, index});
  }
  count = std::min(count, entries.size());
  std::nth_element(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count),
                   entries.end(), [](const Entry& a, const Entry& b) {
                     return a.last_ms != b.last_ms ? a.last_ms < b.last_ms : a.key < b.key;
                   });
  entries.resize(count);
  // From the end, as above.
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.index > b.index; });
  for (const Entry& entry : entries) erase(table, entry.index);
  return count;
}

void RowAdagrad::append_to(std::string& bytes, const model::EmbeddingTable& table) const {
  SF_CHECK(rows_.size() == table.size());  // every row was made by a step
  put(bytes, static_cast<std::uint64_t>(table.width()));
  put(bytes, static_cast<std::uint64_t>(table.size()));
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    put(bytes, table.key_at(i));
    put(bytes, rows_.at(i)->square);
    put(bytes, rows_.at(i)->last_ms);
    const std::span<const float> row = table.row_at(i);
    bytes.append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
  }
}

base::Result<void> RowAdagrad::restore(std::string_view& bytes, model::EmbeddingTable& table) {
  SF_CHECK(table.size() == 0);
  std::uint64_t width = 0;
  std::uint64_t rows = 0;
  SF_TRY(take(bytes, width, "table"));
  SF_TRY(take(bytes, rows, "table"));
  if (width != table.width()) {
    return base::fail(base::ErrorCode::kCorrupt, "table {} has rows of {}, expected {}",
                      table.name(), width, table.width());
  }
  const std::size_t row_bytes = sizeof(model::Key) + sizeof(float) + sizeof(base::UnixMs) +
                                static_cast<std::size_t>(width) * sizeof(float);
  if (rows > bytes.size() / row_bytes) return cut_short(table.name().c_str());
  table.reserve(rows);
  for (std::uint32_t i = 0; i < rows; ++i) {
    model::Key key = 0;
    SF_TRY(take(bytes, key, "table"));
    float square = 0;
    base::UnixMs last_ms = 0;
    SF_TRY(take(bytes, square, "table"));
    SF_TRY(take(bytes, last_ms, "table"));
    add(square, last_ms);
    if (table.find_or_create(key) != i) {
      return base::fail(base::ErrorCode::kCorrupt, "table {} has the key {:016x} twice",
                        table.name(), key);
    }
    const std::span<float> row = table.row_at(i);
    std::memcpy(row.data(), bytes.data(), row.size_bytes());
    bytes.remove_prefix(row.size_bytes());
  }
  return {};
}

}  // namespace sirenfeed::trainer
