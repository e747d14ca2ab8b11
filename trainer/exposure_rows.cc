#include "trainer/exposure_rows.h"

#include <algorithm>
#include <utility>

namespace sirenfeed::trainer {

void ExposureRows::on_exposure(const DecodedExample& example) {
  auto& open = open_[{example.identity.impression_partition, example.identity.impression_offset}];
  for (const std::string& item_id : example.item_ids) {
    open.push_back(rows_.size());
    rows_.push_back({.time_ms = example.slate.time_ms,
                     .user_id = example.user_id,
                     .item_id = item_id,
                     .identity = example.identity});
  }
}

void ExposureRows::on_closed(const DecodedExample& example) {
  if (example.labels.correction && !example.labels.fake_negatives) return;
  const auto open =
      open_.find({example.identity.impression_partition, example.identity.impression_offset});
  if (open == open_.end()) return;
  std::vector<std::size_t>& indices = open->second;
  const auto complete = (std::uint64_t{1} << tasks_) - 1;
  for (std::size_t c = 0; c < example.item_ids.size(); ++c) {
    std::uint32_t known = 0;
    std::uint32_t labels = 0;
    for (std::size_t k = 0; k < tasks_; ++k) {
      if (!(example.labels.weight[c * tasks_ + k] > 0)) continue;
      known |= 1U << k;
      if (example.labels.label[c * tasks_ + k] > 0.5F) labels |= 1U << k;
    }
    // A slate may show an item twice: each time takes the next row of that item which has no label.
    const auto index = std::find_if(indices.begin(), indices.end(), [&](std::size_t i) {
      const std::uint32_t changed =
          example.labels.correction ? labels & ~rows_[i].label_bits : known & ~rows_[i].known_bits;
      return rows_[i].item_id == example.item_ids[c] && changed != 0;
    });
    if (index == indices.end()) continue;
    ExposureRow& row = rows_[*index];
    row.label_bits = (row.label_bits & ~known) | labels;
    row.known_bits |= known;
    // A fake negative's label may still come.
    if (row.known_bits == complete && !example.labels.fake_negatives) indices.erase(index);
  }
  if (indices.empty()) open_.erase(open);
}

std::vector<ExposureRow> ExposureRows::take() {
  open_.clear();
  return std::exchange(rows_, {});
}

}  // namespace sirenfeed::trainer
