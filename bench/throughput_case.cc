#include "bench/throughput_case.h"

#include <boost/json.hpp>
#include <random>

#include "base/check.h"

namespace sirenfeed::bench {

namespace {

namespace json = boost::json;
using model::Key;

constexpr std::size_t kContexts = 79;
constexpr std::size_t kItems = 7'000;
constexpr std::size_t kAuthors = 5'000;
constexpr std::size_t kTags = 60;
constexpr std::size_t kSegments = 8;
constexpr std::int64_t kStartMs = 1'650'000'000'000;

// Ids are hashes in life; odd factors spread the small numbers of the workload likewise.
Key item_key(std::size_t i) { return (i + 1) * 0x9E3779B97F4A7C15ULL; }
Key author_key(std::size_t i) { return (i + 1) * 0xC2B2AE3D27D4EB4FULL; }
Key tag_key(std::size_t i) { return (i + 1) * 0x165667B19E3779F9ULL; }
Key segment_key(std::size_t i) { return (i + 1) * 0x27D4EB2F165667C5ULL; }

void fill_table(model::Model& model, model::TableId id, std::size_t rows, Key (*key)(std::size_t),
                std::mt19937_64& random) {
  std::normal_distribution<float> normal(0.0F, 0.1F);
  model::EmbeddingTable& table = model.table(id);
  if (table.width() == 0) return;
  for (std::size_t i = 0; i < rows; ++i) {
    for (float& value : table.row_at(table.find_or_create(key(i)))) value += normal(random);
  }
}

// Items are as unequal as real ones: the square of a uniform number.
model::ItemRef add_item(std::mt19937_64& random, model::Slate& slate) {
  const double u = std::uniform_real_distribution<double>(0, 1)(random);
  const auto item = static_cast<std::size_t>(u * u * double{kItems});
  model::ItemRef ref;
  ref.item = item_key(item);
  ref.author = author_key(item % kAuthors);
  ref.tags_begin = static_cast<std::uint32_t>(slate.tags.size());
  slate.tags.push_back(tag_key(item % 30));
  if (item % 3 == 0) slate.tags.push_back(tag_key(30 + item % 29));
  ref.tags_end = static_cast<std::uint32_t>(slate.tags.size());
  return ref;
}

json::value id(Key key) { return static_cast<std::int64_t>(key); }

json::object item_json(const model::Slate& slate, const model::ItemRef& item) {
  json::array tags;
  for (const Key tag : slate.tags_of(item)) tags.push_back(id(tag));
  return {{"item", id(item.item)}, {"author", id(item.author)}, {"tags", std::move(tags)}};
}

}  // namespace

model::Model make_case_model(const ModelSize& size, model::Variant variant) {
  model::ModelConfig config;
  config.variant = variant;
  config.d_model = size.d_model;
  config.heads = size.heads;
  config.layers = size.layers;
  config.time_reference_ms = kStartMs;
  for (std::size_t f = 0; f < kContexts; ++f) {
    config.context_names.push_back("c" + std::to_string(f));
  }
  auto made = model::make_model(config);
  SF_CHECK(made.has_value());
  model::Model model = *std::move(made);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  for (const model::TensorSpec& tensor : model.layout.tensors) {
    if (!tensor.trained) continue;
    for (std::size_t i = 0; i < tensor.size; ++i) model.dense[tensor.offset + i] += normal(random);
  }
  fill_table(model, model::TableId::kItem, kItems, item_key, random);
  fill_table(model, model::TableId::kAuthor, kAuthors, author_key, random);
  fill_table(model, model::TableId::kTag, kTags, tag_key, random);
  fill_table(model, model::TableId::kSemanticTag, kTags, tag_key, random);
  fill_table(model, model::TableId::kSemanticSegment, kSegments, segment_key, random);
  model.statistics.context_examples = 1'000;
  for (float& mean : model.statistics.context_mean) mean = normal(random);
  for (float& mean : model.statistics.action_mean) mean = 0.25F;
  return model;
}

std::vector<trainer::DecodedExample> make_case_examples(std::size_t count, std::size_t tokens,
                                                        std::size_t candidates) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  std::vector<trainer::DecodedExample> examples(count);
  for (std::size_t i = 0; i < count; ++i) {
    model::Slate& slate = examples[i].slate;
    slate.time_ms = kStartMs + 86'400'000 + static_cast<std::int64_t>(i) * 7'000;
    slate.segment = segment_key(random() % kSegments);
    for (std::size_t h = 0; h < tokens; ++h) {
      const auto age =
          static_cast<std::int64_t>(tokens - h) * 1'234'567 + static_cast<std::int64_t>(i * 11);
      slate.history.push_back(
          {add_item(random, slate), slate.time_ms - age, static_cast<std::uint32_t>(random() % 8)});
    }
    for (std::size_t c = 0; c < candidates; ++c) {
      slate.candidates.push_back(add_item(random, slate));
      for (std::size_t f = 0; f < kContexts; ++f) slate.context.push_back(normal(random));
      const bool click = random() % 3 == 0;
      for (const bool set : {click, click && random() % 2 == 0, random() % 50 == 0}) {
        examples[i].labels.label.push_back(set ? 1.0F : 0.0F);
        examples[i].labels.weight.push_back(1.0F);
      }
    }
  }
  return examples;
}

std::string examples_json(const std::vector<trainer::DecodedExample>& examples) {
  json::array out;
  for (const trainer::DecodedExample& example : examples) {
    const model::Slate& slate = example.slate;
    json::array history;
    for (const model::HistoryToken& token : slate.history) {
      json::object object = item_json(slate, token.item);
      object["time_ms"] = token.time_ms;
      object["action_bits"] = token.action_bits;
      history.push_back(std::move(object));
    }
    json::array candidates;
    for (const model::ItemRef& item : slate.candidates)
      candidates.push_back(item_json(slate, item));
    out.push_back(json::object{{"time_ms", slate.time_ms},
                               {"segment", id(slate.segment)},
                               {"history", std::move(history)},
                               {"candidates", std::move(candidates)},
                               {"context", json::value_from(slate.context)},
                               {"label", json::value_from(example.labels.label)}});
  }
  return json::serialize(out);
}

}  // namespace sirenfeed::bench
