#pragma once
// A small model and a stream of examples whose labels can be learned.
#include <example.pb.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/hash.h"
#include "features/example_format/context_schema.h"
#include "model/model.h"
#include "trainer/config.h"
#include "trainer/example_decoder.h"

namespace sirenfeed::trainer::testing {

inline constexpr base::UnixMs kStartMs = 1'650'000'000'000;

inline model::ModelConfig small_config() {
  model::ModelConfig config;
  config.d_model = 8;
  config.history_max = 5;
  config.angle_width = 4;
  config.semantic_width = 4;
  config.attention_scale = 0.5;
  config.context_names = {"bias", "rate", "noise"};
  config.seed = 7;
  return config;
}

inline model::Model small_model() {
  auto model = model::make_model(small_config());
  return *std::move(model);
}

inline ExampleSchema small_schema() {
  const model::ModelConfig config = small_config();
  return {.context_names = config.context_names, .actions = config.actions, .tasks = config.tasks};
}

inline StepConfig small_step() {
  StepConfig config;
  config.batch_examples = 16;
  config.chunk_examples = 4;
  config.threads = 1;
  config.metric_window_cells = 100;
  return config;
}

struct StreamOptions {
  std::size_t examples = 100;
  std::size_t candidates = 1;
  std::uint64_t seed = 1;
  ingest::Partition partition = 0;
  std::uint64_t epoch = 1;
  std::int64_t step_ms = 60'000;  // between two exposures
};

/// Closed examples in order, sequences 1, 2, …; item "i3" of "i0" … "i9" is always clicked.
inline std::vector<features::Example> make_examples(const StreamOptions& options) {
  std::mt19937_64 random(options.seed);
  const ExampleSchema schema = small_schema();
  std::vector<features::Example> examples;
  for (std::size_t i = 0; i < options.examples; ++i) {
    features::Example& example = examples.emplace_back();
    example.set_version(kExampleVersion);
    example.set_impression_partition(options.partition);
    example.set_impression_offset(static_cast<std::int64_t>(i));
    example.set_parts(1);
    example.set_partition(options.partition);
    example.set_epoch(options.epoch);
    example.set_sequence(i + 1);
    const std::string user = "u" + std::to_string(random() % 7);
    example.set_user_id(user);
    const base::UnixMs time_ms = kStartMs + static_cast<std::int64_t>(i) * options.step_ms;
    example.set_time_ms(time_ms);
    example.set_closed_ms(time_ms + 600'000);
    example.set_context_schema(features::schema_hash(schema.context_names));
    example.set_action_schema(features::schema_hash(schema.actions));
    example.set_task_schema(features::schema_hash(schema.tasks));
    auto& history = *example.mutable_history();
    std::int64_t previous = 0;
    for (std::uint64_t h = random() % 7; h > 0; --h) {
      history.add_item(base::xxh3_64("i" + std::to_string(random() % 10)));
      history.add_author(random() % 3);
      const std::int64_t token_ms = time_ms - static_cast<std::int64_t>(h) * 3'600'000;
      history.add_time_delta_ms(token_ms - previous);
      previous = token_ms;
      history.add_action_bits(static_cast<std::uint32_t>(random() % 8));
      history.add_tag_count(1);
      history.add_tags(1 + random() % 4);
    }
    for (std::size_t c = 0; c < options.candidates; ++c) {
      const std::uint64_t item = (random() + c) % 10;
      auto& candidate = *example.add_candidates();
      candidate.set_item_id("i" + std::to_string(item));
      candidate.set_item(base::xxh3_64(candidate.item_id()));
      candidate.set_author(1 + item % 3);
      candidate.add_tags(1 + item % 4);
      candidate.add_context(1.0F);
      candidate.add_context(static_cast<float>(item) / 10);
      candidate.add_context(static_cast<float>(random() % 100) / 100);
      candidate.set_mask_bits(7);
      const bool clicked = item == 3 || random() % 5 == 0;
      candidate.set_label_bits(clicked ? 1U + 2U * static_cast<std::uint32_t>(random() % 2) : 0U);
    }
  }
  return examples;
}

inline std::vector<DecodedExample> decode_all(const std::vector<features::Example>& examples) {
  const ExampleDecoder decoder(small_schema());
  std::vector<DecodedExample> decoded;
  for (const features::Example& example : examples) decoded.push_back(*decoder.decode(example));
  return decoded;
}

}  // namespace sirenfeed::trainer::testing
