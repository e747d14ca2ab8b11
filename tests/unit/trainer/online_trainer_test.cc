#include "trainer/online_trainer.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>
#include <limits>

#include "model/model_file.h"
#include "model/ranker.h"
#include "tests/unit/trainer/synthetic_examples.h"

namespace sirenfeed::trainer {
namespace {

std::unique_ptr<OnlineTrainer> make_trainer(const StepConfig& config = testing::small_step()) {
  auto trainer = OnlineTrainer::create(testing::small_model(), config);
  EXPECT_TRUE(trainer.has_value());
  return *std::move(trainer);
}

std::string state_of(const OnlineTrainer& trainer) {
  std::string bytes;
  trainer.append_to(bytes);
  return bytes;
}

void learn_all(OnlineTrainer& trainer, const std::vector<DecodedExample>& examples) {
  const std::size_t batch_examples = trainer.config().batch_examples;
  for (std::size_t begin = 0; begin < examples.size(); begin += batch_examples) {
    std::vector<const DecodedExample*> batch;
    for (std::size_t i = begin; i < std::min(examples.size(), begin + batch_examples); ++i) {
      batch.push_back(&examples[i]);
    }
    trainer.learn(batch);
  }
}

std::vector<DecodedExample> stream(std::size_t examples, std::size_t candidates = 1,
                                   std::uint64_t seed = 1) {
  return testing::decode_all(
      testing::make_examples({.examples = examples, .candidates = candidates, .seed = seed}));
}

/// Checkpoint and model file after `examples`, by 1, 2 and 8 threads, are the same bytes.
void expect_same_bytes(model::Variant variant, std::size_t steps) {
  // More threads than cores, and really as many.
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 8);
  model::ModelConfig model_config = testing::small_config();
  model_config.variant = variant;
  StepConfig config = testing::small_step();
  config.batch_examples = 8;
  config.chunk_examples = 1;
  const auto examples = stream(steps * config.batch_examples, 2);
  std::vector<std::string> states;
  std::vector<std::string> files;
  for (const std::size_t threads : {1U, 2U, 8U}) {
    config.threads = threads;
    const auto trainer = *OnlineTrainer::create(*model::make_model(model_config), config);
    learn_all(*trainer, examples);
    EXPECT_EQ(trainer->batches(), steps);
    states.push_back(state_of(*trainer));
    files.push_back(model::encode_model(trainer->model()));
  }
  EXPECT_EQ(states[0], states[1]);
  EXPECT_EQ(states[0], states[2]);
  EXPECT_EQ(files[0], files[1]);
  EXPECT_EQ(files[0], files[2]);
}

TEST(OnlineTrainer, TheBytesAfterAThousandStepsDoNotDependOnTheNumberOfThreads) {
  expect_same_bytes(model::Variant::kSiren, 1'000);
}

TEST(OnlineTrainer, TheBytesOfOtherVariantsDoNotDependOnTheNumberOfThreads) {
  for (const model::Variant variant : model::all_variants()) {
    SCOPED_TRACE(model::variant_name(variant));
    expect_same_bytes(variant, 20);
  }
}

TEST(OnlineTrainer, LearnsWhatTheLabelsDependOn) {
  StepConfig config = testing::small_step();
  config.metric_window_cells = 1'000;
  const auto trainer = make_trainer(config);
  learn_all(*trainer, stream(4'000));
  const WindowFigures click = trainer->progressive()[0];
  EXPECT_EQ(click.cells_total, 4'000U);
  EXPECT_GT(click.auc, 0.6);
  EXPECT_LT(click.normalized_entropy, 0.95);
  EXPECT_EQ(trainer->examples(), 4'000U);
  EXPECT_EQ(trainer->batches(), 250U);
}

TEST(OnlineTrainer, ProgressiveScoresComeFromTheModelBeforeTheStep) {
  const auto trainer = make_trainer();
  const auto examples = stream(16);
  std::vector<const DecodedExample*> batch;
  std::vector<const model::Slate*> slates;
  for (const DecodedExample& example : examples) {
    batch.push_back(&example);
    slates.push_back(&example.slate);
  }
  std::vector<float> logits;
  trainer->score(slates, logits);
  double expected = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(logits[3 * i])));
    expected -= std::log(examples[i].labels.label[0] > 0 ? p : 1 - p) / 16;
  }
  trainer->learn(batch);
  EXPECT_NEAR(trainer->progressive()[0].log_loss, expected, 1e-6);
  trainer->score(slates, logits);
  double after = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(logits[3 * i])));
    after -= std::log(examples[i].labels.label[0] > 0 ? p : 1 - p) / 16;
  }
  EXPECT_LT(after, expected);
}

TEST(OnlineTrainer, ScoresAsServingDoes) {
  const auto trainer = make_trainer();
  learn_all(*trainer, stream(160));
  const auto examples = stream(40, 3, /*seed=*/5);
  std::vector<const model::Slate*> slates;
  for (const DecodedExample& example : examples) slates.push_back(&example.slate);
  std::vector<float> logits;
  trainer->score(slates, logits);
  const auto ranker = model::make_ranker(trainer->model().config);
  model::Workspace workspace;
  for (std::size_t i = 0; i < slates.size(); ++i) {
    std::vector<float> own(9);
    ASSERT_TRUE(model::score(**ranker, trainer->model(), *slates[i], workspace, own).has_value());
    for (std::size_t cell = 0; cell < 9; ++cell) EXPECT_EQ(own[cell], logits[9 * i + cell]);
  }
}

TEST(OnlineTrainer, ABatchThatIsNotFiniteChangesNothing) {
  const auto trainer = make_trainer();
  auto examples = stream(48);
  learn_all(*trainer, std::vector(examples.begin(), examples.begin() + 32));
  const std::string model_before = model::encode_model(trainer->model());
  const WindowFigures click_before = trainer->progressive()[0];
  examples[40].labels.weight[0] = std::numeric_limits<float>::infinity();
  examples[41].slate.candidates[0].item = 999;  // no row may be made of it
  learn_all(*trainer, std::vector(examples.begin() + 32, examples.end()));
  EXPECT_EQ(trainer->batches_skipped(), 1U);
  EXPECT_EQ(trainer->batches(), 2U);
  EXPECT_EQ(trainer->examples(), 32U);
  EXPECT_EQ(model::encode_model(trainer->model()), model_before);
  EXPECT_EQ(trainer->progressive()[0].cells_total, click_before.cells_total);
}

TEST(OnlineTrainer, AFirstBatchThatIsSkippedLeavesTheTimeReferenceUnset) {
  const auto trainer = make_trainer();
  auto examples = stream(16);
  examples[0].labels.weight[0] = std::numeric_limits<float>::infinity();
  learn_all(*trainer, examples);
  EXPECT_EQ(trainer->model().config.time_reference_ms, 0);
}

TEST(OnlineTrainer, RowsAreMadeOfWhatWasLearnedAlone) {
  const auto trainer = make_trainer();
  const auto examples = stream(16);
  std::vector<const model::Slate*> slates;
  for (const DecodedExample& example : examples) slates.push_back(&example.slate);
  std::vector<float> logits;
  trainer->score(slates, logits);
  EXPECT_EQ(trainer->model().table(model::TableId::kItem).size(), 0U);
  learn_all(*trainer, examples);
  const auto& items = trainer->model().table(model::TableId::kItem);
  for (const DecodedExample& example : examples) {
    EXPECT_NE(items.index_of(example.slate.candidates[0].item), model::kNoRow);
  }
}

TEST(OnlineTrainer, TheTimeReferenceBeginsWithTheFirstExampleAndMovesByHalfTheSpan) {
  const auto trainer = make_trainer();
  const auto first = stream(16);
  learn_all(*trainer, first);
  const std::int64_t begin = first[0].slate.time_ms;
  const std::int64_t span = trainer->model().config.time_span_ms;
  EXPECT_EQ(trainer->model().config.time_reference_ms, begin);
  auto later = stream(16);
  for (DecodedExample& example : later) example.slate.time_ms += span / 2;
  learn_all(*trainer, later);
  EXPECT_EQ(trainer->model().config.time_reference_ms, begin + span / 2);
}

TEST(OnlineTrainer, ACorrectionIsLearnedButNotScoredAgain) {
  const auto trainer = make_trainer();
  auto examples = stream(32);
  learn_all(*trainer, std::vector(examples.begin(), examples.begin() + 16));
  const auto statistics = trainer->model().statistics.context_examples;
  auto corrections = std::vector(examples.begin() + 16, examples.end());
  for (DecodedExample& example : corrections) {
    example.labels.correction = true;
    example.labels.label = {1, 0, 0};
    example.labels.weight = {1, 0, 0};
  }
  std::vector<const model::Slate*> slates{&corrections[0].slate};
  std::vector<float> before;
  std::vector<float> after;
  trainer->score(slates, before);
  learn_all(*trainer, corrections);
  trainer->score(slates, after);
  EXPECT_GT(after[0], before[0]);
  EXPECT_EQ(trainer->examples(), 32U);
  EXPECT_EQ(trainer->progressive()[0].cells_total, 16U);
  EXPECT_EQ(trainer->model().statistics.context_examples, statistics);
}

TEST(OnlineTrainer, ARestoredTrainerGoesOnAsIfNothingHadHappened) {
  const auto examples = stream(320, 2);
  const auto undisturbed = make_trainer();
  learn_all(*undisturbed, examples);
  const auto first = make_trainer();
  learn_all(*first, std::vector(examples.begin(), examples.begin() + 160));
  const auto second = make_trainer();
  const auto restored = second->restore(state_of(*first));
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(state_of(*second), state_of(*first));
  learn_all(*second, std::vector(examples.begin() + 160, examples.end()));
  EXPECT_EQ(state_of(*second), state_of(*undisturbed));
  EXPECT_EQ(model::encode_model(second->model()), model::encode_model(undisturbed->model()));
}

TEST(OnlineTrainer, AWrongConfigurationIsNamed) {
  StepConfig config = testing::small_step();
  config.loss.task_weights = {1.0};
  EXPECT_FALSE(OnlineTrainer::create(testing::small_model(), config).has_value());
  config = testing::small_step();
  config.chunk_examples = 0;
  const auto refused = OnlineTrainer::create(testing::small_model(), config);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("chunk_examples"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::trainer
