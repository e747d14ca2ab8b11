#pragma once
// What the model was given when it served: as serving writes it into topic requests, and as the
// join puts it into the example of the impression that names the request.
#include <example.pb.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "features/feature_reader.h"

namespace sirenfeed::features {

/// The schemas that an example's columns obey (context_schema.h).
struct InputSchemas {
  std::uint64_t context = 0;
  std::uint64_t actions = 0;
};

void fill_history(const History& history, Example& example);

/// The bytes of an Example without identity and labels; its time is the request's.
[[nodiscard]] std::string encode_served_inputs(const UserSnapshot& user, std::string_view surface,
                                               std::span<const ServedItem> items,
                                               std::span<const float> context,
                                               const InputSchemas& schemas);
/// kDecode: no such bytes. Their version and contents are looked at when they are used.
[[nodiscard]] base::Result<Example> decode_served_inputs(std::string_view bytes);

/// How far what was served lies from what was computed for the impression.
struct ServedDifference {
  double context_mean = 0;  // mean |served − recomputed| over features and candidates
  bool history = false;     // other tokens
};

/// Puts the inputs of `served` in the place of those of `example`, which keeps its identity, time,
/// items and positions. Nullopt, and nothing changed: other schemas, an item that was not served by
/// that request, a newer version, a history of more than `history_max` tokens or with columns that
/// do not fit each other, a number that is none.
std::optional<ServedDifference> use_served_inputs(const Example& served, std::size_t history_max,
                                                  Example& example);

}  // namespace sirenfeed::features
