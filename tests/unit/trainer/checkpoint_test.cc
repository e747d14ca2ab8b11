#include "trainer/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/hash.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/synthetic_examples.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {
namespace {

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override { file_ = (folder_ / "trainer.checkpoint").string(); }

  static std::unique_ptr<OnlineTrainer> fresh(const StepConfig& config = testing::small_step(),
                                              const model::Model& start = testing::small_model()) {
    return *OnlineTrainer::create(start, config);
  }
  static std::unique_ptr<OnlineTrainer> trained() {
    auto trainer = fresh();
    const auto examples = testing::decode_all(testing::make_examples({.examples = 48}));
    for (std::size_t begin = 0; begin < 48; begin += 16) {
      std::vector<const DecodedExample*> batch;
      for (std::size_t i = begin; i < begin + 16; ++i) batch.push_back(&examples[i]);
      trainer->learn(batch);
    }
    return trainer;
  }
  static std::string state_of(const OnlineTrainer& trainer) {
    std::string bytes;
    trainer.append_to(bytes);
    return bytes;
  }
  std::string read() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
  }
  base::Error refusal(std::unique_ptr<OnlineTrainer> into = fresh()) const {
    const auto result = read_checkpoint(file_, *into);
    EXPECT_FALSE(result.has_value());
    return result ? base::Error{base::ErrorCode::kInternal, "it was accepted"} : result.error();
  }

  const Learned learned_{.positions = {{0, {.next_offset = 48, .epoch = 1, .sequence = 48}},
                                       {3, {.next_offset = 7, .epoch = 2, .sequence = 5}}},
                         .recorded_until_ms = 1'650'000'000'000};
  test_support::TempDir temp_;
  const std::filesystem::path& folder_ = temp_.path();
  std::string file_;
};

TEST_F(CheckpointTest, GivesBackEverything) {
  const auto trainer = trained();
  ASSERT_TRUE(write_checkpoint(file_, take_checkpoint(*trainer, learned_)).has_value());
  const auto other = fresh();
  const auto learned = read_checkpoint(file_, *other);
  ASSERT_TRUE(learned.has_value()) << learned.error().message;
  ASSERT_TRUE(learned->has_value());
  EXPECT_EQ(**learned, learned_);
  EXPECT_EQ(state_of(*other), state_of(*trainer));
  EXPECT_FALSE(std::filesystem::exists(file_ + ".new"));
}

TEST_F(CheckpointTest, NoFileIsNoError) {
  const auto trainer = fresh();
  const auto learned = read_checkpoint(file_, *trainer);
  ASSERT_TRUE(learned.has_value());
  EXPECT_FALSE(learned->has_value());
}

TEST_F(CheckpointTest, ATruncatedFileIsRefused) {
  ASSERT_TRUE(write_checkpoint(file_, take_checkpoint(*trained(), learned_)).has_value());
  const std::string bytes = read();
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 3) {
    write(bytes.substr(0, length));
    EXPECT_EQ(refusal().code, base::ErrorCode::kCorrupt) << length;
  }
}

TEST_F(CheckpointTest, AFlippedBitAnywhereIsRefused) {
  ASSERT_TRUE(write_checkpoint(file_, take_checkpoint(*trained(), learned_)).has_value());
  const std::string bytes = read();
  for (std::size_t at = 0; at < bytes.size(); at += 1 + at / 2) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(damaged);
    EXPECT_EQ(refusal().code, base::ErrorCode::kCorrupt) << at;
  }
}

TEST_F(CheckpointTest, AnotherVersionOrShapeIsNamed) {
  ASSERT_TRUE(write_checkpoint(file_, take_checkpoint(*trained(), learned_)).has_value());
  std::string bytes = read();
  bytes[8] = 1;  // what came before
  bytes.resize(bytes.size() - 8);
  const std::uint64_t sum = base::xxh3_64(bytes);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  write(bytes);
  EXPECT_NE(refusal().message.find("format version 1, this trainer reads 4"), std::string::npos)
      << refusal().message;
  EXPECT_NE(refusal().message.find("move the file away"), std::string::npos);

  ASSERT_TRUE(write_checkpoint(file_, take_checkpoint(*trained(), learned_)).has_value());
  StepConfig step = testing::small_step();
  step.optimizer.row_rate = 0.1;
  EXPECT_NE(refusal(fresh(step)).message.find("configuration"), std::string::npos);
  model::ModelConfig config = testing::small_config();
  config.d_model = 16;
  EXPECT_NE(refusal(fresh(testing::small_step(), *model::make_model(config)))
                .message.find("configuration"),
            std::string::npos);
}

TEST_F(CheckpointTest, TheNumberOfThreadsMayChange) {
  ASSERT_TRUE(write_checkpoint(file_, take_checkpoint(*trained(), learned_)).has_value());
  StepConfig step = testing::small_step();
  step.threads = 2;
  const auto other = fresh(step);
  EXPECT_TRUE(read_checkpoint(file_, *other).has_value());
}

TEST_F(CheckpointTest, AFolderThatCannotBeWrittenLeavesTheOldFile) {
  const auto trainer = trained();
  ASSERT_TRUE(write_checkpoint(file_, take_checkpoint(*trainer, learned_)).has_value());
  const std::string before = read();
  std::filesystem::create_directories(file_ + ".new");  // so that the temporary file cannot be made
  const auto refused = write_checkpoint(file_, take_checkpoint(*trainer, learned_));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, base::ErrorCode::kStorage);
  EXPECT_NE(refused.error().message.find(file_), std::string::npos);
  EXPECT_EQ(read(), before);
}

}  // namespace
}  // namespace sirenfeed::trainer
