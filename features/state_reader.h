#pragma once
#include <memory>
#include <string>
#include <vector>

#include "features/action_types.h"
#include "features/candidate_index.h"
#include "features/context_computer.h"
#include "features/feature_reader.h"
#include "features/history.h"
#include "features/item_side.h"
#include "features/served_inputs.h"
#include "features/store.h"

namespace sirenfeed::features {

/// FeatureReader over the store and the decoded tables. Threads: any.
class StateReader final : public FeatureReader {
 public:
  /// Everything outlives it; `types` has the configured actions already.
  StateReader(const FeaturesConfig& config, const Store& store, const ItemSide& item_side,
              ActionTypes& types, const CandidateIndex& index, const ContextComputer& computer);

  [[nodiscard]] base::Result<UserSnapshot> read_user(std::string_view user_id,
                                                     base::UnixMs now) const override;
  [[nodiscard]] base::Result<std::vector<SequenceView>> read_sequence(
      std::string_view user_id) const override;
  [[nodiscard]] base::Result<std::optional<base::UnixMs>> erased_at(
      std::string_view user_id) const override;
  void context(const UserSnapshot& user, std::span<const Key> items, std::string_view surface,
               std::span<float> out) const override;
  [[nodiscard]] const std::vector<std::string>& feature_names() const override { return names_; }

  [[nodiscard]] std::string served_inputs(const UserSnapshot& user, std::string_view surface,
                                          std::span<const ServedItem> items,
                                          std::span<const float> context) const override;

  [[nodiscard]] CatalogItemPtr item(Key hash) const override { return item_side_.item(hash); }
  [[nodiscard]] CatalogItemPtr item(std::string_view item_id) const override;
  [[nodiscard]] bool servable(Key hash, base::UnixMs now) const override;

  [[nodiscard]] std::vector<Key> fresh(std::size_t limit, base::UnixMs now) const override;
  [[nodiscard]] std::vector<Key> popular(PopularSpan span, std::size_t limit,
                                         base::UnixMs now) const override;
  [[nodiscard]] std::vector<Key> by_tag(Key tag, std::size_t limit,
                                        base::UnixMs now) const override;
  [[nodiscard]] std::vector<Key> by_author(Key author, std::size_t limit,
                                           base::UnixMs now) const override;
  [[nodiscard]] std::vector<Key> random(std::size_t limit, std::uint64_t seed,
                                        base::UnixMs now) const override;
  [[nodiscard]] std::size_t indexed_items() const override { return index_.size(); }

  [[nodiscard]] base::Result<std::string> inspect_user(std::string_view user_id) const;
  [[nodiscard]] base::Result<std::string> inspect_item(std::string_view item_id) const;

 private:
  const FeaturesConfig& config_;
  const Store& store_;
  const ItemSide& item_side_;
  const ActionTypes& types_;
  const CandidateIndex& index_;
  const ContextComputer& computer_;
  const ActionBits bits_;
  const std::vector<std::string> names_;
  const InputSchemas schemas_;
};

}  // namespace sirenfeed::features
