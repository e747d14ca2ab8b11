#include "model/logit_bias.h"

#include <algorithm>
#include <cmath>

namespace sirenfeed::model {
namespace {

constexpr std::size_t kPositionBuckets = 128;
constexpr std::size_t kTimeBuckets = 64;

/// Calls function(element, head, query token, key token) for every query and key that it sees.
template <class Function>
void for_each_pair(const ChunkIndex& index, const AttentionPlan& plan, std::size_t heads,
                   Function function) {
  for (const AttentionSlate& slate : plan.used()) {
    for (const QueryRange& range : slate.ranges) {
      for (std::size_t head = 0; head < heads; ++head) {
        for (std::size_t i = 0; i < range.count; ++i) {
          const std::size_t row = range.bias + (head * range.count + i) * slate.key_padded;
          const std::size_t visible = std::min(range.first_visible + i, slate.key_count);
          for (std::size_t j = 0; j < visible; ++j) {
            function(row + j, head, index.tokens[range.begin + i],
                     index.tokens[slate.key_begin + j]);
          }
        }
      }
    }
  }
}

/// Seconds from key to query; false where a time is missing.
bool seconds_between(const ChunkIndex& index, const Token& query, const Token& key,
                     double& seconds) {
  const auto query_ms = static_cast<std::int64_t>(index.times.keys()[query.time]);
  const auto key_ms = static_cast<std::int64_t>(index.times.keys()[key.time]);
  if (query_ms == kUnknownTime || key_ms == kUnknownTime) return false;
  std::int64_t between = 0;
  seconds = __builtin_sub_overflow(query_ms, key_ms, &between)
                ? (static_cast<double>(query_ms) - static_cast<double>(key_ms)) / 1000.0
                : static_cast<double>(between) / 1000.0;
  return true;
}

/// Learned tables over the distance in places and in the logarithm of time.
template <class T>
class BucketBias final : public LogitBias<T> {
 public:
  BucketBias(const ModelConfig& config, const ParameterLayout& layout)
      : heads_(static_cast<std::size_t>(config.heads)),
        position_(layout.offset("bias.position")),
        time_(layout.offset("bias.time")) {}

  void fill(const BasicModel<T>& model, const ChunkIndex& index, const AttentionPlan& plan,
            T* bias) const override {
    for_each_pair(index, plan, heads_,
                  [&](std::size_t element, std::size_t head, const Token& query, const Token& key) {
                    bias[element] = model.dense[position_element(head, query, key)];
                    std::size_t time = 0;
                    if (time_element(index, head, query, key, time))
                      bias[element] += model.dense[time];
                  });
  }

  void backward(const BasicModel<T>&, const ChunkIndex& index, const AttentionPlan& plan,
                const T* d_bias, T* d_dense) const override {
    for_each_pair(index, plan, heads_,
                  [&](std::size_t element, std::size_t head, const Token& query, const Token& key) {
                    d_dense[position_element(head, query, key)] += d_bias[element];
                    std::size_t time = 0;
                    if (time_element(index, head, query, key, time))
                      d_dense[time] += d_bias[element];
                  });
  }

 private:
  [[nodiscard]] std::size_t position_element(std::size_t head, const Token& query,
                                             const Token& key) const {
    const std::size_t apart =
        std::min<std::size_t>(key.position - query.position, kPositionBuckets - 1);
    return position_ + head * kPositionBuckets + apart;
  }

  bool time_element(const ChunkIndex& index, std::size_t head, const Token& query, const Token& key,
                    std::size_t& element) const {
    double seconds = 0;
    if (!seconds_between(index, query, key, seconds)) return false;
    const double step = std::floor(std::log(std::max(seconds, 1.0)) / 0.301);
    const double bucket = std::clamp(step, 0.0, static_cast<double>(kTimeBuckets - 1));
    element = time_ + head * kTimeBuckets + static_cast<std::size_t>(bucket);
    return true;
  }

  std::size_t heads_;
  std::size_t position_;
  std::size_t time_;
};

/// −softplus(slope_h) · ln(1 + seconds), in double.
template <class T>
class AlibiBias final : public LogitBias<T> {
 public:
  AlibiBias(const ModelConfig& config, const ParameterLayout& layout)
      : heads_(static_cast<std::size_t>(config.heads)), slope_(layout.offset("alibi.slope")) {}

  void fill(const BasicModel<T>& model, const ChunkIndex& index, const AttentionPlan& plan,
            T* bias) const override {
    for_each_pair(index, plan, heads_,
                  [&](std::size_t element, std::size_t head, const Token& query, const Token& key) {
                    const double slope = static_cast<double>(model.dense[slope_ + head]);
                    const double softplus =
                        std::max(slope, 0.0) + std::log1p(std::exp(-std::abs(slope)));
                    bias[element] = static_cast<T>(-softplus * distance(index, query, key));
                  });
  }

  void backward(const BasicModel<T>& model, const ChunkIndex& index, const AttentionPlan& plan,
                const T* d_bias, T* d_dense) const override {
    std::vector<double> d_softplus(heads_, 0.0);
    for_each_pair(index, plan, heads_,
                  [&](std::size_t element, std::size_t head, const Token& query, const Token& key) {
                    d_softplus[head] -=
                        static_cast<double>(d_bias[element]) * distance(index, query, key);
                  });
    for (std::size_t head = 0; head < heads_; ++head) {
      const double slope = static_cast<double>(model.dense[slope_ + head]);
      d_dense[slope_ + head] += static_cast<T>(d_softplus[head] / (1.0 + std::exp(-slope)));
    }
  }

 private:
  static double distance(const ChunkIndex& index, const Token& query, const Token& key) {
    double seconds = 0;
    if (!seconds_between(index, query, key, seconds)) return 0.0;
    return std::log1p(std::max(seconds, 0.0));
  }

  std::size_t heads_;
  std::size_t slope_;
};

}  // namespace

template <class T>
std::unique_ptr<const LogitBias<T>> make_logit_bias(const ModelConfig& config,
                                                    const ParameterLayout& layout) {
  const VariantParts parts = variant_parts(config);
  if (parts.time_bias) return std::make_unique<BucketBias<T>>(config, layout);
  if (parts.alibi) return std::make_unique<AlibiBias<T>>(config, layout);
  return nullptr;
}

template std::unique_ptr<const LogitBias<float>> make_logit_bias(const ModelConfig&,
                                                                 const ParameterLayout&);
template std::unique_ptr<const LogitBias<double>> make_logit_bias(const ModelConfig&,
                                                                  const ParameterLayout&);

}  // namespace sirenfeed::model
