#include "features/example_builder.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "features/context_features.h"
#include "features/example_format/context_schema.h"
#include "features/served_inputs.h"

namespace sirenfeed::features {
ExampleBuilder::ExampleBuilder(const FeaturesConfig& config, const ItemSide& item_side,
                               const ContextComputer& computer, const ActionBits& bits,
                               std::vector<ActionType> task_types)
    : config_(config),
      item_side_(item_side),
      computer_(computer),
      bits_(bits),
      task_types_(std::move(task_types)),
      context_schema_(schema_hash(context_feature_names(config.context))),
      task_schema_(schema_hash(task_names(config.example))),
      action_schema_(schema_hash(config.example.actions)) {}

void ExampleBuilder::build(const ingest::Impression& impression, ImpressionPlace place,
                           const UserState& user, std::span<Shown> shown, Example& example) {
  example.set_version(config_.join.fake_negatives ? kExampleVersion : kPlainExampleVersion);
  example.set_fake_negative(config_.join.fake_negatives);
  example.set_impression_partition(place.partition);
  example.set_impression_offset(place.offset);
  example.set_parts(1);
  example.set_partition(place.partition);
  example.set_user_id(impression.user_id);
  example.set_impression_id(impression.impression_id);
  if (impression.request_id) example.set_request_id(*impression.request_id);
  if (impression.surface) example.set_surface(*impression.surface);
  example.set_time_ms(impression.time_ms);
  if (user.profile && user.profile->segment) {
    example.set_segment(base::xxh3_64(*user.profile->segment));
  }
  example.set_context_schema(context_schema_);
  example.set_task_schema(task_schema_);
  example.set_action_schema(action_schema_);
  example.set_recomputed(true);
  fill_history(make_history(user, item_side_, bits_, impression.time_ms, config_.example), example);

  candidates_.clear();
  for (const Shown& item : shown) candidates_.push_back(item.candidate);
  const std::size_t features = computer_.feature_count();
  context_.resize(shown.size() * features);
  const Key surface = impression.surface ? base::xxh3_64(*impression.surface) : kNoKey;
  baselines_.resize(shown.size());
  computer_.compute({user, surface, impression.time_ms}, candidates_, context_, baselines_);
  for (std::size_t c = 0; c < shown.size(); ++c) {
    shown[c].baseline = baselines_[c];
    auto& candidate = *example.add_candidates();
    candidate.set_item_id(shown[c].shown->item_id);
    candidate.set_item(candidates_[c].item);
    if (const CatalogItem* meta = candidates_[c].meta.get()) {
      candidate.set_author(meta->author);
      candidate.mutable_tags()->Add(meta->tag_keys.begin(), meta->tag_keys.end());
    }
    const float* begin = context_.data() + c * features;
    candidate.mutable_context()->Add(begin, begin + features);
    candidate.set_position(shown[c].shown->position.value_or(static_cast<std::int32_t>(c)));
    candidate.set_propensity(shown[c].shown->propensity.value_or(0));
  }
}

std::uint32_t ExampleBuilder::tasks_of(ActionType type) const {
  std::uint32_t tasks = 0;
  for (std::size_t k = 0; k < task_types_.size(); ++k) {
    if (task_types_[k] == type) tasks |= 1U << k;
  }
  return tasks;
}

void ExampleBuilder::set_labels(std::span<const std::uint64_t> types, std::uint32_t tasks,
                                base::UnixMs closed_ms, Example& example) const {
  example.set_closed_ms(closed_ms);
  for (int c = 0; c < example.candidates_size(); ++c) {
    auto& candidate = *example.mutable_candidates(c);
    std::uint32_t labels = 0;
    candidate.clear_weight();
    for (std::size_t k = 0; k < task_types_.size(); ++k) {
      const bool done = (types[static_cast<std::size_t>(c)] >> task_types_[k] & 1U) != 0;
      labels |= done ? 1U << k : 0U;
      candidate.add_weight(1.0F);  // the task's own weight is the trainer's: LossConfig has it
    }
    candidate.set_label_bits(labels);
    candidate.set_mask_bits(tasks);
  }
}

void ExampleBuilder::mask_all_but(Key item, Example& example) {
  for (auto& candidate : *example.mutable_candidates()) {
    if (candidate.item() != item) candidate.set_mask_bits(0);
  }
}

namespace {

/// Bytes of a candidate whatever its labels are, so that every revision is cut at the same places.
std::size_t bytes_of(const Candidate& candidate) {
  constexpr std::size_t kLabelBytesMax = 12;  // two fields of a tag and a varint of 32 bits
  std::size_t labels = 0;
  for (const std::uint32_t bits : {candidate.label_bits(), candidate.mask_bits()}) {
    if (bits == 0) continue;
    labels += 1;
    for (std::uint32_t left = bits; left != 0; left >>= 7U) ++labels;
  }
  return candidate.ByteSizeLong() - labels + kLabelBytesMax + 8;
}

}  // namespace

std::vector<Example> ExampleBuilder::split(Example example, std::uint32_t tasks) const {
  std::vector<Example> parts;
  const std::size_t bytes_max = config_.example.example_bytes_max;
  const int candidates = example.candidates_size();
  std::vector<int> begins = {0};
  Example frame;
  const std::size_t room = 16 + 32 * static_cast<std::size_t>(candidates);
  if (example.ByteSizeLong() + room > bytes_max) {  // else it is surely one piece
    frame = example;
    frame.clear_candidates();
    const std::size_t frame_bytes = frame.ByteSizeLong() + 16;  // + part, parts and sequence
    std::size_t used = frame_bytes;
    for (int c = 0; c < candidates; ++c) {
      const std::size_t more = bytes_of(example.candidates(c));
      if (used + more > bytes_max && c > begins.back()) {
        begins.push_back(c);
        used = frame_bytes;
      }
      used += more;
    }
  }
  const auto pieces = static_cast<std::uint32_t>(begins.size());
  begins.push_back(candidates);
  // With per_task_close a task's parts have numbers of their own, after those of the task before.
  const bool by_task = config_.join.per_task_close;
  const auto group = by_task ? static_cast<std::uint32_t>(std::countr_zero(tasks)) : 0U;
  const auto groups = by_task ? static_cast<std::uint32_t>(task_types_.size()) : 1U;
  for (std::uint32_t p = 0; p < pieces; ++p) {
    Example& part = parts.emplace_back(pieces == 1 ? std::move(example) : frame);
    part.set_part(group * pieces + p);
    part.set_parts(groups * pieces);
    if (pieces == 1) break;
    for (int c = begins[p]; c < begins[p + 1]; ++c) *part.add_candidates() = example.candidates(c);
  }
  return parts;
}

}  // namespace sirenfeed::features
