#include "model/angle_path.h"

#include "model/vector_math.h"

namespace sirenfeed::model {

template <class T>
AnglePath<T>::AnglePath(const ParameterLayout& layout, const std::string& prefix, int hidden_layers,
                        Activation activation, double omega0)
    : activation_(activation), omega0_(static_cast<T>(omega0)) {
  for (int i = 0; i <= hidden_layers; ++i) {
    layers_.emplace_back(layout, prefix + "." + std::to_string(i));
  }
}

template <class T>
void AnglePath<T>::forward(const T* dense, View<const T> in, State& state, View<T> out) const {
  const std::size_t hidden = layers_.size() - 1;
  state.before.resize(hidden);
  state.after.resize(hidden);
  for (std::size_t i = 0; i < hidden; ++i) {
    Matrix<T>& before = state.before[i];
    Matrix<T>& after = state.after[i];
    before.resize(in.rows, layers_[i].out());
    after.resize(in.rows, layers_[i].out());
    layers_[i].forward(dense, in, before.view());
    T* z = before.data();
    T* h = after.data();
    if (activation_ == Activation::kSine) {
      for (std::size_t e = 0; e < before.size(); ++e) z[e] *= omega0_;
      sin_of(z, h, before.size());
    } else {
      for (std::size_t e = 0; e < before.size(); ++e) h[e] = z[e] > T{} ? z[e] : T{};
    }
    in = after.view();
  }
  layers_[hidden].forward(dense, in, out);
}

template <class T>
void AnglePath<T>::backward(const T* dense, View<const T> in, State& state, View<const T> d_out,
                            T* d_dense, View<T> d_in) const {
  View<const T> d_y = d_out;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (i == 0) {
      layers_[0].backward(dense, in, d_y, d_dense, d_in, {}, state.scratch);
      return;
    }
    const Matrix<T>& before = state.before[i - 1];
    state.d_hidden.resize(before.rows(), before.cols());
    layers_[i].backward(dense, state.after[i - 1].view(), d_y, d_dense, state.d_hidden.view(), {},
                        state.scratch);
    state.d_before.resize(before.rows(), before.cols());
    const T* z = before.data();
    const T* d_h = state.d_hidden.data();
    T* d_z = state.d_before.data();
    if (activation_ == Activation::kSine) {
      cos_of(z, d_z, before.size());
      for (std::size_t e = 0; e < before.size(); ++e) d_z[e] *= omega0_ * d_h[e];
    } else {
      for (std::size_t e = 0; e < before.size(); ++e) d_z[e] = z[e] > T{} ? d_h[e] : T{};
    }
    d_y = state.d_before.view();
  }
}

template class AnglePath<float>;
template class AnglePath<double>;

}  // namespace sirenfeed::model
