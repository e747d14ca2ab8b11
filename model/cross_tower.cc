#include "model/cross_tower.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "model/time_features.h"

namespace sirenfeed::model {

namespace {

enum Kind : std::uint64_t {
  kConstant,
  kTag,
  kSurface,
  kTagUser,
  kTagSurface,
  kAuthorUser,
  kAuthorSurface,
  kAuthorTag,
  kItemSurface,
  kItemTag,
  kSurfaceUser,
  kBucketUser,
  kBucketSurface,
  kBucketTag,
  kHourUser,
  kHourSurface,
  kHourTag,
  kBin,
};

Key cross_key(Kind kind, std::uint64_t a, std::uint64_t b) {
  return base::mix64(base::mix64(a + (kind + 1) * base::kSplitMixStep) ^ b) >> (64U - kCrossBits);
}

/// FEATURES.md's duration bucket from the feature ln(seconds, at least 1)/2 − 1.5.
std::uint64_t duration_bucket(float feature) {
  const double ln_seconds = 2.0 * (static_cast<double>(feature) + 1.5);
  // Back and forth through float: a hair more, so that a bucket's lower edge stays in it.
  const double bucket = std::trunc((ln_seconds - std::log(5.0)) / 0.4 + 1e-5);
  return static_cast<std::uint64_t>(std::clamp(bucket, 0.0, 14.0));
}

}  // namespace

CrossFeatures::CrossFeatures(const ModelConfig& config)
    : width_(config.context_row_width()), zone_offset_ms_(config.zone_offset_ms) {
  const auto& names = config.context_names;
  const auto duration = std::find(names.begin(), names.end(), "item.duration");
  duration_ = duration == names.end() ? width_ : static_cast<std::size_t>(duration - names.begin());
}

void CrossFeatures::append_crosses(const Slate& slate, std::size_t index,
                                   std::vector<Key>& keys) const {
  const ItemRef& item = slate.candidates[index];
  const Key tag = item.tags_begin < item.tags_end ? slate.tags[item.tags_begin] : kNoKey;
  const auto add = [&keys](Kind kind, std::uint64_t a, std::uint64_t b) {
    keys.push_back(cross_key(kind, a, b));
  };
  add(kConstant, 0, 0);
  add(kTag, tag, 0);
  add(kSurface, slate.surface, 0);
  add(kTagSurface, tag, slate.surface);
  add(kAuthorSurface, item.author, slate.surface);
  add(kAuthorTag, item.author, tag);
  add(kItemSurface, item.item, slate.surface);
  add(kItemTag, item.item, tag);
  const bool user = slate.user != kNoKey;
  if (user) {
    add(kTagUser, tag, slate.user);
    add(kAuthorUser, item.author, slate.user);
    add(kSurfaceUser, slate.surface, slate.user);
  }
  if (duration_ < width_) {
    const std::uint64_t bucket = duration_bucket(slate.context[index * width_ + duration_]);
    if (user) add(kBucketUser, bucket, slate.user);
    add(kBucketSurface, bucket, slate.surface);
    add(kBucketTag, bucket, tag);
  }
  if (slate.time_ms != kUnknownTime) {
    const auto hour = static_cast<std::uint64_t>(
        floor_mod(floor_mod(slate.time_ms, 86'400'000) + zone_offset_ms_, 86'400'000) / 3'600'000);
    if (user) add(kHourUser, hour, slate.user);
    add(kHourSurface, hour, slate.surface);
    add(kHourTag, hour, tag);
  }
}

void CrossFeatures::append_keys(const Statistics& statistics, const Slate& slate, std::size_t index,
                                std::vector<Key>& keys) const {
  append_crosses(slate, index, keys);
  const float* c = slate.context.data() + index * width_;
  const float* edges = statistics.cross_edges.data();
  for (std::size_t f = 0; f < width_; ++f, edges += kCrossEdges) {
    std::uint64_t bin = 0;
    for (std::size_t e = 0; e < kCrossEdges; ++e) bin += c[f] >= edges[e] ? 1U : 0U;
    keys.push_back(cross_key(kBin, f, bin));
  }
}

template <class T>
void add_cross_weights(const BasicEmbeddingTable<T>& cross, const std::vector<Key>& keys, T* z) {
  for (const Key key : keys) {
    const std::uint32_t row = cross.index_of(key);
    if (row == kNoRow) continue;
    const std::span<const T> weights = cross.row_at(row);
    for (std::size_t k = 0; k < weights.size(); ++k) z[k] += weights[k];
  }
}

template void add_cross_weights(const BasicEmbeddingTable<float>&, const std::vector<Key>&, float*);
template void add_cross_weights(const BasicEmbeddingTable<double>&, const std::vector<Key>&,
                                double*);

}  // namespace sirenfeed::model
