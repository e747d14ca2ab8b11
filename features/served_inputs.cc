#include "features/served_inputs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "features/example_builder.h"

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

void fill_history(const History& history, Example& example) {
  if (history.tokens.empty()) return;
  auto& to = *example.mutable_history();
  const int tokens = static_cast<int>(history.tokens.size());
  to.mutable_item()->Reserve(tokens);
  to.mutable_author()->Reserve(tokens);
  to.mutable_time_delta_ms()->Reserve(tokens);
  to.mutable_action_bits()->Reserve(tokens);
  to.mutable_tag_count()->Reserve(tokens);
  to.mutable_surface()->Reserve(tokens);
  base::UnixMs time = 0;
  for (const HistoryToken& token : history.tokens) {
    to.add_item(token.item);
    to.add_author(token.author);
    to.add_time_delta_ms(token.time_ms - time);
    to.add_action_bits(token.action_bits);
    to.add_tag_count(token.tags_end - token.tags_begin);
    to.add_surface(surface_number(token.surface, to));
    time = token.time_ms;
  }
  to.mutable_tags()->Add(history.tags.begin(), history.tags.end());
}

std::string encode_served_inputs(const UserSnapshot& user, std::string_view surface,
                                 std::span<const ServedItem> items, std::span<const float> context,
                                 const InputSchemas& schemas) {
  Example example;
  example.set_version(kExampleVersion);
  example.set_time_ms(user.time_ms);
  example.set_segment(user.segment_key);
  example.set_surface(std::string(surface));
  example.set_context_schema(schemas.context);
  example.set_action_schema(schemas.actions);
  fill_history(user.history, example);
  const std::size_t width = items.empty() ? 0 : context.size() / items.size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    Candidate& candidate = *example.add_candidates();
    candidate.set_item(items[i].item);
    candidate.set_propensity(items[i].propensity);
    if (const CatalogItem* meta = items[i].info.get()) {
      candidate.set_author(meta->author);
      candidate.mutable_tags()->Add(meta->tag_keys.begin(), meta->tag_keys.end());
    }
    const auto row = context.subspan(i * width, width);
    candidate.mutable_context()->Add(row.begin(), row.end());
  }
  return example.SerializeAsString();
}

base::Result<Example> decode_served_inputs(std::string_view bytes) {
  Example example;
  if (!example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return base::fail(base::ErrorCode::kDecode, "inputs: expected an example, got {} other bytes",
                      bytes.size());
  }
  return example;
}

namespace {

bool columns_are_sound(const HistoryColumns& columns, std::size_t tokens_max) {
  const int tokens = columns.item_size();
  if (static_cast<std::size_t>(tokens) > tokens_max) return false;
  for (const int size : {columns.author_size(), columns.time_delta_ms_size(),
                         columns.action_bits_size(), columns.tag_count_size()}) {
    if (size != tokens) return false;
  }
  if (columns.surface_size() != tokens && columns.surface_size() != 0) return false;  // older: none
  std::uint64_t tags = 0;
  base::UnixMs time = 0;
  for (int t = 0; t < tokens; ++t) {
    tags += columns.tag_count(t);
    if (__builtin_add_overflow(time, columns.time_delta_ms(t), &time)) return false;
  }
  const auto known = static_cast<std::uint32_t>(columns.surfaces_size());
  return tags == static_cast<std::uint64_t>(columns.tags_size()) &&
         std::all_of(columns.surface().begin(), columns.surface().end(),
                     [&](std::uint32_t surface) { return surface <= known; });
}

// Topic requests is an input: other producers, older and newer versions write it too.
bool is_sound(const Example& served, std::size_t history_max) {
  if (served.version() > kExampleVersion) return false;
  if (!columns_are_sound(served.history(), history_max)) return false;
  return std::all_of(served.candidates().begin(), served.candidates().end(),
                     [](const Candidate& candidate) {
                       return std::isfinite(candidate.propensity()) &&
                              std::all_of(candidate.context().begin(), candidate.context().end(),
                                          [](float value) { return std::isfinite(value); });
                     });
}

}  // namespace

std::optional<ServedDifference> use_served_inputs(const Example& served, std::size_t history_max,
                                                  Example& example) {
  if (!is_sound(served, history_max)) return std::nullopt;
  if (served.context_schema() != example.context_schema() ||
      served.action_schema() != example.action_schema()) {
    return std::nullopt;
  }
  std::vector<const Candidate*> rows;
  for (const Candidate& shown : example.candidates()) {
    const auto row =
        std::find_if(served.candidates().begin(), served.candidates().end(),
                     [&](const Candidate& candidate) { return candidate.item() == shown.item(); });
    if (row == served.candidates().end() || row->context_size() != shown.context_size()) {
      return std::nullopt;
    }
    rows.push_back(&*row);
  }
  ServedDifference difference;
  difference.history =
      served.history().SerializeAsString() != example.history().SerializeAsString();
  std::size_t features = 0;
  for (int c = 0; c < example.candidates_size(); ++c) {
    Candidate& to = *example.mutable_candidates(c);
    const Candidate& from = *rows[static_cast<std::size_t>(c)];
    for (int f = 0; f < to.context_size(); ++f) {
      difference.context_mean += std::abs(static_cast<double>(from.context(f)) - to.context(f));
    }
    features += static_cast<std::size_t>(to.context_size());
    to.set_author(from.author());
    *to.mutable_tags() = from.tags();
    *to.mutable_context() = from.context();
    if (to.propensity() == 0) to.set_propensity(from.propensity());
  }
  if (features > 0) difference.context_mean /= static_cast<double>(features);
  *example.mutable_history() = served.history();
  if (!served.has_history()) example.clear_history();
  example.set_segment(served.segment());
  example.set_surface(served.surface());
  example.set_served_ms(served.time_ms());
  example.set_recomputed(false);
  example.set_version(kExampleVersion);
  return difference;
}

}  // namespace sirenfeed::features
