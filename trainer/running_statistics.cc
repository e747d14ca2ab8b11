#include "trainer/running_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "trainer/byte_io.h"

namespace sirenfeed::trainer {

RunningStatistics::RunningStatistics(const model::ModelConfig& config, double weight_min)
    : weight_min_(weight_min),
      contexts_(config.context_row_width()),
      actions_(config.n_actions()),
      config_(config),
      mean_(contexts_, 0.0),
      variance_(contexts_, 0.0),
      action_mean_(actions_ + 1, 0.0) {}

void RunningStatistics::add(const model::Slate& slate) {
  SF_CHECK(slate.context.size() == slate.candidates.size() * contexts_);
  ++examples_;
  if (!slate.candidates.empty()) add_context(slate);
  add_actions(slate);
}

void RunningStatistics::add_context(const model::Slate& slate) {
  const double weight = std::max(1.0 / static_cast<double>(examples_), weight_min_);
  const std::size_t rows = slate.candidates.size();
  const double share = 1.0 / static_cast<double>(rows);
  const float* const c = slate.context.data();
  for (std::size_t f = 0; f < contexts_; ++f) {
    // Two passes over the example's own candidates: its mean, then its spread about it.
    double own_mean = c[f];
    double own_variance = 0;
    if (rows > 1) {
      double sum = 0;
      for (std::size_t r = 0; r < rows; ++r) sum += c[r * contexts_ + f];
      own_mean = sum * share;
      for (std::size_t r = 0; r < rows; ++r) {
        const double d = c[r * contexts_ + f] - own_mean;
        own_variance += d * d * share;
      }
    }
    const double delta = own_mean - mean_[f];
    mean_[f] += weight * delta;
    variance_[f] = (1.0 - weight) * (variance_[f] + weight * delta * delta) + weight * own_variance;
  }
}

void RunningStatistics::add_actions(const model::Slate& slate) {
  const model::HistoryWindow window = model::history_window(config_, slate);
  if (window.count == 0) return;
  ++with_history_;
  const double weight = std::max(1.0 / static_cast<double>(with_history_), weight_min_);
  const auto tokens = std::span(slate.history).subspan(window.begin);
  for (std::size_t a = 0; a <= actions_; ++a) {
    std::size_t set = 0;
    for (const model::HistoryToken& token : tokens) {
      if (!model::is_history_token(config_, token)) continue;
      set += model::action_bits_with_none(token.action_bits, actions_) >> a & 1U;
    }
    const double rate = static_cast<double>(set) / static_cast<double>(window.count);
    action_mean_[a] += weight * (rate - action_mean_[a]);
  }
}

void RunningStatistics::write_to(model::Statistics& statistics) const {
  statistics.context_examples = examples_;
  for (std::size_t f = 0; f < contexts_; ++f) {
    statistics.context_mean[f] = static_cast<float>(mean_[f]);
    statistics.context_std[f] = static_cast<float>(std::sqrt(variance_[f]));
  }
  for (std::size_t a = 0; a <= actions_; ++a) {
    statistics.action_mean[a] = static_cast<float>(action_mean_[a]);
  }
}

void RunningStatistics::append_to(std::string& bytes) const {
  put(bytes, examples_);
  put(bytes, with_history_);
  put_vector(bytes, mean_);
  put_vector(bytes, variance_);
  put_vector(bytes, action_mean_);
}

base::Result<void> RunningStatistics::restore(std::string_view& bytes) {
  SF_TRY(take(bytes, examples_, "statistics"));
  SF_TRY(take(bytes, with_history_, "statistics"));
  SF_TRY(take_vector(bytes, mean_, "statistics"));
  SF_TRY(take_vector(bytes, variance_, "statistics"));
  SF_TRY(take_vector(bytes, action_mean_, "statistics"));
  if (mean_.size() != contexts_ || variance_.size() != contexts_ ||
      action_mean_.size() != actions_ + 1) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "statistics of {} features and {} actions, expected {} and {}", mean_.size(),
                      action_mean_.size(), contexts_, actions_ + 1);
  }
  return {};
}

}  // namespace sirenfeed::trainer
