#include "model/angle_terms.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "model/time_features.h"

namespace sirenfeed::model {
namespace {

/// λ p θ_j on the first planes. The products reach hundreds of turns: double until wrapped.
template <class T>
class PositionTerm final : public AngleTerm<T> {
 public:
  PositionTerm(const ModelConfig& config, const ParameterLayout& layout, std::size_t planes)
      : lambda_(layout.offset("rotary.lambda")) {
    for (std::size_t j = 0; j < planes; ++j) {
      rates_.push_back(std::pow(config.base, -2.0 * static_cast<double>(j) / config.head_width()));
    }
  }

  void add(const AngleContext<T>& context, View<T> theta) const override {
    const double lambda = static_cast<double>(context.model.dense[lambda_]);
    const std::size_t positions = context.index.position_max + std::size_t{1};
    Matrix<T>& angles = context.state.position_angles;
    angles.resize(positions, rates_.size());
    for (std::size_t p = 0; p < positions; ++p) {
      for (std::size_t j = 0; j < rates_.size(); ++j) {
        constexpr double kTurn = 2.0 * std::numbers::pi;
        const double angle = lambda * static_cast<double>(p) * rates_[j];
        angles.row(p)[j] = static_cast<T>(angle - kTurn * std::round(angle / kTurn));
      }
    }
    for (std::size_t r = 0; r < theta.rows; ++r) {
      const T* from = angles.row(context.index.tokens[r].position);
      for (std::size_t j = 0; j < rates_.size(); ++j) theta.row(r)[j] += from[j];
    }
  }

  void backward(const AngleContext<T>& context, View<const T> d_theta, T* d_dense) const override {
    double d_lambda = 0;
    for (std::size_t r = 0; r < context.index.history_rows; ++r) {
      double row = 0;
      for (std::size_t j = 0; j < rates_.size(); ++j) {
        row += rates_[j] * static_cast<double>(d_theta.row(r)[j]);
      }
      d_lambda += row * context.index.tokens[r].position;
    }
    d_dense[lambda_] += static_cast<T>(d_lambda);
  }

 private:
  std::size_t lambda_;
  std::vector<double> rates_;  // θ_j
};

/// theta[r] += scale · f[number of r], and its way back; shared by the two learned signals.
template <class T, class NumberOf>
void add_scaled(View<T> theta, const ChunkIndex& index, const Matrix<T>& f, const T* scale,
                NumberOf number_of) {
  for (std::size_t r = 0; r < theta.rows; ++r) {
    const T* from = f.row(number_of(index.tokens[r]));
    T* to = theta.row(r);
    for (std::size_t j = 0; j < theta.cols; ++j) to[j] += scale[j] * from[j];
  }
}

template <class T, class NumberOf>
void scaled_backward(View<const T> d_theta, const ChunkIndex& index, const Matrix<T>& f,
                     const T* scale, NumberOf number_of, Matrix<T>& d_f, T* d_scale) {
  d_f.resize_zero(f.rows(), f.cols());
  for (std::size_t r = 0; r < d_theta.rows; ++r) {
    const std::size_t number = number_of(index.tokens[r]);
    const T* d_angle = d_theta.row(r);
    const T* value = f.row(number);
    T* d_value = d_f.row(number);
    for (std::size_t j = 0; j < d_theta.cols; ++j) {
      d_scale[j] += value[j] * d_angle[j];
      d_value[j] += scale[j] * d_angle[j];
    }
  }
}

/// ω f(T), f the sum of the paths that the variant has.
template <class T>
class TemporalTerm final : public AngleTerm<T> {
 public:
  TemporalTerm(const ModelConfig& config, const ParameterLayout& layout, const VariantParts& parts)
      : omega_(layout.offset("rotary.omega")), unknown_(layout.offset("rotary.unknown_time")) {
    const int hidden = config.angle_hidden_layers;
    if (parts.sine) {
      sine_.emplace(layout, "rotary.temporal.sine", hidden, Activation::kSine, config.omega0);
    }
    if (parts.relu) {
      relu_.emplace(layout, "rotary.temporal.relu", hidden, Activation::kRelu, config.omega0);
    }
  }

  void add(const AngleContext<T>& context, View<T> theta) const override {
    const std::vector<std::uint64_t>& times = context.index.times.keys();
    const T* dense = context.model.dense.data();
    AngleState<T>& state = context.state;
    state.time_features.resize_zero(times.size(), kTimeFeatureCount);
    for (std::size_t u = 0; u < times.size(); ++u) {
      const auto time_ms = static_cast<std::int64_t>(times[u]);
      if (time_ms == kUnknownTime) continue;
      const auto t = time_features(context.model.config, time_ms);
      for (std::size_t i = 0; i < kTimeFeatureCount; ++i) {
        // Through float, as the features are defined; it is exact enough for a double model too.
        state.time_features.row(u)[i] = static_cast<T>(static_cast<float>(t[i]));
      }
    }
    state.temporal.resize(times.size(), theta.cols);
    state.path_out.resize(times.size(), theta.cols);
    const Matrix<T>& t = state.time_features;
    if (sine_) sine_->forward(dense, t.view(), state.sine, state.temporal.view());
    if (relu_) {
      Matrix<T>& out = sine_ ? state.path_out : state.temporal;
      relu_->forward(dense, t.view(), state.relu, out.view());
      if (sine_) {
        for (std::size_t e = 0; e < out.size(); ++e) state.temporal.data()[e] += out.data()[e];
      }
    }
    for (std::size_t u = 0; u < times.size(); ++u) {
      if (static_cast<std::int64_t>(times[u]) != kUnknownTime) continue;
      std::copy_n(dense + unknown_, theta.cols, state.temporal.row(u));
    }
    add_scaled(theta, context.index, state.temporal, dense + omega_,
               [](const Token& token) { return token.time; });
  }

  void backward(const AngleContext<T>& context, View<const T> d_theta, T* d_dense) const override {
    const T* dense = context.model.dense.data();
    AngleState<T>& state = context.state;
    scaled_backward(
        d_theta, context.index, state.temporal, dense + omega_,
        [](const Token& token) { return token.time; }, state.d_temporal, d_dense + omega_);
    const std::vector<std::uint64_t>& times = context.index.times.keys();
    for (std::size_t u = 0; u < times.size(); ++u) {
      if (static_cast<std::int64_t>(times[u]) != kUnknownTime) continue;
      T* d_row = state.d_temporal.row(u);
      for (std::size_t j = 0; j < d_theta.cols; ++j) {
        d_dense[unknown_ + j] += d_row[j];
        d_row[j] = T{};
      }
    }
    const View<const T> t = state.time_features.view();
    const View<const T> d_f = state.d_temporal.view();
    if (sine_) sine_->backward(dense, t, state.sine, d_f, d_dense, View<T>{});
    if (relu_) relu_->backward(dense, t, state.relu, d_f, d_dense, View<T>{});
  }

 private:
  std::size_t omega_;
  std::size_t unknown_;
  std::optional<AnglePath<T>> sine_;
  std::optional<AnglePath<T>> relu_;
};

/// ω^sem f_sem of the tags' mean row plus the segment's.
template <class T>
class SemanticTerm final : public AngleTerm<T> {
 public:
  SemanticTerm(const ModelConfig& config, const ParameterLayout& layout)
      : omega_(layout.offset("rotary.omega_semantic")),
        path_(layout, "rotary.semantic.sine", config.angle_hidden_layers, Activation::kSine,
              config.omega0) {}

  void add(const AngleContext<T>& context, View<T> theta) const override {
    const ChunkIndex& index = context.index;
    AngleState<T>& state = context.state;
    const Matrix<T>& tags = context.rows.value(TableId::kSemanticTag);
    const Matrix<T>& segments = context.rows.value(TableId::kSemanticSegment);
    const std::size_t width = tags.cols();
    state.meaning_in.resize_zero(index.meanings.size(), width);
    for (std::size_t m = 0; m < index.meanings.size(); ++m) {
      const Meaning& meaning = index.meanings[m];
      const Token& token = index.tokens[meaning.token];
      T* s = state.meaning_in.row(m);
      if (!index.without_tags(token)) {
        for (const std::uint32_t number : index.tags_of(token)) {
          for (std::size_t i = 0; i < width; ++i) s[i] += tags.row(number)[i];
        }
        const T share = T{1} / static_cast<T>(token.tags_end - token.tags_begin);
        for (std::size_t i = 0; i < width; ++i) s[i] *= share;
      }
      if (meaning.segment == kNoRow) continue;
      for (std::size_t i = 0; i < width; ++i) s[i] += segments.row(meaning.segment)[i];
    }
    const T* dense = context.model.dense.data();
    state.semantic.resize(index.meanings.size(), theta.cols);
    path_.forward(dense, state.meaning_in.view(), state.semantic_path, state.semantic.view());
    add_scaled(theta, index, state.semantic, dense + omega_,
               [](const Token& token) { return token.meaning; });
  }

  void backward(const AngleContext<T>& context, View<const T> d_theta, T* d_dense) const override {
    const ChunkIndex& index = context.index;
    AngleState<T>& state = context.state;
    const T* dense = context.model.dense.data();
    scaled_backward(
        d_theta, index, state.semantic, dense + omega_,
        [](const Token& token) { return token.meaning; }, state.d_semantic, d_dense + omega_);
    Matrix<T>& d_tags = context.rows.gradient(TableId::kSemanticTag);
    Matrix<T>& d_segments = context.rows.gradient(TableId::kSemanticSegment);
    const std::size_t width = d_tags.cols();
    state.d_meaning_in.resize(index.meanings.size(), width);
    path_.backward(dense, state.meaning_in.view(), state.semantic_path, state.d_semantic.view(),
                   d_dense, state.d_meaning_in.view());
    for (std::size_t m = 0; m < index.meanings.size(); ++m) {
      const Meaning& meaning = index.meanings[m];
      const Token& token = index.tokens[meaning.token];
      const T* d_s = state.d_meaning_in.row(m);
      if (!index.without_tags(token)) {
        const T share = T{1} / static_cast<T>(token.tags_end - token.tags_begin);
        for (const std::uint32_t number : index.tags_of(token)) {
          for (std::size_t i = 0; i < width; ++i) d_tags.row(number)[i] += share * d_s[i];
        }
      }
      if (meaning.segment == kNoRow) continue;
      for (std::size_t i = 0; i < width; ++i) d_segments.row(meaning.segment)[i] += d_s[i];
    }
  }

 private:
  std::size_t omega_;
  AnglePath<T> path_;
};

/// 2π (T mod τ_j)/τ_j on the last planes; not learned.
template <class T>
class CalendarTerm final : public AngleTerm<T> {
 public:
  explicit CalendarTerm(std::size_t planes) : periods_ms_(calendar_periods_ms(planes)) {}

  void add(const AngleContext<T>& context, View<T> theta) const override {
    const std::vector<std::uint64_t>& times = context.index.times.keys();
    Matrix<T>& angles = context.state.calendar;
    angles.resize_zero(times.size(), periods_ms_.size());
    for (std::size_t u = 0; u < times.size(); ++u) {
      const auto time_ms = static_cast<std::int64_t>(times[u]);
      if (time_ms == kUnknownTime) continue;
      for (std::size_t j = 0; j < periods_ms_.size(); ++j) {
        const double phase = static_cast<double>(floor_mod(time_ms, periods_ms_[j])) /
                             static_cast<double>(periods_ms_[j]);
        // Half a turn back is the same angle within ±π.
        angles.row(u)[j] =
            static_cast<T>(2.0 * std::numbers::pi * (phase > 0.5 ? phase - 1.0 : phase));
      }
    }
    const std::size_t first = theta.cols - periods_ms_.size();
    for (std::size_t r = 0; r < theta.rows; ++r) {
      const T* from = angles.row(context.index.tokens[r].time);
      for (std::size_t j = 0; j < periods_ms_.size(); ++j) theta.row(r)[first + j] += from[j];
    }
  }

  void backward(const AngleContext<T>&, View<const T>, T*) const override {}

 private:
  std::vector<std::int64_t> periods_ms_;
};

}  // namespace

std::vector<std::int64_t> calendar_periods_ms(std::size_t planes) {
  std::vector<std::int64_t> periods(planes, 3'600'000);
  for (std::size_t i = 1; i < planes; ++i) {
    const double step = static_cast<double>(i) / static_cast<double>(planes - 1);
    periods[i] = static_cast<std::int64_t>(std::llround(3'600'000.0 * std::pow(1440.0, step)));
  }
  return periods;
}

template <class T>
std::vector<std::unique_ptr<const AngleTerm<T>>> make_angle_terms(const ModelConfig& config,
                                                                  const ParameterLayout& layout) {
  const VariantParts parts = variant_parts(config);
  std::vector<std::unique_ptr<const AngleTerm<T>>> terms;
  if (parts.position) {
    terms.push_back(std::make_unique<PositionTerm<T>>(config, layout, parts.position_planes));
  }
  if (parts.sine || parts.relu) {
    terms.push_back(std::make_unique<TemporalTerm<T>>(config, layout, parts));
  }
  if (parts.semantic) terms.push_back(std::make_unique<SemanticTerm<T>>(config, layout));
  if (parts.calendar_planes > 0) {
    terms.push_back(std::make_unique<CalendarTerm<T>>(parts.calendar_planes));
  }
  return terms;
}

template std::vector<std::unique_ptr<const AngleTerm<float>>> make_angle_terms(
    const ModelConfig&, const ParameterLayout&);
template std::vector<std::unique_ptr<const AngleTerm<double>>> make_angle_terms(
    const ModelConfig&, const ParameterLayout&);

}  // namespace sirenfeed::model
