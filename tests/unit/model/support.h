#pragma once
// Shared by the model's tests: fixtures, small configurations, seeded slates.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/ranker.h"

namespace sirenfeed::model::test {

inline std::string golden_path(const std::string& name) {
  return std::string(SIRENFEED_SOURCE_DIR) + "/tests/golden/" + name;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline boost::json::value read_json(const std::string& name) {
  return boost::json::parse(read_text(golden_path(name)));
}

inline std::vector<std::string> read_lines(const std::string& name) {
  std::ifstream file(golden_path(name));
  EXPECT_TRUE(file) << name;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

/// Every number of nested lists, in order.
template <class T>
void flatten(const boost::json::value& value, std::vector<T>& out) {
  if (const auto* array = value.if_array()) {
    for (const auto& element : *array) flatten(element, out);
    return;
  }
  out.push_back(static_cast<T>(value.to_number<double>()));
}
template <class T>
std::vector<T> numbers(const boost::json::value& value) {
  std::vector<T> out;
  flatten(value, out);
  return out;
}

inline ModelConfig small_config(Variant variant) {
  ModelConfig config;
  config.variant = variant;
  config.d_model = 8;
  config.heads = 2;
  config.layers = 1;
  config.history_max = 6;
  config.angle_width = 4;
  config.semantic_width = 16;
  config.omega0 = 2.0;
  config.base = 1000.0;
  config.attention_scale = 0.5;
  config.time_reference_ms = 1'650'000'000'000;
  config.context_names = {"c0", "c1", "c2"};
  config.seed = 7;
  return config;
}

/// Slates over a few ids each of which some have rows: repeated tags, missing times, tags, authors
/// and segments, no history, more history than history_max, several candidates.
inline std::vector<Slate> seeded_slates(const ModelConfig& config, std::size_t count,
                                        std::uint64_t seed, std::size_t history_max = 9,
                                        std::size_t candidates_max = 4) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  std::normal_distribution<double> normal;
  std::vector<Slate> slates(count);
  for (std::size_t s = 0; s < count; ++s) {
    Slate& slate = slates[s];
    const auto item = [&] {
      ItemRef ref{1 + below(12), below(4), static_cast<std::uint32_t>(slate.tags.size()), 0};
      for (std::uint64_t t = below(4); t > 0; --t) slate.tags.push_back(1 + below(5));
      ref.tags_end = static_cast<std::uint32_t>(slate.tags.size());
      return ref;
    };
    slate.time_ms = s % 5 == 4 ? kUnknownTime
                               : 1'650'812'741'436 + static_cast<std::int64_t>(below(90'000'000));
    slate.segment = below(3);
    slate.surface = s % 3;
    const std::size_t tokens = s % 4 == 1 ? 0 : 1 + below(history_max);
    for (std::size_t i = 0; i < tokens; ++i) {
      HistoryToken token;
      token.item = item();
      const auto age = static_cast<std::int64_t>((tokens - i) * 7'654'321 + below(5'000'000));
      token.time_ms =
          slate.time_ms == kUnknownTime || below(6) == 0 ? kUnknownTime : slate.time_ms - age;
      token.action_bits = static_cast<std::uint32_t>(below(8));
      token.surface = (s + i) % 4;
      slate.history.push_back(token);
    }
    for (std::uint64_t c = 1 + below(candidates_max); c > 0; --c) {
      slate.candidates.push_back(item());
      for (std::size_t f = 0; f < config.n_context(); ++f) {
        slate.context.push_back(static_cast<float>(normal(random)));
      }
    }
  }
  return slates;
}

inline std::vector<const Slate*> pointers(const std::vector<Slate>& slates) {
  std::vector<const Slate*> out;
  for (const Slate& slate : slates) out.push_back(&slate);
  return out;
}

/// A model away from its start: every tensor, row and statistic moved by noise, so that no zero
/// hides an error. Half of the slates' ids get rows.
template <class T>
void perturb(BasicModel<T>& model, std::uint64_t seed, double sigma = 0.3) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0.0, sigma);
  for (T& value : model.dense) value += static_cast<T>(normal(random));
  for (BasicEmbeddingTable<T>& table : model.tables) {
    if (table.width() == 0) continue;
    const bool none = table.name() == "embedding.tag" || table.name() == "embedding.author";
    for (Key key = none ? 0 : 1; key <= 8; ++key) {
      for (T& value : table.row_at(table.find_or_create(key))) {
        value += static_cast<T>(normal(random));
      }
    }
  }
  Statistics& statistics = model.statistics;
  statistics.context_examples = 1000;
  for (float& mean : statistics.context_mean) mean += static_cast<float>(normal(random));
  for (float& mean : statistics.action_mean) mean += static_cast<float>(0.3 + 0.3 * normal(random));
}

}  // namespace sirenfeed::model::test
