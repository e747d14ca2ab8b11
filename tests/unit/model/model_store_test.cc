#include "model/model_store.h"

#include <unistd.h>

#include <filesystem>

#include "model/file_io.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

namespace fs = std::filesystem;

class ModelStore : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = testing::TempDir() + "sirenfeed_store_" + info->name() + "_" + std::to_string(getpid());
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  Model sample(float lambda = 1.0F) {
    Model model = *make_model(test::small_config(Variant::kSiren));
    test::perturb(model, 41);
    model.tensor("rotary.lambda")[0] = lambda;
    return model;
  }
  ModelStoreWriter writer(std::size_t keep_max = 20) {
    return *ModelStoreWriter::open({.dir = dir_, .keep_max = keep_max});
  }
  std::string file(std::uint64_t version, const std::string& name) {
    return dir_ + "/versions/" + std::to_string(version) + "/" + name;
  }

  std::string dir_;
};

TEST_F(ModelStore, AReaderFollowsThePublisher) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  ASSERT_TRUE(reader.poll());
  EXPECT_EQ(*reader.poll(), nullptr);
  ASSERT_EQ(*publisher.publish(sample(), 1000, R"({"auc":0.7})"), 1U);
  auto snapshot = reader.poll();
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  ASSERT_NE(*snapshot, nullptr);
  EXPECT_EQ((*snapshot)->manifest.version, 1U);
  EXPECT_EQ((*snapshot)->manifest.created_ms, 1000);
  EXPECT_EQ((*snapshot)->manifest.metrics_json, R"({"auc":7E-1})");
  EXPECT_EQ((*snapshot)->model.dense, sample().dense);
  EXPECT_EQ(*reader.poll(), nullptr);
  ASSERT_EQ(*publisher.publish(sample(2.0F), 2000), 2U);
  EXPECT_EQ((*reader.poll())->manifest.version, 2U);
}

TEST_F(ModelStore, NumberingGoesOnAfterARestart) {
  ASSERT_EQ(*writer().publish(sample(), 1), 1U);
  fs::create_directories(dir_ + "/versions/writing");  // what a crash leaves
  ModelStoreWriter again = writer();
  EXPECT_EQ(again.last_version(), 1U);
  EXPECT_EQ(*again.publish(sample(), 2), 2U);
}

TEST_F(ModelStore, OnlyTheNewestVersionsAreKeptAndThePinnedOne) {
  ModelStoreWriter publisher = writer(2);
  ModelStoreReader reader(dir_);
  ASSERT_TRUE(publisher.publish(sample(), 1));
  ASSERT_TRUE(reader.pin(1));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(publisher.publish(sample(), 2));
  const auto manifests = *reader.list();
  std::vector<std::uint64_t> versions;
  for (const Manifest& manifest : manifests) versions.push_back(manifest.version);
  EXPECT_EQ(versions, (std::vector<std::uint64_t>{1, 4, 5}));
}

TEST_F(ModelStore, APinHoldsUntilItIsLifted) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(publisher.publish(sample(), 1));
  ASSERT_TRUE(reader.pin(2));
  EXPECT_EQ(*reader.wanted(), std::optional<std::uint64_t>(2));
  ASSERT_TRUE(publisher.publish(sample(), 1));
  EXPECT_EQ((*reader.poll())->manifest.version, 2U);
  EXPECT_EQ(*reader.rollback(), 1U);
  EXPECT_EQ((*reader.poll())->manifest.version, 1U);
  const auto none_older = reader.rollback();
  ASSERT_FALSE(none_older);
  EXPECT_EQ(none_older.error().code, base::ErrorCode::kNotFound);
  ASSERT_TRUE(reader.unpin());
  ASSERT_TRUE(reader.unpin());
  EXPECT_EQ((*reader.poll())->manifest.version, 4U);
  EXPECT_FALSE(reader.pin(99));
}

TEST_F(ModelStore, ACorruptVersionIsRefusedOnceAndNamed) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  ASSERT_TRUE(publisher.publish(sample(), 1));
  ASSERT_NE(*reader.poll(), nullptr);
  ASSERT_TRUE(publisher.publish(sample(), 2));
  std::string bytes = *read_file(file(2, "model.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(write_file(file(2, "model.safetensors"), bytes));
  const auto refused = reader.poll();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("model version 2 refused: the check-sum"),
            std::string::npos);
  ASSERT_TRUE(reader.poll());
  EXPECT_EQ(*reader.poll(), nullptr);
  ASSERT_TRUE(publisher.publish(sample(), 3));
  EXPECT_EQ((*reader.poll())->manifest.version, 3U);
  EXPECT_FALSE(reader.pin(2));
}

TEST_F(ModelStore, OtherScoresThanThePublishersAreRefused) {
  ModelStoreWriter publisher = writer();
  ASSERT_TRUE(publisher.publish(sample(), 1));
  auto manifest = boost::json::parse(*read_file(file(1, "manifest.json")));
  auto& canary = manifest.as_object()["canary_logits"].as_array();
  ASSERT_GE(canary.size(), 12U);
  canary[3] = canary[3].to_number<double>() + 0.1;
  ASSERT_TRUE(write_file(file(1, "manifest.json"), boost::json::serialize(manifest)));
  const auto refused = ModelStoreReader(dir_).load(1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("canary logit 3"), std::string::npos);
}

TEST_F(ModelStore, AModelThatIsNotFiniteIsNotPublished) {
  ModelStoreWriter publisher = writer();
  ASSERT_TRUE(publisher.publish(sample(), 1));
  Model broken = sample();
  broken.tensor("head.2.bias")[0] = std::numeric_limits<float>::quiet_NaN();
  const auto refused = publisher.publish(broken, 2);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("head.2.bias"), std::string::npos);
  EXPECT_EQ(*ModelStoreReader(dir_).wanted(), std::optional<std::uint64_t>(1));
  EXPECT_EQ(*publisher.publish(sample(), 3), 2U);
}

TEST_F(ModelStore, ExportCopiesTheWantedVersion) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  EXPECT_FALSE(reader.export_to(dir_ + "/out"));
  ASSERT_TRUE(publisher.publish(sample(), 1));
  EXPECT_EQ(*reader.export_to(dir_ + "/out"), 1U);
  EXPECT_EQ(*read_file(dir_ + "/out/model.safetensors"), *read_file(file(1, "model.safetensors")));
}

}  // namespace
}  // namespace sirenfeed::model
