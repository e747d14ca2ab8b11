#include "model/model_delta.h"

#include <limits>

#include "model/model_file.h"
#include "model/safetensors.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

Model with_rows(std::size_t items) {
  Model model = *make_model(test::small_config(Variant::kSiren));
  test::perturb(model, 41);
  for (Key key = 1; key <= items; ++key) {
    model.table(TableId::kItem).find_or_create(key * 0x9E3779B97F4A7C15ULL);
  }
  return model;
}

/// What a second of training may do.
void change(Model& model, std::mt19937_64& random) {
  for (float& value : model.dense) value += static_cast<float>(random() % 100) * 1e-4F;
  model.config.time_reference_ms += static_cast<std::int64_t>(random() % 2) * 86'400'000;
  model.statistics.context_examples += 64;
  model.statistics.context_mean[0] += 0.5F;
  model.calibration.bias[1] -= 0.25F;
  for (EmbeddingTable& table : model.tables) {
    if (table.width() == 0) continue;  // not of this variant
    for (std::uint64_t n = random() % 20; n > 0; --n) {
      table.row_at(table.find_or_create(random() % 1000 + 1))[0] += 1;
    }
    for (std::uint64_t n = random() % 10; n > 0 && table.size() > 1; --n) {
      const auto index = static_cast<std::uint32_t>(random() % table.size());
      if (table.key_at(index) != kNoKey) table.erase(table.key_at(index));
    }
  }
}

TEST(ModelDelta, LeadsFromEveryStateToTheNext) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  Model model = with_rows(3000);
  Model reader = *decode_model(encode_model(model));
  for (int step = 0; step < 30; ++step) {
    const Model before = model;
    change(model, random);
    const std::string delta = encode_delta(before, model);
    EXPECT_LT(delta.size(), full_file_bytes(model) / 2);
    auto next = apply_delta(reader, delta);
    ASSERT_TRUE(next) << next.error().message;
    ASSERT_EQ(encode_model(*next), encode_model(model)) << "step " << step;
    // The tables were not copied: what the delta left alone is what it was.
    EXPECT_LE(
        next->table(TableId::kItem).changes_since(reader.table(TableId::kItem)).written.size(),
        40U);
    reader = *std::move(next);
  }
}

TEST(ModelDelta, NothingChangedIsAnEmptyDelta) {
  const Model model = with_rows(500);
  const std::string delta = encode_delta(model, model);
  const auto content = *parse_safetensors(delta);
  EXPECT_EQ(content.tensors.at("embedding.item.keys").elements(), 0U);
  EXPECT_EQ(content.tensors.at("embedding.item.erased").elements(), 0U);
  EXPECT_EQ(encode_model(*apply_delta(model, delta)), encode_model(model));
}

TEST(ModelDelta, CutShortAnywhereItIsRefused) {
  const Model before = with_rows(100);
  Model model = before;
  std::mt19937_64 random(3);
  change(model, random);
  const std::string delta = encode_delta(before, model);
  for (std::size_t length = 0; length < delta.size(); length += 1 + random() % 97) {
    ASSERT_FALSE(apply_delta(before, delta.substr(0, length))) << length;
  }
}

TEST(ModelDelta, WhatDoesNotFitIsNamed) {
  const Model before = with_rows(100);
  Model model = before;
  const Key first = model.table(TableId::kItem).key_at(0);
  model.table(TableId::kItem).erase(first);
  const std::string erasing = encode_delta(before, model);
  const auto twice = apply_delta(model, erasing);  // it has no such row any more
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("the delta erases embedding.item"), std::string::npos);

  model = before;
  model.table(TableId::kItem).row_at(3)[2] = std::numeric_limits<float>::quiet_NaN();
  const auto not_finite = apply_delta(before, encode_delta(before, model));
  ASSERT_FALSE(not_finite);
  EXPECT_NE(not_finite.error().message.find("embedding.item.weight"), std::string::npos);

  ModelConfig other = before.config;
  other.omega0 = 4;
  const auto reshaped = apply_delta(*make_model(other), erasing);
  ASSERT_FALSE(reshaped);
  EXPECT_NE(reshaped.error().message.find("another configuration"), std::string::npos);

  // A delta is no model, and a model is no delta.
  EXPECT_FALSE(decode_model(erasing));
  EXPECT_FALSE(apply_delta(before, encode_model(before)));
}

}  // namespace
}  // namespace sirenfeed::model
