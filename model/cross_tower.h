#pragma once
// The cross tower: linear over hashed crosses, 2^20 weight rows of [K] (docs/FORMATS.md, "Crosses",
// says which and how they are hashed). Its weights lie in Model::cross, so a file holds only those
// that were learned.
//
// The crosses are (tag, author, item, surface, bucket, hour) × (user, surface, tag), but item ×
// user: an item is hardly ever shown to a user twice, so that weight would be read by no later
// score and would fill the 2^20 rows. A pair of equals (tag × tag) is the one feature itself. To
// them come a constant and the bin of every counter, one of 20 between the edges of
// statistics.cross_edges.
#include <cstddef>
#include <vector>

#include "model/model.h"

namespace sirenfeed::model {

inline constexpr std::size_t kCrossBits = 20;
inline constexpr std::size_t kCrossBins = 20;
inline constexpr std::size_t kCrossEdges = kCrossBins - 1;

class CrossFeatures {
 public:
  CrossFeatures() = default;
  explicit CrossFeatures(const ModelConfig& config);

  /// Appends the keys of the weights that candidate `index` of the slate adds up, in [0, 2^20). The
  /// tag is the item's first. An unknown user, time or duration has no crosses.
  void append_keys(const Statistics& statistics, const Slate& slate, std::size_t index,
                   std::vector<Key>& keys) const;

 private:
  void append_crosses(const Slate& slate, std::size_t index, std::vector<Key>& keys) const;

  std::size_t width_ = 0;     // columns of a context row
  std::size_t duration_ = 0;  // the column of item duration; width_ without one
  std::int64_t zone_offset_ms_ = 0;
};

/// z [K] = Σ weights of the keys, in their order; a key without a row adds nothing.
template <class T>
void add_cross_weights(const BasicEmbeddingTable<T>& cross, const std::vector<Key>& keys, T* z);

extern template void add_cross_weights(const BasicEmbeddingTable<float>&, const std::vector<Key>&,
                                       float*);
extern template void add_cross_weights(const BasicEmbeddingTable<double>&, const std::vector<Key>&,
                                       double*);

}  // namespace sirenfeed::model
