// train --from-log: a recorded log first, then the topic, nothing twice; and evaluate with actions
// that come late.
#include "app/learn_recorded.h"

#include <example.pb.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "app/evaluation.h"
#include "app/train_node.h"
#include "base/metrics.h"
#include "model/model_file.h"
#include "tests/fakes/memory_log.h"
#include "tests/support/temp_dir.h"
#include "trainer/warm_start.h"

namespace sirenfeed::app {
namespace {

constexpr int kUsers = 40;
constexpr base::UnixMs kBegin = 1'650'000'000'000;
constexpr base::UnixMs kStep = 30'000;

struct Collector final : features::ExampleObserver {
  void on_exposure(const features::Example& /*example*/) override {}
  void on_closed(const features::Example& example) override { examples.push_back(example); }
  std::vector<features::Example> examples;
};

class LearnRecorded : public ::testing::Test {
 protected:
  void SetUp() override {
    settings_.data_dir = (folder_ / "data").string();
    settings_.clock = "event";
    settings_.features.join.lateness_max_ms = 0;
    settings_.batch_linger_ms = -1;
    settings_.trainer.until_end = true;
    const auto resolved = settings_.resolve();
    ASSERT_TRUE(resolved) << resolved.error().message;
  }

  /// An events file of `exposures`, with a click to every third.
  RecordedInput recorded(const char* name, int exposures) const {
    RecordedInput input;
    input.file = (folder_ / name).string();
    std::ofstream file(input.file);
    for (int i = 0; i < exposures; ++i) {
      const base::UnixMs time = kBegin + i * kStep;
      const std::string user = "u" + std::to_string(i * 7 % kUsers);
      const std::string item = "i" + std::to_string(i * 11 % 30);
      file << fmt::format(R"({{"topic":"impressions","impression_id":"{}","user_id":"{}",)"
                          R"("timestamp":{},"items":["{}"],"surface":"home"}})"
                          "\n",
                          i, user, time, item);
      if (i % 3 != 0) continue;
      file << fmt::format(R"({{"topic":"clicks","user_id":"{}","item_id":"{}","timestamp":{},)"
                          R"("impression_id":"{}"}})"
                          "\n",
                          user, item, time + 1'000, i);
    }
    return input;
  }
  std::vector<features::Example> examples_of(const RecordedInput& input) const {
    Collector collector;
    auto pass = RecordedPass::open(input, settings_, collector);
    EXPECT_TRUE(pass) << pass.error().message;
    EXPECT_TRUE((*pass)->run());
    return collector.examples;
  }
  /// The trainer's process, to the topic's end; returns the newest published model.
  std::string train(fakes::MemoryLog& log) {
    base::MetricsRegistry registry;
    auto node = TrainNode::open(settings_, log, registry);
    EXPECT_TRUE(node) << node.error().message;
    const auto done = (*node)->run();
    EXPECT_TRUE(done) << done.error().message;
    const std::string versions = settings_.models_dir() + "/versions/";
    std::ifstream file(versions + std::to_string((*node)->status().published_version) +
                       "/model.safetensors");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Evaluation evaluated(const RecordedInput& input) const {
    EvaluationOptions options;
    options.file = input.file;
    options.replay = input.replay;
    auto evaluation = evaluate(options, settings_, {});
    EXPECT_TRUE(evaluation) << evaluation.error().message;
    return *std::move(evaluation);
  }

  test_support::TempDir temp_;
  const std::filesystem::path& folder_ = temp_.path();
  Settings settings_;
};

TEST_F(LearnRecorded, TheModelIsThatOfEvaluateByteByByte) {
  const RecordedInput input = recorded("log.ndjson", 500);
  const auto done = learn_recorded(input, settings_, {});
  ASSERT_TRUE(done) << done.error().message;
  fakes::MemoryLog empty;
  const std::string published = train(empty);
  EXPECT_TRUE(published == model::encode_model(evaluated(input).models.at(0).model));
}

TEST_F(LearnRecorded, TheTopicGoesOnAfterTheNewestExposureOfTheLog) {
  const RecordedInput past = recorded("past.ndjson", 300);
  const RecordedInput all = recorded("all.ndjson", 500);
  ASSERT_TRUE(learn_recorded(past, settings_, {}));
  fakes::MemoryLog log;
  (void)train(log);  // a restart before anything came
  const auto model = *model::make_model(settings_.model);
  auto expected = *trainer::WarmStart::create(model, settings_.trainer.step);
  for (const features::Example& example : examples_of(past)) ASSERT_TRUE(expected->learn(example));
  const std::string checkpoint = (folder_ / "expected").string();
  ASSERT_TRUE(expected->finish(checkpoint));
  int later = 0;
  for (const features::Example& example : examples_of(all)) {
    log.put({ingest::Topic::kExamples, 0}, example.user_id(), example.SerializeAsString(),
            example.closed_ms());
    if (example.time_ms() <= kBegin + 299 * kStep) continue;
    ++later;
    ASSERT_TRUE(expected->learn(example));
  }
  EXPECT_EQ(later, 200);
  ASSERT_TRUE(expected->finish(checkpoint));
  EXPECT_TRUE(train(log) == model::encode_model(expected->trainer().model()));
  EXPECT_TRUE(train(log) == model::encode_model(expected->trainer().model()));  // and a restart
}

TEST_F(LearnRecorded, WithACheckpointNothingIsReadAgain) {
  ASSERT_TRUE(learn_recorded(recorded("log.ndjson", 100), settings_, {}));
  RecordedInput gone;
  gone.file = (folder_ / "gone").string();
  EXPECT_TRUE(learn_recorded(gone, settings_, {}));
  std::filesystem::remove(settings_.trainer.checkpoint_file);
  EXPECT_FALSE(learn_recorded(gone, settings_, {}));
}

TEST_F(LearnRecorded, EvaluateLearnsTheCorrectionOfAnActionThatCameLate) {
  RecordedInput input = recorded("late.ndjson", 100);
  {
    std::ofstream file(input.file, std::ios::app);
    file << fmt::format(R"({{"topic":"clicks","user_id":"u{}","item_id":"i{}","timestamp":{},)"
                        R"("impression_id":"70","type":"like"}})"
                        "\n",
                        70 * 7 % kUsers, 70 * 11 % 30, kBegin + 70 * kStep + 1'000);
  }
  EvaluationOptions options;
  options.file = input.file;
  EXPECT_FALSE(evaluate(options, settings_, {}));  // not in time order
  input.replay.order_required = false;
  const Evaluation with = evaluated(input);
  EXPECT_EQ(with.rows.size(), 100U);
  EXPECT_EQ(with.models.at(0).result.examples, 101U);
  settings_.features.corrections.enabled = false;
  const Evaluation without = evaluated(input);
  EXPECT_EQ(without.models.at(0).result.examples, 100U);
  EXPECT_NE(model::encode_model(with.models.at(0).model),
            model::encode_model(without.models.at(0).model));
}

}  // namespace
}  // namespace sirenfeed::app
