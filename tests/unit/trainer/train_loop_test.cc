#include "trainer/train_loop.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <thread>

#include "ingest/dead_letter.h"
#include "model/model_file.h"
#include "model/model_store.h"
#include "tests/fakes/memory_log.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/synthetic_examples.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {
namespace {

using ingest::Topic;

class TrainLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.step = testing::small_step();
    config_.checkpoint_file = (folder_ / "trainer.checkpoint").string();
    config_.checkpoint_examples = 48;
    config_.publish_examples = 96;
    config_.poll_timeout = std::chrono::milliseconds{5};
    config_.retry_interval = std::chrono::milliseconds{5};
    config_.until_end = true;
  }

  static void put(fakes::MemoryLog& log, const std::vector<features::Example>& examples) {
    for (const features::Example& example : examples) put(log, example);
  }
  static void put(fakes::MemoryLog& log, const features::Example& example) {
    log.put({Topic::kExamples, example.partition()}, example.user_id(), example.SerializeAsString(),
            example.closed_ms());
  }
  model::ModelStoreWriter open_store() {
    auto store = model::ModelStoreWriter::open({.dir = (folder_ / "store").string()});
    EXPECT_TRUE(store.has_value());
    return *std::move(store);
  }
  /// Examples that go on where `before` ends.
  static std::vector<features::Example> next_examples(const std::vector<features::Example>& before,
                                                      std::size_t count) {
    auto all = testing::make_examples({.examples = before.size() + count});
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before.size()));
    return all;
  }
  struct Run {
    base::Result<void> result;
    std::string model;
    Positions positions;
    TrainStatus status;
  };
  Run run(fakes::MemoryLog& log) { return run(log, config_); }
  Run run(fakes::MemoryLog& log, const TrainLoopConfig& config) {
    model::ModelStoreWriter store = open_store();
    auto loop = TrainLoop::create(config, testing::small_model(), deps(log, store));
    EXPECT_TRUE(loop.has_value()) << loop.error().message;
    auto result = (*loop)->run();
    return {result, model::encode_model((*loop)->model()), (*loop)->positions(), (*loop)->status()};
  }
  TrainLoopDeps deps(fakes::MemoryLog& log, model::ModelStoreWriter& store) {
    return {.log = log, .store = store, .probe = probe_, .clock = clock_, .steady = steady_};
  }
  /// The model that learns `examples` in batches of 16, the incomplete last one included.
  static std::string learned(const std::vector<features::Example>& examples) {
    auto trainer = *OnlineTrainer::create(testing::small_model(), testing::small_step());
    const auto decoded = testing::decode_all(examples);
    for (std::size_t begin = 0; begin < decoded.size(); begin += 16) {
      std::vector<const DecodedExample*> batch;
      for (std::size_t i = begin; i < std::min(decoded.size(), begin + 16); ++i) {
        batch.push_back(&decoded[i]);
      }
      trainer->learn(batch);
    }
    return model::encode_model(trainer->model());
  }

  base::MetricsRegistry registry_;
  TrainerProbe probe_{registry_, testing::small_config().tasks};
  base::WallClock clock_;
  base::SteadyClock steady_;
  test_support::TempDir temp_;
  const std::filesystem::path& folder_ = temp_.path();
  TrainLoopConfig config_;
};

TEST_F(TrainLoopTest, UntilEndLearnsEveryExampleOnceAndPublishesTheLastModel) {
  fakes::MemoryLog log;
  const auto examples = testing::make_examples({.examples = 250});
  put(log, examples);
  const Run first = run(log);
  ASSERT_TRUE(first.result.has_value()) << first.result.error().message;
  EXPECT_EQ(first.status.state, TrainState::kFinished);
  EXPECT_EQ(first.model, learned(examples));
  EXPECT_EQ(first.positions.at(0), (PartitionPosition{250, 1, 250}));
  EXPECT_EQ(probe_.examples.value(), 250U);
  const auto snapshot = model::ModelStoreReader((folder_ / "store").string()).poll();
  ASSERT_TRUE(snapshot.has_value());
  ASSERT_NE(*snapshot, nullptr);
  EXPECT_EQ(model::encode_model((*snapshot)->model), first.model);
  EXPECT_NE((*snapshot)->manifest.metrics_json.find("\"examples\":250"), std::string::npos);
  // The start, every 96 examples, and the end.
  EXPECT_EQ((*snapshot)->manifest.version, 4U);
}

TEST_F(TrainLoopTest, PublishingAndCheckpointsChangeNoByte) {
  fakes::MemoryLog log;
  const auto examples = testing::make_examples({.examples = 130});
  put(log, examples);
  config_.publish_examples = 1;
  config_.checkpoint_examples = 1;
  EXPECT_EQ(run(log).model, learned(examples));
}

TEST_F(TrainLoopTest, RestartsAtRandomPointsGiveTheUndisturbedModel) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto examples = testing::make_examples({.examples = 250});
  const std::string expected = learned(examples);
  for (int round = 0; round < 5; ++round) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    fakes::MemoryLog log;
    std::size_t there = 0;
    while (there < examples.size()) {
      const std::size_t more = std::min<std::size_t>(examples.size() - there, random() % 90);
      for (std::size_t i = 0; i < more; ++i) put(log, examples[there++]);
      model::ModelStoreWriter store = open_store();
      TrainLoopConfig live = config_;
      live.until_end = false;
      live.checkpoint_examples = 1 + random() % 60;
      auto loop = *TrainLoop::create(live, testing::small_model(), deps(log, store));
      loop->start();
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 15));
      // A crash keeps an older checkpoint than a stop writes.
      const bool crash = random() % 2 == 0;
      const std::string kept = config_.checkpoint_file + ".kept";
      std::filesystem::remove(kept);
      if (crash && std::filesystem::exists(config_.checkpoint_file)) {
        std::filesystem::copy_file(config_.checkpoint_file, kept);
      }
      loop->stop();
      if (std::filesystem::exists(kept)) std::filesystem::rename(kept, config_.checkpoint_file);
    }
    const Run last = run(log);
    ASSERT_TRUE(last.result.has_value()) << last.result.error().message;
    ASSERT_EQ(last.model, expected) << "round " << round;
  }
}

TEST_F(TrainLoopTest, DuplicatesAreSkipped) {
  fakes::MemoryLog log;
  const auto examples = testing::make_examples({.examples = 60});
  for (std::size_t i = 0; i < 40; ++i) put(log, examples[i]);
  for (std::size_t i = 25; i < 60; ++i) put(log, examples[i]);
  EXPECT_EQ(run(log).model, learned(examples));
  EXPECT_EQ(probe_.duplicates.value(), 15U);
}

TEST_F(TrainLoopTest, AGapStopsThePartitionAndNamesIt) {
  fakes::MemoryLog log;
  auto examples = testing::make_examples({.examples = 60});
  examples.erase(examples.begin() + 40);
  put(log, examples);
  const Run stopped = run(log);
  ASSERT_FALSE(stopped.result.has_value());
  EXPECT_EQ(stopped.status.state, TrainState::kFailed);
  EXPECT_NE(stopped.result.error().message.find("expected epoch 1 sequence 41, found epoch 1 "
                                                "sequence 42"),
            std::string::npos)
      << stopped.result.error().message;
  EXPECT_EQ(probe_.gaps.value(), 1U);
  EXPECT_EQ(stopped.positions.at(0).sequence, 32U);  // whole batches only
}

TEST_F(TrainLoopTest, AGapInOnePartitionLeavesTheOthersAlone) {
  fakes::MemoryLog log(2);
  auto broken = testing::make_examples({.examples = 20});
  broken.erase(broken.begin() + 3);
  put(log, broken);
  put(log, testing::make_examples({.examples = 50, .seed = 2, .partition = 1}));
  const Run stopped = run(log);
  ASSERT_FALSE(stopped.result.has_value());
  EXPECT_EQ(stopped.positions.at(1).sequence, 45U);  // 48 = 3 + 45 in whole batches
  EXPECT_EQ(stopped.positions.at(0).sequence, 3U);
  ASSERT_EQ(stopped.status.stopped.size(), 1U);
  EXPECT_EQ(stopped.status.stopped[0].partition, 0);
}

TEST_F(TrainLoopTest, AnOlderEpochIsRefusedAndANewOneBegins) {
  fakes::MemoryLog log;
  const auto old_epoch = testing::make_examples({.examples = 20});
  const auto new_epoch = testing::make_examples({.examples = 20, .seed = 2, .epoch = 2});
  put(log, old_epoch);
  put(log, new_epoch);
  auto both = old_epoch;
  both.insert(both.end(), new_epoch.begin(), new_epoch.end());
  EXPECT_EQ(run(log).model, learned(both));
  auto stray = testing::make_examples({.examples = 21})[20];
  put(log, stray);
  const Run refused = run(log);
  ASSERT_FALSE(refused.result.has_value());
  EXPECT_NE(refused.result.error().message.find("epoch 1 comes after epoch 2"), std::string::npos);
}

TEST_F(TrainLoopTest, AnUndecodableRecordBecomesADeadLetterAndTheStreamGoesOn) {
  fakes::MemoryLog log;
  const auto examples = testing::make_examples({.examples = 40});
  for (std::size_t i = 0; i < 20; ++i) put(log, examples[i]);
  log.put({Topic::kExamples, 0}, "u1", "\xff\xfe no protobuf");
  for (std::size_t i = 20; i < 40; ++i) put(log, examples[i]);
  log.put({Topic::kExamples, 0}, "u1", std::nullopt);
  EXPECT_EQ(run(log).model, learned(examples));
  const auto letters = log.records({Topic::kDeadLetters, 0});
  ASSERT_EQ(letters.size(), 2U);
  const auto letter = ingest::parse_dead_letter(*letters[0].value);
  ASSERT_TRUE(letter.has_value()) << letter.error().message;
  EXPECT_EQ(letter->offset, 20);
  EXPECT_EQ(letter->rejection.reason, ingest::RejectReason::kUndecodable);
  EXPECT_EQ(letter->payload, "\xff\xfe no protobuf");
  EXPECT_EQ(probe_.undecodable.value(), 2U);
}

TEST_F(TrainLoopTest, AFeatureThatIsNotFiniteAndAGradientThatExplodesTouchNothing) {
  fakes::MemoryLog log;
  auto examples = testing::make_examples({.examples = 64});
  examples[20].mutable_candidates(0)->set_context(1, std::numeric_limits<float>::quiet_NaN());
  // Finite, so that the decoder has nothing to say.
  for (int k = 0; k < 3; ++k) examples[40].mutable_candidates(0)->add_weight(3e38F);
  put(log, examples);
  const Run through = run(log);
  ASSERT_TRUE(through.result.has_value()) << through.result.error().message;
  EXPECT_EQ(probe_.undecodable.value(), 1U);
  EXPECT_EQ(log.records({Topic::kDeadLetters, 0}).size(), 1U);
  EXPECT_EQ(probe_.batches_skipped.value(), 1U);
  EXPECT_EQ(probe_.batches.value(), 3U);
  EXPECT_EQ(through.positions.at(0), (PartitionPosition{64, 1, 64}));
  // As if neither the example nor the batch had ever been.
  examples.erase(examples.begin() + 20);
  examples.erase(examples.begin() + 32, examples.begin() + 48);
  EXPECT_TRUE(through.model == learned(examples));
  const auto snapshot = model::ModelStoreReader((folder_ / "store").string()).poll();
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_TRUE(model::encode_model((*snapshot)->model) == through.model);
}

TEST_F(TrainLoopTest, AnErasedExampleCountsForTheOrderAndTeachesNothing) {
  fakes::MemoryLog log;
  const auto all = testing::make_examples({.examples = 40});
  std::vector<features::Example> others;
  for (const features::Example& example : all) {
    if (example.sequence() != 7 && example.sequence() != 40) {
      others.push_back(example);
      put(log, example);
      continue;
    }
    features::Example erased;
    erased.set_version(1);
    erased.set_partition(example.partition());
    erased.set_epoch(example.epoch());
    erased.set_sequence(example.sequence());
    erased.set_erased(true);
    put(log, erased);
  }
  const Run done = run(log);
  ASSERT_TRUE(done.result.has_value()) << done.result.error().message;
  EXPECT_EQ(done.model, learned(others));
  EXPECT_EQ(probe_.erased.value(), 2U);
  EXPECT_TRUE(done.status.stopped.empty());
  EXPECT_TRUE(log.records({Topic::kDeadLetters, 0}).empty());
}

TEST_F(TrainLoopTest, ANewerVersionStopsTheTrainerWithAMessage) {
  fakes::MemoryLog log;
  auto examples = testing::make_examples({.examples = 20});
  examples[17].set_version(kExampleVersion + 1);
  put(log, examples);
  const Run stopped = run(log);
  ASSERT_FALSE(stopped.result.has_value());
  EXPECT_NE(stopped.result.error().message.find("offset 17"), std::string::npos);
  EXPECT_NE(stopped.result.error().message.find("version 3"), std::string::npos);
  EXPECT_EQ(stopped.positions.at(0).sequence, 16U);  // what was learned is kept
}

TEST_F(TrainLoopTest, LingerLearnsAnIncompleteBatch) {
  fakes::MemoryLog log;
  put(log, testing::make_examples({.examples = 5}));
  model::ModelStoreWriter store = open_store();
  config_.until_end = false;
  config_.batch_linger = std::chrono::milliseconds{1};
  auto loop = *TrainLoop::create(config_, testing::small_model(), deps(log, store));
  loop->start();
  loop->start();
  while (loop->status().examples < 5) std::this_thread::yield();
  loop->stop();
  loop->stop();
  EXPECT_EQ(loop->status().state, TrainState::kStopped);
  EXPECT_EQ(loop->positions().at(0).sequence, 5U);
}

TEST_F(TrainLoopTest, ALostBrokerIsVisibleAndSurvived) {
  fakes::MemoryLog log;
  const auto examples = testing::make_examples({.examples = 32});
  put(log, examples);
  log.set_broker_lost(true);
  model::ModelStoreWriter store = open_store();
  auto loop = *TrainLoop::create(config_, testing::small_model(), deps(log, store));
  loop->start();
  while (loop->status().state != TrainState::kDegraded) std::this_thread::yield();
  EXPECT_NE(loop->status().last_error.find("broker"), std::string::npos);
  EXPECT_EQ(probe_.broker_lost.value(), 1);
  log.set_broker_lost(false);
  EXPECT_TRUE(loop->wait().has_value());
  EXPECT_EQ(loop->status().last_error, "");
  EXPECT_EQ(model::encode_model(loop->model()), learned(examples));
}

TEST_F(TrainLoopTest, AMissingTopicIsRetriedUntilItIsThere) {
  fakes::MemoryLog log;
  put(log, testing::make_examples({.examples = 16}));
  log.set_partitions(Topic::kExamples, 0);
  model::ModelStoreWriter store = open_store();
  auto loop = *TrainLoop::create(config_, testing::small_model(), deps(log, store));
  loop->start();
  while (loop->status().state != TrainState::kDegraded) std::this_thread::yield();
  log.set_partitions(Topic::kExamples, 1);
  EXPECT_TRUE(loop->wait().has_value());
  EXPECT_EQ(loop->status().examples, 16U);
}

TEST_F(TrainLoopTest, AFailureToPublishIsVisibleAndLearningGoesOn) {
  fakes::MemoryLog log;
  const auto examples = testing::make_examples({.examples = 160});
  model::ModelStoreWriter store = open_store();
  // A file where the store's folder was.
  const auto store_folder = folder_ / "store";
  std::filesystem::rename(store_folder, folder_ / "moved");
  std::ofstream(store_folder) << "in the way";
  config_.until_end = false;
  auto loop = *TrainLoop::create(config_, testing::small_model(), deps(log, store));
  loop->start();
  put(log, examples);
  while (loop->status().examples < 160) std::this_thread::yield();
  while (loop->status().state != TrainState::kDegraded) std::this_thread::yield();
  EXPECT_NE(loop->status().last_error.find("publishing a model"), std::string::npos);
  EXPECT_GT(probe_.publish_errors.value(), 0U);
  std::filesystem::remove(store_folder);
  std::filesystem::rename(folder_ / "moved", store_folder);
  put(log, next_examples(examples, 96));
  while (loop->status().state != TrainState::kLive || loop->status().examples < 256) {
    std::this_thread::yield();
  }
  EXPECT_EQ(loop->status().last_error, "");
  EXPECT_GT(loop->status().published_version, 0U);
  loop->stop();
}

TEST_F(TrainLoopTest, RecordsThatRetentionTookAreNamed) {
  fakes::MemoryLog log;
  put(log, testing::make_examples({.examples = 40}));
  ASSERT_TRUE(run(log).result.has_value());
  put(log, testing::make_examples({.examples = 60}));
  log.trim({Topic::kExamples, 0}, 60);
  const Run refused = run(log);
  ASSERT_FALSE(refused.result.has_value());
  EXPECT_EQ(refused.result.error().code, base::ErrorCode::kCorrupt);
}

TEST_F(TrainLoopTest, APartitionWhoseRecordsRetentionTookLeavesTheOthersAlone) {
  fakes::MemoryLog log(2);
  put(log, testing::make_examples({.examples = 40}));
  put(log, testing::make_examples({.examples = 16, .seed = 2, .partition = 1}));
  ASSERT_TRUE(run(log).result.has_value());
  put(log, testing::make_examples({.examples = 60}));
  log.trim({Topic::kExamples, 0}, 60);
  auto more = testing::make_examples({.examples = 48, .seed = 2, .partition = 1});
  more.erase(more.begin(), more.begin() + 16);
  put(log, more);
  const Run stopped = run(log);
  EXPECT_FALSE(stopped.result.has_value());
  ASSERT_EQ(stopped.status.stopped.size(), 1U);
  EXPECT_EQ(stopped.status.stopped[0].partition, 0);
  EXPECT_EQ(stopped.positions.at(1).sequence, 48U);
}

TEST_F(TrainLoopTest, ACorruptCheckpointIsRefusedNotOverwritten) {
  fakes::MemoryLog log;
  put(log, testing::make_examples({.examples = 40}));
  ASSERT_TRUE(run(log).result.has_value());
  std::filesystem::resize_file(config_.checkpoint_file, 1'000);
  model::ModelStoreWriter store = open_store();
  const auto refused = TrainLoop::create(config_, testing::small_model(), deps(log, store));
  ASSERT_FALSE(refused.has_value());
  for (const std::string& said : {config_.checkpoint_file, std::string("sirenfeed restore"),
                                  std::string("move the file away")}) {
    EXPECT_NE(refused.error().message.find(said), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(probe_.checkpoints_refused.value(), 1U);
  EXPECT_EQ(std::filesystem::file_size(config_.checkpoint_file), 1'000U);
}

}  // namespace
}  // namespace sirenfeed::trainer
