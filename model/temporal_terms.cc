#include "model/temporal_terms.h"

#include <array>
#include <optional>

#include "model/discovery.h"
#include "model/scaled_angles.h"
#include "model/time_features.h"

namespace sirenfeed::model {
namespace {

std::uint32_t time_of(const Token& token) { return token.time; }

/// A sine and a ReLU path on one input, added; or one of them.
template <class T>
class Paths {
 public:
  Paths(const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix) {
    const VariantParts parts = variant_parts(config);
    const int hidden = config.angle_hidden_layers;
    if (parts.sine) {
      sine_.emplace(layout, prefix + ".sine", hidden, Activation::kSine, config.omega0);
    }
    if (parts.relu) {
      relu_.emplace(layout, prefix + ".relu", hidden, Activation::kRelu, config.omega0);
    }
  }

  void forward(const T* dense, View<const T> in, PathsState<T>& state, View<T> out) const {
    if (sine_) sine_->forward(dense, in, state.sine, out);
    if (!relu_) return;
    if (!sine_) return relu_->forward(dense, in, state.relu, out);
    state.relu_out.resize(out.rows, out.cols);
    relu_->forward(dense, in, state.relu, state.relu_out.view());
    for (std::size_t r = 0; r < out.rows; ++r) {
      const T* from = state.relu_out.row(r);
      for (std::size_t j = 0; j < out.cols; ++j) out.row(r)[j] += from[j];
    }
  }

  /// d_dense += ….
  void backward(const T* dense, View<const T> in, PathsState<T>& state, View<const T> d_out,
                T* d_dense) const {
    if (sine_) sine_->backward(dense, in, state.sine, d_out, d_dense, View<T>{});
    if (relu_) relu_->backward(dense, in, state.relu, d_out, d_dense, View<T>{});
  }

  /// d_in is overwritten besides, by way of `scratch`.
  void backward_to_input(const T* dense, View<const T> in, PathsState<T>& state,
                         View<const T> d_out, T* d_dense, Matrix<T>& d_in,
                         Matrix<T>& scratch) const {
    d_in.resize_zero(in.rows, in.cols);
    const auto add = [&](const AnglePath<T>& path, typename AnglePath<T>::State& path_state) {
      scratch.resize(in.rows, in.cols);
      path.backward(dense, in, path_state, d_out, d_dense, scratch.view());
      for (std::size_t e = 0; e < scratch.size(); ++e) d_in.data()[e] += scratch.data()[e];
    };
    if (sine_) add(*sine_, state.sine);
    if (relu_) add(*relu_, state.relu);
  }

 private:
  std::optional<AnglePath<T>> sine_;
  std::optional<AnglePath<T>> relu_;
};

/// What the three terms share: the distinct times' features and the rows without time.
template <class T>
class TimedTerm : public AngleTerm<T> {
 public:
  TimedTerm(const ParameterLayout& layout, const std::string& prefix)
      : omega_(layout.offset(prefix + ".omega")),
        unknown_(layout.offset(prefix + ".unknown_time")) {}

  void add(const AngleContext<T>& context, View<T> theta) const override {
    const std::vector<std::uint64_t>& times = context.index.times.keys();
    const T* dense = context.model.dense.data();
    Matrix<T>& f = context.state.temporal;
    f.resize(times.size(), theta.cols);
    forward(context, f.view());
    for (std::size_t u = 0; u < times.size(); ++u) {
      if (static_cast<std::int64_t>(times[u]) != kUnknownTime) continue;
      std::copy_n(dense + unknown_, theta.cols, f.row(u));
    }
    add_scaled(theta, context.index, f, dense + omega_, time_of);
  }

  void backward(const AngleContext<T>& context, View<const T> d_theta, T* d_dense) const override {
    AngleState<T>& state = context.state;
    scaled_backward(d_theta, context.index, state.temporal, context.model.dense.data() + omega_,
                    time_of, state.d_temporal, d_dense + omega_);
    const std::vector<std::uint64_t>& times = context.index.times.keys();
    for (std::size_t u = 0; u < times.size(); ++u) {
      if (static_cast<std::int64_t>(times[u]) != kUnknownTime) continue;
      T* d_row = state.d_temporal.row(u);
      for (std::size_t j = 0; j < d_theta.cols; ++j) {
        d_dense[unknown_ + j] += d_row[j];
        d_row[j] = T{};
      }
    }
    backward(context, d_dense);
  }

 protected:
  /// f [times, P] but for the rows without time, which are overwritten afterwards.
  virtual void forward(const AngleContext<T>& context, View<T> f) const = 0;
  /// From context.state.d_temporal, whose rows without time are 0.
  virtual void backward(const AngleContext<T>& context, T* d_dense) const = 0;

  /// [times, features(time)], 0 without time. Through float, as the features are defined; it is
  /// exact enough for a double model too.
  template <class Features>
  static void fill_features(const AngleContext<T>& context, std::size_t count, Features features,
                            Matrix<T>& out) {
    const std::vector<std::uint64_t>& times = context.index.times.keys();
    out.resize_zero(times.size(), count);
    for (std::size_t u = 0; u < times.size(); ++u) {
      const auto time_ms = static_cast<std::int64_t>(times[u]);
      if (time_ms == kUnknownTime) continue;
      const auto t = features(time_ms);
      for (std::size_t i = 0; i < count; ++i)
        out.row(u)[i] = static_cast<T>(static_cast<float>(t[i]));
    }
  }

  static Matrix<T>& fill_time_features(const AngleContext<T>& context) {
    context.state.time_features.resize(1);
    context.state.temporal_paths.resize(1);
    Matrix<T>& t = context.state.time_features[0];
    const auto features = [&](std::int64_t ms) { return time_features(context.model.config, ms); };
    fill_features(context, kTimeFeatureCount, features, t);
    return t;
  }

 private:
  std::size_t omega_;
  std::size_t unknown_;
};

template <class T>
class TemporalTerm final : public TimedTerm<T> {
 public:
  TemporalTerm(const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix)
      : TimedTerm<T>(layout, prefix), paths_(config, layout, prefix + ".temporal") {}

 protected:
  void forward(const AngleContext<T>& context, View<T> f) const override {
    const Matrix<T>& t = this->fill_time_features(context);
    paths_.forward(context.model.dense.data(), t.view(), context.state.temporal_paths[0], f);
  }
  void backward(const AngleContext<T>& context, T* d_dense) const override {
    AngleState<T>& state = context.state;
    paths_.backward(context.model.dense.data(), state.time_features[0].view(),
                    state.temporal_paths[0], state.d_temporal.view(), d_dense);
  }

 private:
  Paths<T> paths_;
};

template <class T>
class HierarchyTerm final : public TimedTerm<T> {
 public:
  HierarchyTerm(const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix)
      : TimedTerm<T>(layout, prefix),
        groups_(scale_groups(static_cast<std::size_t>(config.planes()))) {
    for (const ScaleGroup& group : groups_) {
      paths_.emplace_back(config, layout, prefix + ".hierarchy." + time_scale_name(group.scale));
    }
  }

 protected:
  void forward(const AngleContext<T>& context, View<T> f) const override {
    AngleState<T>& state = context.state;
    state.time_features.resize(groups_.size());
    state.temporal_paths.resize(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const TimeScale scale = groups_[g].scale;
      const auto features = [&](std::int64_t time_ms) {
        return scale_features(context.model.config, scale, time_ms);
      };
      this->fill_features(context, scale_feature_count(scale), features, state.time_features[g]);
      paths_[g].forward(context.model.dense.data(), state.time_features[g].view(),
                        state.temporal_paths[g], f.columns(groups_[g].first, groups_[g].planes));
    }
  }
  void backward(const AngleContext<T>& context, T* d_dense) const override {
    AngleState<T>& state = context.state;
    const View<const T> d_f = state.d_temporal.view();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      paths_[g].backward(context.model.dense.data(), state.time_features[g].view(),
                         state.temporal_paths[g], d_f.columns(groups_[g].first, groups_[g].planes),
                         d_dense);
    }
  }

 private:
  std::vector<ScaleGroup> groups_;
  std::vector<Paths<T>> paths_;
};

/// Which gate each feature of t takes.
constexpr std::array<Signal, kTimeFeatureCount> kSignalOfFeature = {
    Signal::kHour, Signal::kHour, Signal::kWeekday, Signal::kWeekday, Signal::kAge};

template <class T>
class GatedTemporalTerm final : public TimedTerm<T> {
 public:
  GatedTemporalTerm(const ModelConfig& config, const ParameterLayout& layout,
                    const std::string& prefix)
      : TimedTerm<T>(layout, prefix),
        gates_(layout.offset("rotary.gate")),
        paths_(config, layout, prefix + ".temporal") {}

 protected:
  void forward(const AngleContext<T>& context, View<T> f) const override {
    AngleState<T>& state = context.state;
    const T* dense = context.model.dense.data();
    const Matrix<T>& t = this->fill_time_features(context);
    state.gated_features.resize(t.rows(), t.cols());
    for (std::size_t i = 0; i < t.cols(); ++i) {
      const double a = static_cast<double>(dense[gate(i)]);
      const T g = static_cast<T>(gate_of(a));
      for (std::size_t u = 0; u < t.rows(); ++u) state.gated_features.row(u)[i] = g * t.row(u)[i];
    }
    paths_.forward(dense, state.gated_features.view(), state.temporal_paths[0], f);
  }

  void backward(const AngleContext<T>& context, T* d_dense) const override {
    AngleState<T>& state = context.state;
    const T* dense = context.model.dense.data();
    const Matrix<T>& t = state.time_features[0];
    Matrix<T>& d_in = state.d_gated_features;
    paths_.backward_to_input(dense, state.gated_features.view(), state.temporal_paths[0],
                             state.d_temporal.view(), d_dense, d_in, state.path_scratch);
    for (std::size_t i = 0; i < t.cols(); ++i) {
      double d_gate = 0;
      for (std::size_t u = 0; u < t.rows(); ++u) {
        d_gate += static_cast<double>(d_in.row(u)[i]) * static_cast<double>(t.row(u)[i]);
      }
      d_dense[gate(i)] += static_cast<T>(d_gate * gate_slope(static_cast<double>(dense[gate(i)])));
    }
  }

 private:
  [[nodiscard]] std::size_t gate(std::size_t feature) const {
    return gates_ + static_cast<std::size_t>(kSignalOfFeature[feature]);
  }

  std::size_t gates_;
  Paths<T> paths_;
};

}  // namespace

template <class T>
std::unique_ptr<const AngleTerm<T>> make_temporal_term(const ModelConfig& config,
                                                       const ParameterLayout& layout,
                                                       const std::string& prefix) {
  return std::make_unique<TemporalTerm<T>>(config, layout, prefix);
}

template <class T>
std::unique_ptr<const AngleTerm<T>> make_hierarchy_term(const ModelConfig& config,
                                                        const ParameterLayout& layout,
                                                        const std::string& prefix) {
  return std::make_unique<HierarchyTerm<T>>(config, layout, prefix);
}

template <class T>
std::unique_ptr<const AngleTerm<T>> make_gated_temporal_term(const ModelConfig& config,
                                                             const ParameterLayout& layout,
                                                             const std::string& prefix) {
  return std::make_unique<GatedTemporalTerm<T>>(config, layout, prefix);
}

template std::unique_ptr<const AngleTerm<float>> make_temporal_term(const ModelConfig&,
                                                                    const ParameterLayout&,
                                                                    const std::string&);
template std::unique_ptr<const AngleTerm<double>> make_temporal_term(const ModelConfig&,
                                                                     const ParameterLayout&,
                                                                     const std::string&);
template std::unique_ptr<const AngleTerm<float>> make_hierarchy_term(const ModelConfig&,
                                                                     const ParameterLayout&,
                                                                     const std::string&);
template std::unique_ptr<const AngleTerm<double>> make_hierarchy_term(const ModelConfig&,
                                                                      const ParameterLayout&,
                                                                      const std::string&);
template std::unique_ptr<const AngleTerm<float>> make_gated_temporal_term(const ModelConfig&,
                                                                          const ParameterLayout&,
                                                                          const std::string&);
template std::unique_ptr<const AngleTerm<double>> make_gated_temporal_term(const ModelConfig&,
                                                                           const ParameterLayout&,
                                                                           const std::string&);

}  // namespace sirenfeed::model
