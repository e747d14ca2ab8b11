#include "model/angle_terms.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/semantic_terms.h"
#include "model/temporal_terms.h"
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
                                                                  const ParameterLayout& layout,
                                                                  const std::string& prefix) {
  const VariantParts parts = variant_parts(config);
  std::vector<std::unique_ptr<const AngleTerm<T>>> terms;
  if (parts.position) {
    terms.push_back(std::make_unique<PositionTerm<T>>(config, layout, parts.position_planes));
  }
  if (parts.hierarchy) {
    terms.push_back(make_hierarchy_term<T>(config, layout, prefix));
  } else if (parts.discovery) {
    terms.push_back(make_gated_temporal_term<T>(config, layout, prefix));
  } else if (parts.sine || parts.relu) {
    terms.push_back(make_temporal_term<T>(config, layout, prefix));
  }
  if (parts.discovery) {
    terms.push_back(make_gated_semantic_term<T>(config, layout, prefix));
  } else if (parts.semantic) {
    terms.push_back(make_semantic_term<T>(config, layout, prefix));
  }
  if (parts.calendar_planes > 0) {
    terms.push_back(std::make_unique<CalendarTerm<T>>(parts.calendar_planes));
  }
  return terms;
}

template std::vector<std::unique_ptr<const AngleTerm<float>>> make_angle_terms(
    const ModelConfig&, const ParameterLayout&, const std::string&);
template std::vector<std::unique_ptr<const AngleTerm<double>>> make_angle_terms(
    const ModelConfig&, const ParameterLayout&, const std::string&);

}  // namespace sirenfeed::model
