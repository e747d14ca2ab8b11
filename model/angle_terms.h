#pragma once
// What a token's angle Θ is the sum of. A variant is a list of terms; each adds its part in forward
// and takes its share of dΘ in backward.
#include <memory>
#include <string>
#include <vector>

#include "model/angle_path.h"
#include "model/chunk_index.h"
#include "model/matrix.h"
#include "model/model.h"

namespace sirenfeed::model {

/// The distinct rows of every table that a chunk uses, and their gradients. Numbers as in
/// ChunkIndex. `semantic_tag` has a row for every number of ChunkIndex::tags, that of key 0 unused.
template <class T>
struct ChunkRows {
  Matrix<T> values[kTableCount];
  Matrix<T> gradients[kTableCount];

  [[nodiscard]] Matrix<T>& value(TableId id) { return values[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Matrix<T>& gradient(TableId id) { return gradients[static_cast<std::size_t>(id)]; }
};

/// Memory of a sine and a ReLU path on the same input.
template <class T>
struct PathsState {
  typename AnglePath<T>::State sine;
  typename AnglePath<T>::State relu;
  Matrix<T> relu_out;
};

/// Memory of one set of angle terms.
template <class T>
struct AngleState {
  Matrix<T> position_angles;                  // [p, planes], wrapped to ±π
  std::vector<Matrix<T>> time_features;       // a network: [times, features]
  std::vector<PathsState<T>> temporal_paths;  // a network
  Matrix<T> temporal;                         // f [times, P]
  Matrix<T> d_temporal;
  Matrix<T> gated_features;  // of the discovery variant: time_features times their gates
  Matrix<T> d_gated_features;
  Matrix<T> path_scratch;
  Matrix<T> meaning_in;  // s [meanings, semantic width]
  Matrix<T> semantic;    // f_sem [meanings, P]
  Matrix<T> d_semantic;
  Matrix<T> d_meaning_in;
  typename AnglePath<T>::State semantic_path;
  Matrix<T> calendar;  // [times, planes]
};

template <class T>
struct AngleContext {
  const BasicModel<T>& model;
  const ChunkIndex& index;
  ChunkRows<T>& rows;
  AngleState<T>& state;
};

template <class T>
class AngleTerm {
 public:
  virtual ~AngleTerm() = default;
  /// theta [rows, P] += this term.
  virtual void add(const AngleContext<T>& context, View<T> theta) const = 0;
  /// d_dense and context.rows' gradients += this term's share of d_theta [rows, P].
  virtual void backward(const AngleContext<T>& context, View<const T> d_theta,
                        T* d_dense) const = 0;
};

/// The terms of config.variant with the angle networks of `prefix` (one of angle_prefixes); none
/// for a variant that does not rotate.
template <class T>
[[nodiscard]] std::vector<std::unique_ptr<const AngleTerm<T>>> make_angle_terms(
    const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix);

extern template std::vector<std::unique_ptr<const AngleTerm<float>>> make_angle_terms(
    const ModelConfig&, const ParameterLayout&, const std::string&);
extern template std::vector<std::unique_ptr<const AngleTerm<double>>> make_angle_terms(
    const ModelConfig&, const ParameterLayout&, const std::string&);

/// τ_j in ms of the calendar planes: 1 hour to 60 days, geometric.
[[nodiscard]] std::vector<std::int64_t> calendar_periods_ms(std::size_t planes);

}  // namespace sirenfeed::model
