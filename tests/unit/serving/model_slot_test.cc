#include "serving/model_slot.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/served_world.h"

namespace sirenfeed::serving {
namespace {

using test::fresh_dir;
using test::kWorldStart;

class ModelSlotTest : public testing::Test {
 protected:
  ModelSlotTest() : dir_(fresh_dir("models")), probe_(registry_), clock_(kWorldStart) {
    model::ModelStoreConfig config;
    config.dir = dir_.string();
    store_.emplace(*model::ModelStoreWriter::open(config));
  }
  ~ModelSlotTest() override { std::filesystem::remove_all(dir_); }

  static model::Model small_model(float bias = 0) {
    model::ModelConfig config;
    config.context_names = {"a", "b"};
    model::Model model = *model::make_model(config);
    for (float& value : model.calibration.bias) value = bias;
    return model;
  }
  std::uint64_t publish(float bias = 0) {
    return *store_->publish(small_model(bias), kWorldStart, R"({"click":{"ne":0.9}})");
  }
  std::unique_ptr<ModelSlot> slot() {
    return std::make_unique<ModelSlot>(config_, dir_.string(), clock_, probe_);
  }

  /// Observations of sirenfeed_serving_example_to_served_seconds.
  std::uint64_t measured() const {
    const std::string text = registry_.exposition();
    const std::string name = "\nsirenfeed_serving_example_to_served_seconds_count ";
    const std::size_t at = text.find(name);
    return at == std::string::npos ? 999 : std::stoull(text.substr(at + name.size()));
  }

  ModelSlotConfig config_;
  const std::filesystem::path dir_;
  base::MetricsRegistry registry_;
  ServingProbe probe_;
  base::EventClock clock_;
  std::optional<model::ModelStoreWriter> store_;
};

TEST_F(ModelSlotTest, IsEmptyBeforeTheFirstVersionAndSwapsItIn) {
  const auto models = slot();
  EXPECT_EQ(models->current(), nullptr);
  ASSERT_TRUE(models->poll_once());
  EXPECT_EQ(models->status().version, 0U);
  publish();
  const auto swapped = models->poll_once();
  ASSERT_TRUE(swapped);
  EXPECT_TRUE(*swapped);
  EXPECT_EQ(models->status().version, 1U);
  EXPECT_FALSE(*models->poll_once()) << "nothing new";
  EXPECT_EQ(models->history().size(), 1U);
}

TEST_F(ModelSlotTest, TheThreadSwapsWithinASecond) {
  const auto models = slot();
  models->start();
  models->start();
  publish();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (models->status().version != 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(models->status().version, 1U);
  models->stop();
  models->stop();
}

TEST_F(ModelSlotTest, ACorruptVersionIsRefusedAndTheOldOneStays) {
  const auto models = slot();
  publish();
  ASSERT_TRUE(models->poll_once());
  const auto old = models->current();
  publish();
  {
    std::fstream file(dir_ / "versions" / "2" / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    file.write("\x12\x34\x56\x78", 4);
  }
  EXPECT_FALSE(models->poll_once());
  EXPECT_EQ(models->current(), old);
  EXPECT_EQ(models->status().refused_version, 2U);
  EXPECT_FALSE(models->status().last_error.empty());
  EXPECT_EQ(probe_.model_refused.value(), 1U);
  publish();
  ASSERT_TRUE(models->poll_once());
  EXPECT_EQ(models->status().version, 3U);
  EXPECT_EQ(models->status().refused_version, 0U);
}

TEST_F(ModelSlotTest, AModelWithAbsurdLogitsFailsItsCanary) {
  const auto models = slot();
  publish();
  ASSERT_TRUE(models->poll_once());
  publish(/*bias=*/1000);
  const auto polled = models->poll_once();
  ASSERT_FALSE(polled);
  EXPECT_NE(polled.error().message.find("canary"), std::string::npos) << polled.error().message;
  EXPECT_EQ(models->status().version, 1U);
}

TEST_F(ModelSlotTest, PinRollbackAndUnpinTakeEffectBeforeTheyReturn) {
  const auto models = slot();
  publish();
  publish();
  publish();
  ASSERT_TRUE(models->poll_once());
  EXPECT_EQ(models->status().version, 3U);
  ASSERT_TRUE(models->pin(1));
  EXPECT_EQ(models->status().version, 1U);
  EXPECT_EQ(*models->pinned(), 1U);
  ASSERT_TRUE(models->unpin());
  EXPECT_EQ(models->status().version, 3U);
  EXPECT_EQ(*models->rollback(), 2U);
  EXPECT_EQ(models->status().version, 2U);
  EXPECT_FALSE(models->pin(99));
  EXPECT_EQ(models->status().version, 2U);
}

/// A model whose next versions are deltas.
model::Model large_model() {
  model::ModelConfig config;
  config.context_names = {"a", "b"};
  model::Model model = *model::make_model(config);
  for (model::Key key = 1; key <= 4000; ++key) {
    model.table(model::TableId::kItem).find_or_create(key * 0x9E3779B97F4A7C15ULL);
  }
  return model;
}

TEST_F(ModelSlotTest, FollowsDeltasAndMeasuresFromTheOldestArrivalThatTheyBring) {
  const auto models = slot();
  model::Model model = large_model();
  ASSERT_TRUE(store_->publish(model, kWorldStart));
  ASSERT_TRUE(models->poll_once());
  EXPECT_EQ(measured(), 0U);
  for (int i = 1; i <= 2; ++i) {  // both before the next look
    model.table(model::TableId::kItem).row_at(7)[0] += 1;
    ASSERT_TRUE(store_->publish(model, kWorldStart, "{}",
                                {.first_ms = kWorldStart - i * 1000, .last_ms = kWorldStart}));
  }
  ASSERT_TRUE(*models->poll_once());
  EXPECT_EQ(models->status().version, 3U);
  const model::EmbeddingTable& served = models->current()->model.table(model::TableId::kItem);
  const model::Key changed = model.table(model::TableId::kItem).key_at(7);
  EXPECT_EQ(served.row_at(served.index_of(changed))[0], 2.0F);
  EXPECT_EQ(models->current()->first_arrival_ms, kWorldStart - 2000);
  EXPECT_EQ(measured(), 1U);
}

TEST_F(ModelSlotTest, AHoleInTheChainOrAnEmptyCurrentLeavesTheServedModel) {
  const auto models = slot();
  model::Model model = large_model();
  ASSERT_TRUE(store_->publish(model, kWorldStart));
  ASSERT_TRUE(models->poll_once());
  for (int i = 0; i < 2; ++i) {
    model.table(model::TableId::kItem).row_at(7)[0] += 1;
    ASSERT_TRUE(store_->publish(model, kWorldStart));
  }
  std::filesystem::remove_all(dir_ / "versions" / "2");
  ASSERT_FALSE(models->poll_once());
  ASSERT_TRUE(models->poll_once());
  EXPECT_EQ(models->status().version, 1U);
  EXPECT_NE(models->status().last_error.find("version 2, which is missing"), std::string::npos);
  EXPECT_EQ(probe_.model_refused.value(), 1U);
  ASSERT_TRUE(store_->write_full(kWorldStart));
  ASSERT_TRUE(*models->poll_once()) << "healed by a full file";
  EXPECT_EQ(models->status().version, 3U);

  std::ofstream(dir_ / "CURRENT", std::ios::trunc).flush();
  EXPECT_FALSE(models->poll_once());
  EXPECT_FALSE(models->poll_once());
  EXPECT_EQ(models->status().version, 3U);
  EXPECT_EQ(probe_.model_refused.value(), 2U) << "counted once";
}

TEST_F(ModelSlotTest, ARollbackCountsTheDamagedVersionsThatItPassesOver) {
  const auto models = slot();
  publish();
  publish();
  publish();
  ASSERT_TRUE(models->poll_once());
  std::filesystem::resize_file(dir_ / "versions" / "2" / "model.safetensors", 100);
  EXPECT_EQ(*models->rollback(), 1U);
  EXPECT_EQ(models->status().version, 1U);
  EXPECT_EQ(probe_.model_refused.value(), 1U);
}

}  // namespace
}  // namespace sirenfeed::serving
