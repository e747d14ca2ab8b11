#pragma once
// Scores and differentiates. A Ranker is a variant's computation without its parameters: made once
// from the configuration, const and thread-safe; all mutable memory is in the caller's Workspace,
// one a thread. After the first few calls of the largest shapes nothing allocates.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/slate.h"
#include "model/towers.h"

namespace sirenfeed::model {

/// Intermediate results of one forward call, reused by the next. Opaque; movable, not copyable.
template <class T>
class BasicWorkspace {
 public:
  BasicWorkspace();
  ~BasicWorkspace();
  BasicWorkspace(BasicWorkspace&&) noexcept;
  BasicWorkspace& operator=(BasicWorkspace&&) noexcept;

  struct Impl;
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Gradient rows of one table: keys distinct, in order of first use in the chunk (but see
/// add_gradient).
template <class T>
struct BasicRowGradients {
  std::vector<Key> keys;
  std::vector<T> rows;  // [keys, width]
};

/// What backward() leaves. Reuse it to keep its memory.
template <class T>
struct BasicChunkGradient {
  std::vector<T> dense;                                  // like BasicModel::dense
  std::array<BasicRowGradients<T>, kTableCount> tables;  // indexed by TableId
};

/// Contract of every variant: the scores of a slate do not depend on what else is in the chunk or
/// on the candidates beside them, to the bit; nor do gradients depend on threads.
template <class T>
class BasicRanker {
 public:
  virtual ~BasicRanker() = default;

  /// The transformer's own z [rows, K] before calibration, rows = all candidates of the chunk's
  /// slates in order. Points into the workspace until its next use. The slates have passed
  /// check_slate.
  virtual std::span<const T> forward(const BasicModel<T>& model,
                                     std::span<const Slate* const> chunk,
                                     BasicWorkspace<T>& workspace) const = 0;

  /// forward()'s z, to the bit, for scoring alone: keeps nothing for backward(), which may not
  /// follow, and works through the rows in tiles that stay in the cache.
  virtual std::span<const T> infer(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                                   BasicWorkspace<T>& workspace) const = 0;
  /// After forward() or infer() of the same chunk: the logits of the other towers and the mean of
  /// all, which is what calibration takes. Points into the workspace until its next use.
  virtual TowerLogits<T> tower_logits(const BasicModel<T>& model,
                                      std::span<const Slate* const> chunk,
                                      BasicWorkspace<T>& workspace) const = 0;

  /// Gradient of Σ d_z · z for the chunk of the workspace's last forward() with the same model.
  /// d_z [rows, K]; `gradient` is overwritten.
  void backward(const BasicModel<T>& model, BasicWorkspace<T>& workspace, std::span<const T> d_z,
                BasicChunkGradient<T>& gradient) const {
    gradient.dense.assign(model.dense.size(), T{});
    for (BasicRowGradients<T>& table : gradient.tables) {
      table.keys.clear();
      table.rows.clear();
    }
    add_gradient(model, workspace, d_z, gradient);
  }
  /// The same added to `gradient`, whose dense part has the layout's size: the rows are appended,
  /// so that a key may then stand there more than once.
  virtual void add_gradient(const BasicModel<T>& model, BasicWorkspace<T>& workspace,
                            std::span<const T> d_z, BasicChunkGradient<T>& gradient) const = 0;
};

using Workspace = BasicWorkspace<float>;
using ChunkGradient = BasicChunkGradient<float>;
using Ranker = BasicRanker<float>;

/// The ranker of config.variant. kInvalidArgument for a variant that this build does not have.
[[nodiscard]] base::Result<std::unique_ptr<const Ranker>> make_ranker(const ModelConfig& config);
[[nodiscard]] base::Result<std::unique_ptr<const BasicRanker<double>>> make_double_ranker(
    const ModelConfig& config);

/// Calibrated logits [C, K] of one request. kInvalidArgument from check_slate; `logits` must have
/// C · K elements.
[[nodiscard]] base::Result<void> score(const Ranker& ranker, const Model& model, const Slate& slate,
                                       Workspace& workspace, std::span<float> logits);

}  // namespace sirenfeed::model
