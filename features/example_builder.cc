#include "features/example_builder.h"

#include <algorithm>

#include "base/hash.h"
#include "features/context_features.h"
#include "features/example_format/context_schema.h"

namespace sirenfeed::features {
namespace {

/// The surface's place among the history's, from 1; a few at most. 0: not known.
std::uint32_t surface_number(Key surface, HistoryColumns& columns) {
  if (surface == kNoKey) return 0;
  const auto& known = columns.surfaces();
  const auto found = std::find(known.begin(), known.end(), surface);
  const auto number = static_cast<std::uint32_t>(found - known.begin()) + 1;
  if (found == known.end()) columns.add_surfaces(surface);
  return number;
}

}  // namespace

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

void ExampleBuilder::fill_history(const History& history, Example& example) const {
  if (history.tokens.empty()) return;
  History const& from = history;
  auto& to = *example.mutable_history();
  const int tokens = static_cast<int>(from.tokens.size());
  to.mutable_item()->Reserve(tokens);
  to.mutable_author()->Reserve(tokens);
  to.mutable_time_delta_ms()->Reserve(tokens);
  to.mutable_action_bits()->Reserve(tokens);
  to.mutable_tag_count()->Reserve(tokens);
  to.mutable_surface()->Reserve(tokens);
  base::UnixMs time = 0;
  for (const HistoryToken& token : from.tokens) {
    to.add_item(token.item);
    to.add_author(token.author);
    to.add_time_delta_ms(token.time_ms - time);
    to.add_action_bits(token.action_bits);
    to.add_tag_count(token.tags_end - token.tags_begin);
    to.add_surface(surface_number(token.surface, to));
    time = token.time_ms;
  }
  to.mutable_tags()->Add(from.tags.begin(), from.tags.end());
}

void ExampleBuilder::build(const ingest::Impression& impression, ImpressionPlace place,
                           const UserState& user, std::span<Shown> shown, Example& example) {
  example.set_version(kExampleVersion);
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

void ExampleBuilder::set_labels(std::span<const std::uint64_t> types, base::UnixMs closed_ms,
                                Example& example) const {
  example.set_closed_ms(closed_ms);
  for (int c = 0; c < example.candidates_size(); ++c) {
    auto& candidate = *example.mutable_candidates(c);
    std::uint32_t labels = 0;
    std::uint32_t mask = 0;
    candidate.clear_weight();
    for (std::size_t k = 0; k < task_types_.size(); ++k) {
      const bool done = (types[static_cast<std::size_t>(c)] >> task_types_[k] & 1U) != 0;
      labels |= done ? 1U << k : 0U;
      mask |= 1U << k;
      candidate.add_weight(1.0F);  // the task's own weight is the trainer's: LossConfig has it
    }
    candidate.set_label_bits(labels);
    candidate.set_mask_bits(mask);
  }
}

bool ExampleBuilder::mask_all_but(Key item, ActionType type, Example& example) const {
  std::uint32_t mask = 0;
  for (std::size_t k = 0; k < task_types_.size(); ++k) {
    if (task_types_[k] == type) mask |= 1U << k;
  }
  bool found = false;
  for (auto& candidate : *example.mutable_candidates()) {
    const bool corrected = candidate.item() == item;
    candidate.set_mask_bits(corrected ? mask : 0U);
    found = found || corrected;
  }
  return found && mask != 0;
}

std::vector<Example> ExampleBuilder::split(Example example) const {
  std::vector<Example> parts;
  const std::size_t bytes_max = config_.example.example_bytes_max;
  const std::size_t bytes = example.ByteSizeLong();
  const auto candidates = static_cast<std::size_t>(example.candidates_size());
  if (bytes <= bytes_max || candidates == 1) {
    parts.push_back(std::move(example));
    return parts;
  }
  Example frame = example;
  frame.clear_candidates();
  const std::size_t frame_bytes = frame.ByteSizeLong() + 16;  // + part, parts and sequence
  std::vector<int> begins = {0};
  std::size_t used = frame_bytes;
  for (int c = 0; c < example.candidates_size(); ++c) {
    const std::size_t more = example.candidates(c).ByteSizeLong() + 8;
    if (used + more > bytes_max && c > begins.back()) {
      begins.push_back(c);
      used = frame_bytes;
    }
    used += more;
  }
  begins.push_back(example.candidates_size());
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    Example& part = parts.emplace_back(frame);
    part.set_part(static_cast<std::uint32_t>(p));
    part.set_parts(static_cast<std::uint32_t>(begins.size() - 1));
    for (int c = begins[p]; c < begins[p + 1]; ++c) *part.add_candidates() = example.candidates(c);
  }
  return parts;
}

}  // namespace sirenfeed::features
